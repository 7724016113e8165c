"""What both machines of the plain leg share: an emitter with the executor's structures at hand, addresses, symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuttle.abi import wire_layout as wire
from cuttle.abi.kernel_abi import CLUSTER_STRIDE
from cuttle.errors import PtxError
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.plain.program import Activation, Program
from cuttle.ptx.ir import Address, Symbol

LANES = 32
AXES = ("x", "y", "z")
SERVICE_INDEX = {name: index for index, name in enumerate(wire.SERVICES)}


@dataclass(frozen=True, slots=True)
class Place:
    """A memory operand: a byte address in a space; `space` is empty where the instruction's own space holds."""

    value: Value
    space: str = ""


class Structures:
    """Reads of `cuttle_launch` and `cuttle_block`. Nothing is kept: every use is a load of its own."""

    def __init__(self, program: Program, activation: Activation) -> None:
        self.program = program
        self.activation = activation
        self.emitter = Emitter()
        self.labels = 0

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        return body(operands)

    def label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}.{self.labels}"

    def mark(self, label: str) -> None:
        """Begins a block."""
        self.emitter.lines.append(f"{label}:")

    def offset(self, pointer: Value, offset: int | Value) -> Value:
        amount = offset.typed if isinstance(offset, Value) else f"i64 {offset}"
        return self.emitter.emit("ptr", 1, f"getelementptr i8, {pointer.typed}, {amount}")

    def read(self, pointer: Value, element: str, offset: int = 0) -> Value:
        return self.emitter.emit(element, 1, f"load {element}, {self.offset(pointer, offset).typed}, align 1")

    @property
    def block(self) -> Value:
        return Value("ptr", "%block")

    def launch(self) -> Value:
        return self.read(self.block, "ptr", wire.KERNEL_BLOCK_LAUNCH_AT)

    def launch_word(self, at: int, element: str = "i32") -> Value:
        return self.read(self.launch(), element, at)

    def block_word(self, at: int, element: str = "i32") -> Value:
        return self.read(self.block, element, at)

    def cluster_size(self, axis: int) -> Value:
        return self.launch_word(wire.KERNEL_LAUNCH_CLUSTER_AT + 4 * axis)

    def cluster_rank(self) -> Value:
        """The block's number in its cluster, x fastest; 0 outside of clusters."""
        e = self.emitter
        sizes = [self.cluster_size(axis) for axis in range(3)]
        x, y, z = (
            e.binary("urem", self.block_word(wire.KERNEL_BLOCK_CTAID_AT + 4 * axis), sizes[axis]) for axis in range(3)
        )
        return e.add(x, e.mul(sizes[0], e.add(y, e.mul(sizes[1], z))))

    def shared_offset(self) -> Value:
        """Where the block's own memory begins in the shared window (i64), as on hardware."""
        return self.emitter.mul(
            self.emitter.cast("zext", self.cluster_rank(), "i64"), self.emitter.const("i64", CLUSTER_STRIDE)
        )

    def own_shared_memory(self) -> Value:
        return self.block_word(wire.KERNEL_BLOCK_SHARED_AT, "ptr")

    def shared_memory(self) -> Value:
        """The pointer that shared addresses count from: the shared memory of the cluster's first block."""
        return self.offset(self.own_shared_memory(), self.emitter.neg(self.shared_offset()))

    def parameters(self) -> Value:
        return self.launch_word(wire.KERNEL_LAUNCH_PARAMETERS_AT, "ptr")

    def call_service(self, name: str, thread: Value, arguments: Sequence[Value]) -> Value:
        """One call of a service of the executor for a thread of the block; the result is an i64."""
        e = self.emitter
        table = self.launch_word(wire.KERNEL_LAUNCH_SERVICES_AT, "ptr")
        function = self.read(table, "ptr", 8 * SERVICE_INDEX[name])
        wide = [e.resize(argument, 64).typed for argument in arguments]
        wide += ["i64 0"] * (4 - len(wide))
        return e.emit("i64", 1, f"call i64 {function.text}({self.block.typed}, {thread.typed}, {', '.join(wide)})")

    # -- symbols -----------------------------------------------------------------------------------------------------

    def symbol(self, symbol: Symbol, base: Value) -> Place:
        """The address of a symbol in its own space; `base` (i64) is where the lane's activation begins."""
        e, program, function = self.emitter, self.program, self.activation.function
        name = symbol.name

        def in_activation(at: int, space: str) -> Place:
            return Place(e.add(base, e.const("i64", at + symbol.offset)), space)

        variable = function.variables.get(name)
        if variable is not None and variable.space in ("local", "param"):
            return in_activation(self.activation.variables[name], "local")
        if name in self.activation.formals:
            return in_activation(self.activation.formals[name], "local")
        for parameter in function.parameters:
            if parameter.name == name:
                return Place(e.const("i64", parameter.offset + symbol.offset), "param")
        if variable is None:
            name = program.resolve(name)
            variable = program.module.variables.get(name)
        if variable is None:
            if name not in program.handles:
                raise PtxError("PTX-0304", f"{name} has no address here")
            return Place(e.const("i64", program.handles[name] + symbol.offset))
        if variable.space == "shared":
            own = e.const("i64", program.shared[variable.name] + symbol.offset)
            return Place(e.add(own, self.shared_offset()), "shared")
        if variable.space == "local":
            return Place(e.const("i64", program.local[name] + symbol.offset), "local")
        table = self.launch_word(wire.KERNEL_LAUNCH_SYMBOLS_AT, "ptr")
        address = self.read(table, "i64", 8 * program.symbols.index(variable.name))
        return Place(e.add(address, e.const("i64", symbol.offset)))

    def place(self, operand: Address, base: Value, register: Value | None) -> Place:
        """A memory operand `[base+offset]`; `register` is the value of its base register if it has one."""
        e = self.emitter
        if isinstance(operand.base, Symbol):
            return self.symbol(Symbol(operand.base.name, operand.base.offset + operand.offset), base)
        if register is None:
            return Place(e.const("i64", operand.offset))
        # 32-bit addresses of windows are extended by sign: a base may be negative before its offset is added.
        return Place(e.add(e.resize(register, 64, signed=True), e.const("i64", operand.offset)))

    def space_of(self, place: Place, space: str) -> str:
        """The space an access goes to: a symbol's own wins, and parameters of device functions lie in local memory."""
        found = place.space or space
        return "local" if found == "param" and not self.activation.function.is_entry else found
