"""Atomic read-modify-writes: native where a target has them (LLVM decides), else compare-and-swap loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuttle.lower.cpu.atomics import FLOAT, RMW, combine
from cuttle.lower.emit import Value
from cuttle.lower.ops.policy import policy

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

CANONICAL_NAN = 0x7FFF_FFFF
# Memory that other devices or the host see at fine grain has no native float atomics; ours is never that. Subnormals: PTX ISA 9.0,
# 9.7.13.5, lets `atom.add.f32` on global memory flush them.
NATIVE = ", !amdgpu.no.fine.grained.memory !0, !amdgpu.no.remote.memory !0, !amdgpu.ignore.denormal.mode !0"


class Atomics:
    """Atomics of one function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter

    def atomic(
        self, operation: str, type_name: str, number: int, pointer: str, operands: Sequence[Value], order: str,
        *, unused: bool = False
    ) -> Value:  # fmt: skip
        """One atomic at a typed pointer; `order` is scope and ordering. Returns the old value, which nobody wants if `unused`."""
        e = self.emitter
        value = operands[0]
        align = value.bits // 8
        if operation == "cas":
            return self.compare_exchange(pointer, operands[0], operands[1], order)[0]
        is_float = type_name in FLOAT or type_name in ("f16x2", "bf16x2")
        if operation == "add" and type_name == "f32" and (unused or not policy.exact_nan):
            return self.native_add(pointer, value, order)
        if is_float and operation != "exch":
            return self.update_loop(operation, type_name, pointer, value, order)
        if operation in ("min", "max"):
            name = operation if type_name.startswith("s") else f"u{operation}"
        else:
            name = RMW[operation]
        return e.emit(value.type, 1, f"atomicrmw {name} {pointer}, {value.typed} {order}, align {align}")

    def native_add(self, pointer: str, value: Value, order: str) -> Value:
        """The GPU's own addition of floats. It leaves a NaN of another kind in memory than NVIDIA's, which is replaced: nobody sees
        the difference who does not look between the two, and that is why old values that somebody wants come from a loop.
        """
        e, writer = self.emitter, self.writer
        added = e.bitcast(value, "float")
        before = e.emit("float", 1, f"atomicrmw fadd {pointer}, {added.typed} {order}, align 4{NATIVE}")
        old = e.bitcast(before, value.type)
        if not policy.exact_nan:
            return old
        total = e.binary("fadd", before, added)
        look, fine = writer.fresh_label("nan"), writer.fresh_label("number")
        e.line(f"br {e.fcmp('uno', total, total).typed}, label %{look}, label %{fine}")
        writer.label(look)
        scope = order.rpartition(" ")[0]
        found = e.emit(value.type, 1, f"load atomic {value.type}, {pointer} {scope} monotonic, align 4")
        number = e.bitcast(found, "float")
        replace = writer.fresh_label("replace")
        # Another lane may replace it first, or somebody store a number meanwhile: then there is nothing to do, or to do again.
        wrong = e.and_(e.fcmp("uno", number, number), e.icmp("ne", found, e.const(value.type, CANONICAL_NAN)))
        e.line(f"br {wrong.typed}, label %{replace}, label %{fine}")
        writer.label(replace)
        _, success = self.compare_exchange(pointer, found, e.const(value.type, CANONICAL_NAN), order)
        e.line(f"br {success.typed}, label %{fine}, label %{look}")
        writer.label(fine)
        return old

    def compare_exchange(self, pointer: str, expected: Value, new: Value, order: str) -> tuple[Value, Value]:
        """The old value, and whether it was the expected one."""
        e = self.emitter
        scope, _, ordering = order.rpartition(" ")
        failure = (
            "acquire" if ordering in ("acquire", "acq_rel") else "seq_cst" if ordering == "seq_cst" else "monotonic"
        )
        pair = e.name()
        e.line(
            f"{pair} = cmpxchg {pointer}, {expected.typed}, {new.typed} {scope} {ordering} {failure}, "
            f"align {expected.bits // 8}"
        )
        kind = f"{{ {expected.type}, i1 }}"
        return (
            e.emit(expected.type, 1, f"extractvalue {kind} {pair}, 0"),
            e.emit("i1", 1, f"extractvalue {kind} {pair}, 1"),
        )

    def update_loop(self, operation: str, type_name: str, pointer: str, operand: Value, order: str) -> Value:
        """Read, compute, compare and swap, until nobody was faster."""
        e, writer = self.emitter, self.writer
        scope = order.rpartition(" ")[0]
        seen = writer.allocate(operand.type)
        first = e.emit(
            operand.type, 1, f"load atomic {operand.type}, {pointer} {scope} monotonic, align {operand.bits // 8}"
        )
        e.line(f"store {first.typed}, {seen}")
        again, done = writer.fresh_label("again"), writer.fresh_label("updated")
        e.line(f"br label %{again}")
        writer.label(again)
        old = e.emit(operand.type, 1, f"load {operand.type}, {seen}")
        new = combine(e, operation, type_name, old, operand)
        found, success = self.compare_exchange(pointer, old, new, order)
        e.line(f"store {found.typed}, {seen}")
        e.line(f"br {success.typed}, label %{done}, label %{again}")
        writer.label(done)
        return old
