"""One graph as an LLVM function: value slots, labels, launch record, symbols; and its blocks with their own branches.

Values that live beyond their block have a stack slot; LLVM makes registers of slots. Functions with spin loops are written by `scan.py`.

    kernel:    amdgpu_kernel void NAME(byref parameters, byref launch record)
    function:  void "f.NAME"(launch record, scratch of parameters and results)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cuttle.abi.amdgpu_abi import AMDGPU_LAUNCH, offset_of
from cuttle.abi.ptx_isa.refused_on_amdgpu import EXIT_IN_FUNCTION
from cuttle.lower.amdgpu.machine import LaneMachine
from cuttle.lower.amdgpu.nodes import NodeWriter
from cuttle.lower.amdgpu.plan import STACK_ALIGN, FunctionPlan
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.check_operands import translating
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.passes.graph import Branch, Exit, Jump
from cuttle.ptx.ir import Symbol

RECORD = "ptr addrspace(4) %record"


class FunctionWriter:
    """Collects the text of one function in `emitter`; `allocas` belong into its entry block."""

    def __init__(self, plan: FunctionPlan) -> None:
        self.plan = plan
        self.emitter = Emitter()
        self.emitter.table_space = 4
        self.allocas: list[str] = []
        self.declared: set[int] = set()
        self.local: dict[int, Value] = {}
        self.clean: dict[int, Value] = {}
        self.current_label = "entry"
        self.label_count = 0
        self.slot_count = 0
        self.outlined: dict[str, list[Value]] = {}
        self.machine = LaneMachine(self)
        self.nodes = NodeWriter(self)
        if plan.local_bytes:
            align = max(plan.layout.local_align, 16)
            self.allocas.append(f"  %local = alloca [{plan.local_bytes} x i8], align {align}, addrspace(5)")
        if plan.stack_at >= 0:
            self.allocas += [
                f"  %stack.word = getelementptr i8, ptr addrspace(5) %local, i32 {plan.stack_at}",
                f"  %stack.first = getelementptr i8, ptr addrspace(5) %stack.word, i32 {STACK_ALIGN}",
                "  %stack.start = ptrtoint ptr addrspace(5) %stack.first to i32",
                "  store i32 %stack.start, ptr addrspace(5) %stack.word, align 4",
            ]

    # -- labels, slots, calls ----------------------------------------------------------------------------------------

    def fresh_label(self, stem: str) -> str:
        self.label_count += 1
        return f"{stem}.{self.label_count}"

    def label(self, name: str) -> None:
        self.emitter.lines.append(f"{name}:")
        self.current_label = name

    def allocate(self, llvm_type: str, align: int = 8) -> str:
        """A stack slot, as a typed pointer operand."""
        self.slot_count += 1
        self.allocas.append(f"  %slot{self.slot_count} = alloca {llvm_type}, align {align}, addrspace(5)")
        return f"ptr addrspace(5) %slot{self.slot_count}"

    def call(self, result: str, name: str, *arguments: Value) -> Value:
        """Calls a scalar LLVM intrinsic; the value of a void one is meaningless."""
        e = self.emitter
        e.declare(f"@{name}", f"declare {result} @{name}({', '.join(a.llvm_type for a in arguments)})")
        text = f"call {result} @{name}({', '.join(a.typed for a in arguments)})"
        if result == "void":
            e.line(text)
            return e.const("i1", 0)
        return e.emit(result, 1, text)

    def when(self, condition: Value, body: Callable[[], list[Value]], otherwise: list[Value]) -> list[Value]:
        """Runs `body` in the lanes for which the condition (i1) holds; its results, or those of `otherwise`."""
        e = self.emitter
        inside, after = self.fresh_label("when"), self.fresh_label("after")
        before = self.current_label
        e.line(f"br {condition.typed}, label %{inside}, label %{after}")
        known = dict(self.local), dict(self.clean)
        self.label(inside)
        values = body()
        e.line(f"br label %{after}")
        end = self.current_label
        self.label(after)
        self.local, self.clean = known
        return [
            e.emit(value.type, 1, f"phi {value.type} [ {value.text}, %{end} ], [ {other.text}, %{before} ]")
            for value, other in zip(values, otherwise, strict=True)
        ]

    # -- values ------------------------------------------------------------------------------------------------------

    def slot(self, value: int) -> str:
        if value not in self.declared:
            self.declared.add(value)
            bits = self.plan.graph.values[value].bits
            self.allocas.append(f"  %r{value} = alloca i{bits}, align {max(bits // 8, 1)}, addrspace(5)")
        return f"ptr addrspace(5) %r{value}"

    def read(self, value: int) -> Value:
        known = self.local.get(value)
        if known is not None:
            return known
        info = self.plan.graph.values[value]
        if info.undefined:
            return self.emitter.const(f"i{info.bits}", 0)
        loaded = self.emitter.emit(f"i{info.bits}", 1, f"load i{info.bits}, {self.slot(value)}")
        self.local[value] = loaded
        return loaded

    def write(self, value: int, new: Value) -> None:
        if value in self.plan.crossing:
            self.emitter.line(f"store {new.typed}, {self.slot(value)}")
        self.local[value] = new
        self.clean.pop(value, None)

    # -- launch record and symbols -----------------------------------------------------------------------------------

    def record_field(self, offset: int, llvm_type: str) -> Value:
        e = self.emitter
        place = e.emit("ptr", 1, f"getelementptr i8, {RECORD}, i64 {offset}")
        align = 8 if llvm_type == "i64" else 4
        load = f"load {llvm_type}, ptr addrspace(4) {place.text}, align {align}, !invariant.load !0"
        return e.emit(llvm_type, 1, load)

    def launch_field(self, name: str, index: int = 0) -> Value:
        return self.record_field(offset_of(AMDGPU_LAUNCH, name) + 4 * index, "i32")

    def launch_field64(self, name: str) -> Value:
        return self.record_field(offset_of(AMDGPU_LAUNCH, name), "i64")

    def symbol(self, symbol: Symbol) -> Value:
        """A symbol's address in its own space's window, 64 bits."""
        e = self.emitter
        plan = self.plan
        space = plan.symbol_space(symbol.name)
        if space in ("local", "param") and not (space == "param" and plan.is_entry):
            pointer = self.scratch_pointer(symbol.name, symbol.offset)
            return e.cast("zext", e.emit("i32", 1, f"ptrtoint {pointer} to i32"), "i64")
        if space == "param":
            parameter = next(p for p in plan.graph.function.parameters if p.name == symbol.name)
            return e.const("i64", parameter.offset + symbol.offset)
        name = plan.module.aliases.get(symbol.name, symbol.name)
        if space == "shared":
            return e.const("i64", plan.layout.shared[name] + symbol.offset)
        handle = plan.function_handles.get(name)
        if handle is not None:
            return e.const("i64", handle + symbol.offset)
        address = self.record_field(AMDGPU_LAUNCH.bytes + 8 * plan.layout.symbol_index(name), "i64")
        return e.add(address, e.const("i64", symbol.offset)) if symbol.offset else address

    def scratch_pointer(self, name: str, offset: int) -> str:
        """A typed pointer to a local variable, or to a real function's parameter or result."""
        if name in self.plan.layout.local:
            return self.local_pointer(self.plan.layout.local[name] + offset)
        return self.offset_pointer("%formals", self.plan.formals[name] + offset)

    def local_pointer(self, offset: int) -> str:
        return self.offset_pointer("%local", offset)

    def offset_pointer(self, base: str, offset: int) -> str:
        place = self.emitter.emit("ptr", 1, f"getelementptr i8, ptr addrspace(5) {base}, i32 {offset}")
        return f"ptr addrspace(5) {place.text}"

    # -- blocks ------------------------------------------------------------------------------------------------------

    def write_blocks(self) -> None:
        """All blocks with the program's own branches."""
        for index in self.plan.order:
            block = self.plan.graph.blocks[index]
            self.label(block_label(index))
            self.local, self.clean = {}, {}
            for node in block.nodes:
                with translating(node.instruction):
                    self.nodes.execute(node)
            self.write_ending(index, lambda successor: self.emitter.line(f"br label %{block_label(successor)}"))

    def edge_values(self, block: int, successor: int) -> list[tuple[int, Value]]:
        """What the successor's phis get from this block, all read before any is written."""
        phis = self.plan.graph.blocks[successor].phis
        return [(phi.result, self.nodes.incoming(phi.incoming[block], phi.result)) for phi in phis]

    def write_edge(self, values: list[tuple[int, Value]]) -> None:
        for result, value in values:
            self.emitter.line(f"store {value.typed}, {self.slot(result)}")

    def write_ending(self, block: int, go: Callable[[int], None]) -> None:
        """The block's terminator; `go` writes the way to a successor, once for each, behind the values of its phis."""
        e = self.emitter
        terminator = self.plan.graph.blocks[block].terminator
        if isinstance(terminator, Exit):
            self.write_exit(terminator)
            return
        values = {
            successor: self.edge_values(block, successor) for successor in self.plan.graph.blocks[block].successors
        }
        labels = {successor: self.fresh_label("edge") for successor in values}
        if isinstance(terminator, Jump):
            e.line(f"br label %{labels[terminator.target]}")
        elif isinstance(terminator, Branch):
            predicate = self.read(terminator.predicate.id)
            taken, otherwise = labels[terminator.taken], labels[terminator.otherwise]
            if terminator.negated:
                taken, otherwise = otherwise, taken
            e.line(f"br {predicate.typed}, label %{taken}, label %{otherwise}")
        else:
            index = self.read(terminator.index.id)
            cases = [f"{index.type} {n}, label %{labels[t]}" for n, t in enumerate(terminator.targets[:-1])]
            e.line(f"switch {index.typed}, label %{labels[terminator.targets[-1]]} [ {' '.join(cases)} ]")
        for successor, label in labels.items():
            self.label(label)
            self.write_edge(values[successor])
            go(successor)

    def write_exit(self, terminator: Exit) -> None:
        if terminator.kind == "exit" and not self.plan.is_entry:
            raise refusal("exit", "the end of a thread in a function that is called for real", EXIT_IN_FUNCTION.code)
        self.emitter.line("unreachable" if terminator.kind == "trap" else "ret void")

    def text(self, head: str, attributes: str, prelude: list[str]) -> str:
        """The finished function."""
        body = [*self.allocas, *prelude, f"  br label %{block_label(0) if not self.plan.scan else 'scan'}"]
        return "\n".join([f"define {head} {attributes} {{", "entry:", *body, *self.emitter.lines, "}"])

    def refuse(self, reason: str, code: str = "PTX-0304") -> NoReturn:
        self.machine.refuse(reason, code)


def block_label(index: int) -> str:
    return f"b{index}"
