"""Loads, stores and addresses: PTX state spaces as LLVM address spaces (`docs/design/amdgpu.md`, section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuttle.abi.ptx_isa.refused_on_amdgpu import SPACE_OF_CONSTANTS
from cuttle.lower.emit import Value
from cuttle.lower.passes.graph import SsaAddress, ValueRef
from cuttle.ptx.ir import Symbol

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

FLAT, GLOBAL, LDS, CONSTANT, SCRATCH = 0, 1, 3, 4, 5
SPACE_NUMBERS = {"generic": FLAT, "global": GLOBAL, "const": GLOBAL, "shared": LDS, "param": CONSTANT, "local": SCRATCH}
# Instructions whose operands are aligned to the whole access; other ops may load neighbours at element alignment.
WHOLE = frozenset(("ld", "ldu", "st", "cp.async"))
LOAD_SCOPES = {"cta": 'syncscope("workgroup") ', "cluster": 'syncscope("agent") ', "gpu": 'syncscope("agent") '}
ATOMIC_BITS = (8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Moved:
    """An address operand and a distance (i64) that differs from lane to lane."""

    base: SsaAddress
    amount: Value


class Memory:
    """Memory accesses of one function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter

    # -- addresses ---------------------------------------------------------------------------------------------------

    def pointer(self, space: str, address: Any, offset: int = 0) -> tuple[int, str]:
        """The LLVM address space of a memory operand, and the operand as a typed pointer."""
        e = self.emitter
        if isinstance(address, Moved):
            number, text = self.pointer(space, address.base, offset)
            distance = e.resize(address.amount, 32) if number in (LDS, SCRATCH) else address.amount
            return number, self.typed(number, e.emit("ptr", 1, f"getelementptr i8, {text}, {distance.typed}").text)
        if isinstance(address, Value):
            return self.from_integer(self.space_of_value(space), address, offset)
        assert isinstance(address, SsaAddress)
        offset += address.offset
        if address.base is None:
            return self.from_integer(space, e.const("i64", offset), 0)
        if isinstance(address.base, Symbol):
            return self.of_symbol(space, address.base, offset)
        assert isinstance(address.base, ValueRef)
        place = self.writer.plan.places.get(address.base.id)
        if place is not None and space in ("local", "generic"):
            return SCRATCH, self.writer.scratch_pointer(place[0], place[1] + offset)
        if space == "generic":
            found = self.writer.plan.spaces[address.base.id]
            space = found if found in ("global", "shared", "local") else "generic"
        return self.from_integer(space, self.writer.read(address.base.id), offset)

    def space_of_value(self, space: str) -> str:
        """Texture and surface descriptors and their texels are global memory; their ops do not say so."""
        instruction = self.writer.machine.instruction
        textures = ("tex", "tld4", "txq", "suq", "suld", "sust", "sured")
        return "global" if space == "generic" and instruction is not None and instruction.opcode in textures else space

    def of_symbol(self, space: str, symbol: Symbol, offset: int) -> tuple[int, str]:
        plan = self.writer.plan
        own = plan.symbol_space(symbol.name)
        if own == "local" or own == "param" and not plan.is_entry:
            return SCRATCH, self.writer.scratch_pointer(symbol.name, symbol.offset + offset)
        value = self.writer.symbol(Symbol(symbol.name, symbol.offset + offset))
        return self.from_integer(own or space, value, 0)

    def from_integer(self, space: str, value: Value, offset: int) -> tuple[int, str]:
        """A window address (generic: a 64-bit address) as a pointer."""
        e = self.emitter
        if space == "param" and not self.writer.plan.is_entry:
            space = "local"
        number = SPACE_NUMBERS[space]
        if number == CONSTANT:
            at = e.add(e.resize(value, 64), e.const("i64", offset))
            return number, self.typed(
                number, e.emit("ptr", 1, f"getelementptr i8, ptr addrspace(4) %parameters, {at.typed}").text
            )
        bits = 32 if number in (LDS, SCRATCH) else 64
        value = e.resize(value, bits)
        if number == LDS and value.constant is not None:
            value, offset = e.const("i32", value.constant + offset), 0
        pointer = e.emit("ptr", 1, f"inttoptr {value.typed} to {self.kind(number)}").text
        if offset:
            pointer = e.emit("ptr", 1, f"getelementptr i8, {self.typed(number, pointer)}, i{bits} {offset}").text
        return number, self.typed(number, pointer)

    def kind(self, number: int) -> str:
        return f"ptr addrspace({number})" if number else "ptr"

    def typed(self, number: int, name: str) -> str:
        return f"{self.kind(number)} {name}"

    def moved(self, number: int, pointer: str, offset: int) -> str:
        if not offset:
            return pointer
        bits = 32 if number in (LDS, SCRATCH) else 64
        return self.typed(number, self.emitter.emit("ptr", 1, f"getelementptr i8, {pointer}, i{bits} {offset}").text)

    # -- accesses ----------------------------------------------------------------------------------------------------

    def alignment(self, bits: int, count: int) -> int:
        instruction = self.writer.machine.instruction
        whole = instruction is not None and instruction.opcode in WHOLE
        return bits // 8 * count if whole else bits // 8

    def atomic_order(self, number: int, ordering: str) -> str:
        """Scope and ordering of a strong access."""
        instruction = self.writer.machine.instruction
        scope = ""
        if number == LDS:
            scope = LOAD_SCOPES["cta"]
        elif ordering != "volatile" and instruction is not None:
            scope = next((text for name, text in LOAD_SCOPES.items() if instruction.has(name)), "")
        return scope + {"volatile": "monotonic", "relaxed": "monotonic"}.get(ordering, ordering)

    def load(
        self, space: str, bits: int, count: int, address: Any, ordering: str, *, read_only: bool
    ) -> list[Value]:  # fmt: skip
        e = self.emitter
        number, pointer = self.pointer(space, address)
        if ordering != "weak" and bits in ATOMIC_BITS and number != CONSTANT:
            order = self.atomic_order(number, ordering)
            flag = "volatile " if ordering == "volatile" else ""
            return [
                e.emit(
                    f"i{bits}", 1,
                    f"load atomic {flag}i{bits}, {self.moved(number, pointer, index * bits // 8)} {order}, align {bits // 8}",
                )
                for index in range(count)
            ]  # fmt: skip
        note = ", !invariant.load !0" if number == CONSTANT or read_only and number in (FLAT, GLOBAL) else ""
        flag = "volatile " if ordering != "weak" else ""
        align = self.alignment(bits, count)
        if count == 1:
            return [e.emit(f"i{bits}", 1, f"load {flag}i{bits}, {pointer}, align {align}{note}")]
        vector = e.emit(f"i{bits}", count, f"load {flag}<{count} x i{bits}>, {pointer}, align {align}{note}")
        return [e.extract(vector, index) for index in range(count)]

    def store(self, space: str, bits: int, address: Any, values: Sequence[Value], ordering: str) -> None:
        e = self.emitter
        number, pointer = self.pointer(space, address)
        if number == CONSTANT:
            self.writer.refuse("a store to a kernel parameter")
        if ordering != "weak" and bits in ATOMIC_BITS:
            order = self.atomic_order(number, ordering)
            flag = "volatile " if ordering == "volatile" else ""
            for index, value in enumerate(values):
                place = self.moved(number, pointer, index * bits // 8)
                e.line(f"store atomic {flag}{value.typed}, {place} {order}, align {bits // 8}")
            return
        align = self.alignment(bits, len(values))
        stored = values[0]
        if len(values) > 1:
            stored = e.poison(f"i{bits}", len(values))
            for index, value in enumerate(values):
                stored = e.insert(stored, index, value)
        e.line(f"store {'volatile ' if ordering != 'weak' else ''}{stored.typed}, {pointer}, align {align}")

    # -- windows and generic addresses -------------------------------------------------------------------------------

    def aperture(self, number: int) -> Value:
        """The upper half of the generic addresses of LDS or scratch."""
        e = self.emitter
        name = f"llvm.amdgcn.addrspacecast.nonnull.p0.p{number}"
        e.declare(f"@{name}", f"declare ptr @{name}({self.kind(number)})")
        zero = e.emit("ptr", 1, f"inttoptr i32 0 to {self.kind(number)}")
        generic = e.emit("ptr", 1, f"call ptr @{name}({self.kind(number)} {zero.text})")
        base = e.emit("i64", 1, f"ptrtoint ptr {generic.text} to i64")
        upper = e.const("i64", 32)
        return e.shl(e.lshr(base, upper), upper)

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        e = self.emitter
        number = SPACE_NUMBERS[space]
        if number == CONSTANT and not self.writer.plan.is_entry:
            number = SCRATCH
        if number == CONSTANT:
            base = e.emit("i64", 1, "ptrtoint ptr addrspace(4) %parameters to i64")
            wide = e.resize(address, 64)
            return e.resize(e.add(wide, base) if to_generic else e.sub(wide, base), address.bits)
        if number not in (LDS, SCRATCH):
            return address
        low = e.cast("zext", e.resize(address, 32), "i64")
        if not to_generic:
            return e.resize(low, address.bits)
        if address.bits != 64:
            self.writer.refuse("generic addresses of 32 bits")
        return e.or_(self.aperture(number), low)

    def is_space(self, space: str, address: Value) -> Value:
        e = self.emitter
        if space in ("const", "global") and any(v.space == "const" for v in self.writer.plan.module.variables.values()):
            # Constants lie among other variables, and a kernel knows the addresses of its own alone.
            self.writer.refuse(
                "asking for global or constant memory in a module with constants", SPACE_OF_CONSTANTS.code
            )
        if space == "const" or space == "param" and not self.writer.plan.is_entry:
            return e.const("i1", 0)
        if space == "param":
            if not self.writer.plan.graph.function.parameters:
                return e.const("i1", 0)
            base = e.emit("i64", 1, "ptrtoint ptr addrspace(4) %parameters to i64")
            size = e.const("i64", self.writer.plan.graph.function.parameter_bytes)
            return e.icmp("ult", e.sub(address, base), size)
        if space == "global":
            others = [self.is_space(other, address) for other in ("local", "shared", "param")]
            return e.not_(e.or_(e.or_(others[0], others[1]), others[2]))
        upper = e.const("i64", 32)
        number = SPACE_NUMBERS[space]
        return e.icmp("eq", e.shl(e.lshr(address, upper), upper), self.aperture(number))
