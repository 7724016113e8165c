"""One SSA node as LLVM text: operands by shape, the op function, guards, results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuttle.lower.cpu.calls import emit_call
from cuttle.lower.cpu.compare_lanes import FLIPPED, comparison, counts_up, lanes_below
from cuttle.lower.cpu.line_table import SCOPE
from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.cpu.shaped import Shaped, materialise, of_value, operand_value, segment_bases, uniform
from cuttle.lower.cpu.special import special_shape, special_value
from cuttle.lower.emit import Value
from cuttle.lower.fault_sites import may_fault
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.check_operands import translating
from cuttle.lower.ops.policy import policy
from cuttle.lower.passes.affine_rules import folds_factors, needs_wrap_check, rule_operands
from cuttle.lower.passes.find_dirty_nans import carries_on, is_lazy
from cuttle.lower.passes.graph import Node, SsaAddress, SsaNegated, SsaOperand, SsaSelected, ValueRef
from cuttle.lower.passes.infer_shapes import flatten
from cuttle.lower.passes.shape import LANES, UNIFORM, Shape, constant
from cuttle.ptx.ir import TYPE_BITS, Immediate, SpecialRegister, Symbol

if TYPE_CHECKING:
    from cuttle.lower.cpu.region import RegionEmitter

CANONICAL_NAN = 0x7FFFFFFF
TRAP_FAULT = 3
WRAP_FAULT = 9


class NodeWriter:
    """Writes nodes of the block whose lanes stand in `current`."""

    def __init__(self, region: RegionEmitter) -> None:
        self.region = region
        self.emitter = region.emitter
        self.machine = region.machine
        self.plan = region.plan
        self.current = Lanes()
        self.any_nan = False
        self.recomputing = False  # values that were computed, and checked, before

    # -- operands ----------------------------------------------------------------------------------------------------

    def shaped(self, operand: SsaOperand, type_name: str) -> Shaped:
        e = self.emitter
        if isinstance(operand, ValueRef):
            return self.region.read(operand.id) if self.any_nan else self.canonical(operand.id)
        if isinstance(operand, Immediate):
            return uniform(dispatch.immediate(e, operand, type_name))
        if isinstance(operand, SsaNegated):
            shaped = self.region.read(operand.ref.id)
            return of_value(e.not_(operand_value(e, shaped)))
        if isinstance(operand, SsaSelected):
            return self.canonical(operand.ref.id)  # the op function looks at the instruction's selector
        if isinstance(operand, SpecialRegister):
            try:
                return special_value(self.region, operand.name)
            except KeyError:
                self.machine.refuse(f"special register {operand.name} is not supported")
        if isinstance(operand, Symbol):
            return self.region.symbol(operand)[0]
        self.machine.refuse(f"operand {operand!r} is not supported here")
        raise AssertionError

    def canonical(self, value: int) -> Shaped:
        """The value with NVIDIA's NaN in place of any other (`find_dirty_nans`)."""
        if value not in self.plan.dirty_nans:
            return self.region.read(value)
        known = self.region.clean.get(value)
        if known is None:
            e = self.emitter
            shaped = self.region.read(value)

            def clean(bits: Value) -> Value:
                number = e.bitcast(bits, "float")
                return e.select(e.fcmp("uno", number, number), e.const("i32", CANONICAL_NAN), bits)

            if shaped.vector is not None:
                known = Shaped(clean(shaped.vector))
            else:
                known = Shaped(None, tuple(clean(base) for base in shaped.bases))
            self.region.clean[value] = known
        return known

    def incoming(self, value: int, result: int) -> Shaped:
        """The value as a phi or a guarded `result` takes it in."""
        return self.region.read(value) if result in self.plan.dirty_nans else self.canonical(value)

    def guard_value(self, node: Node) -> Value | None:
        """The guard as i1, scalar or one per lane."""
        if node.guard is None:
            return None
        value = operand_value(self.emitter, self.region.read(node.guard.id))
        return self.emitter.not_(value) if node.guard_negated else value

    def member_mask(self, node: Node) -> Value:
        """The member mask of a `.sync` operation, scalar or one per lane."""
        return operand_value(self.emitter, self.shaped(node.operands[-1], "b32"))

    def restricted(self, guard: Value) -> Lanes:
        """The current lanes whose guard holds."""
        e = self.emitter
        vector = e.splat(guard, LANES)
        if self.current.vector is not None:
            vector = e.and_(self.current.vector, vector)
        return Lanes(e.emit("i32", 1, f"bitcast {vector.typed} to i32"), vector, maybe_none=True)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def execute(self, node: Node, *, blend: bool) -> None:
        """Emits a node that is not a stop."""
        instruction = node.instruction
        with translating(instruction):
            if not may_fault(instruction):
                self.emit(node, blend=blend)
                return
            self.emitter.place = f", !dbg !DILocation(line: {instruction.location.line}, scope: {SCOPE})"
            try:
                self.emit(node, blend=blend)
            finally:
                self.emitter.place = ""

    def emit(self, node: Node, *, blend: bool) -> None:
        e = self.emitter
        instruction = node.instruction
        self.machine.instruction = instruction
        self.machine.lanes = self.current
        guard = self.guard_value(node)
        if node.opcode in ("trap", "brkpt"):
            self.guarded(guard, lambda: self.any_active_trap(instruction.location.line))
            return
        if node.opcode == "call":
            emit_call(self, node)
            return
        row, _ = dispatch.find(instruction.opcode)
        pure = row.effects == "pure"
        self.any_nan = carries_on(node)
        lazy = is_lazy(node) and node.results[0] in self.plan.dirty_nans
        policy.exact_nan = self.plan.options.exact_nan and not lazy
        if guard is not None and not pure:
            if guard.lanes == 1 and not any(result is not None for result in node.results):
                self.guarded(guard, lambda: self.apply(node, blend=False, guard=None))
                return
            self.machine.lanes = self.restricted(guard)
        self.apply(node, blend=blend, guard=guard)
        self.any_nan = False
        self.machine.lanes = self.current
        if row.effects == "write" and instruction.opcode in ("fence", "membar"):
            e.line('fence syncscope("singlethread") seq_cst')

    def guarded(self, guard: Value | None, body: Any) -> None:
        """Runs `body` only if the (scalar) guard holds, or any lane's does."""
        e = self.emitter
        if guard is None:
            body()
            return
        if guard.lanes > 1:
            self.machine.lanes = self.restricted(guard)
            assert self.machine.lanes.bits is not None
            guard = e.icmp("ne", self.machine.lanes.bits, e.const("i32", 0))
        inside, after = self.region.fresh_label("guarded"), self.region.fresh_label("after")
        e.line(f"br {guard.typed}, label %{inside}, label %{after}")
        self.region.label(inside)
        known = self.region.remember()
        body()
        self.region.recall(known)
        e.line(f"br label %{after}")
        self.region.label(after)
        self.machine.lanes = self.current

    def any_active_trap(self, line: int) -> None:
        e = self.emitter
        bits = self.machine.lanes.bits
        lane = e.intrinsic("llvm.cttz", [bits, e.const("i1", 0)]) if bits is not None else e.const("i32", 0)
        self.region.call_service("trap", lane, [e.const("i64", TRAP_FAULT), e.const("i64", line)])

    def apply(self, node: Node, *, blend: bool, guard: Value | None) -> None:
        instruction = node.instruction
        slots = dispatch.signature(instruction)
        operands = flatten(node.operands)
        shapes = [self.plan.shape(result) for result in node.results if result is not None]
        scalar = bool(shapes) and all(not shape.is_vector for shape in shapes)
        row, _ = dispatch.find(instruction.opcode)
        if comparison(instruction) and self.compare_by_count(node, operands, guard, blend=blend):
            return
        widths = self.widths(node, slots)
        self.machine.result_unused = all(result is None or result not in self.plan.used for result in node.results)
        results: list[Shaped]
        if scalar and row.effects == "pure":
            results = self.apply_to_bases(node, slots, operands, shapes, widths, guard)
        elif scalar and shapes[0].kind == "segmented" and row.effects == "read":
            results = self.apply_per_segment(node, slots, operands, shapes, widths)
        else:
            values = [self.argument(operand, self.slot_type(slots, index)) for index, operand in enumerate(operands)]
            results = [of_value(value) for value in dispatch.apply(self.machine, instruction, values, widths, slots)]
        # A guard restricted the access alone: lanes it left out take the merged value.
        self.machine.lanes = self.current
        for index, result in enumerate(node.results):
            if result is None or index >= len(results):
                continue
            shaped = results[index]
            merge = node.merges[index] if index < len(node.merges) else None
            if guard is not None and merge is not None:
                shaped = self.merged(guard, shaped, self.incoming(merge, result), self.plan.shape(result))
            self.region.write(result, shaped, blend=blend)

    def compare_by_count(self, node: Node, operands: list[SsaOperand], guard: Value | None, *, blend: bool) -> bool:
        """`setp` of a counting value against a uniform one as scalar code; false if it is not of this kind."""
        order = comparison(node.instruction)
        if order is None or len(operands) != 2 or len(node.results) != 1 or node.results[0] is None:
            return False
        if guard is not None and node.merges and node.merges[0] is not None:
            return False
        kind = node.instruction.type
        for first, second in ((0, 1), (1, 0)):
            value = operands[first]
            if not isinstance(value, ValueRef) or not counts_up(self.plan.shape(value.id), kind):
                continue
            bound = self.shaped(operands[second], kind)
            if not bound.is_uniform:
                continue
            if bound.bases[0].constant is not None and self.region.read(value.id).bases[0].constant is not None:
                continue  # known altogether
            e = self.emitter
            lanes = lanes_below(
                e, order if first == 0 else FLIPPED[order], kind, self.region.read(value.id), bound.bases[0]
            )
            self.region.write(
                node.results[0], Shaped(e.emit("i1", LANES, f"bitcast {lanes.typed} to <{LANES} x i1>")), blend=blend
            )
            return True
        return False

    def slot_type(self, slots: dispatch.Signature, index: int) -> dispatch.Slot | None:
        return slots.sources[index] if index < len(slots.sources) else None

    def argument(self, operand: SsaOperand, slot: dispatch.Slot | None) -> Any:
        if slot is None:  # the carry
            return operand_value(self.emitter, self.shaped(operand, "pred"))
        if slot.type == "X":
            return slot.operand
        if slot.type == "A" or isinstance(operand, SsaAddress):
            return operand
        return operand_value(self.emitter, self.shaped(operand, slot.type))

    def widths(self, node: Node, slots: dispatch.Signature) -> list[int]:
        result = []
        for index, slot in enumerate(slots.destinations):
            value = node.results[index] if index < len(node.results) else None
            result.append(self.plan.graph.values[value].bits if value is not None else TYPE_BITS.get(slot.type, 32))
        return result

    def merged(self, guard: Value, new: Shaped, old: Shaped, shape: Shape) -> Shaped:
        e = self.emitter
        if guard.lanes == 1 and not shape.is_vector:
            new, old = self.region.conform(new, shape), self.region.conform(old, shape)
            pairs = zip(new.bases, old.bases, strict=True)
            return Shaped(None, tuple(e.select(guard, a, b) for a, b in pairs), shape.offsets)
        return of_value(e.select(guard, materialise(e, new), materialise(e, old)))

    # -- scalar computation ------------------------------------------------------------------------------------------

    def apply_to_bases(
        self,
        node: Node,
        slots: dispatch.Signature,
        operands: list[SsaOperand],
        shapes: list[Shape],
        widths: list[int],
        guard: Value | None,
    ) -> list[Shaped]:
        """The op on the bases of its operands; the analysis has found the offsets of the result."""
        e = self.emitter
        count = self.plan.segments if any(shape.kind == "segmented" for shape in shapes) else 1
        sources = [self.shaped_source(operand, self.slot_type(slots, i)) for i, operand in enumerate(operands)]
        fold = self.folds(node)
        columns: list[list[Value]] = []
        self.region.converting_bases = True
        for segment in range(count):
            values: list[Any] = []
            for index, source in enumerate(sources):
                if not isinstance(source, Shaped):
                    values.append(source)
                    continue
                if index in fold:
                    values.append(segment_bases(e, source, count)[segment])
                else:
                    base = source.bases[segment if len(source.bases) > 1 else 0]
                    if not self.recomputing:
                        part = (segment, count) if len(source.bases) > 1 else None
                        self.check_wrap(node, index, source, base, guard, part)
                    values.append(base)
            columns.append(list(dispatch.apply(self.machine, node.instruction, values, widths, slots)))
        self.region.converting_bases = False
        results = []
        numbered = iter(shapes)
        for index in range(len(columns[0])):
            wanted = index < len(node.results) and node.results[index] is not None
            shape = next(numbered) if wanted else Shape("uniform")
            results.append(Shaped(None, tuple(column[index] for column in columns), shape.offsets))
        return results

    def shaped_source(self, operand: SsaOperand, slot: dispatch.Slot | None) -> Any:
        if slot is None:
            return self.shaped(operand, "pred")
        if slot.type in ("X", "A"):
            return self.argument(operand, slot)
        return self.shaped(operand, slot.type)

    def folds(self, node: Node) -> set[int]:
        """Factors whose segment-constant offsets go into the bases: products of two values that are no constants."""
        shapes = [self.analysed(operand) for operand in flatten(node.operands)]
        if not folds_factors(rule_operands(node.instruction, shapes, self.plan.options.segment)):
            return set()
        return {index for index in (0, 1) if not shapes[index].flat}

    def analysed(self, operand: SsaOperand) -> Shape:
        """An operand's shape as the analysis has it."""
        if isinstance(operand, ValueRef):
            return self.plan.shape(operand.id)
        if isinstance(operand, Immediate) and not operand.float_bits:
            return constant(operand.bits - (1 << 64) if operand.bits >> 63 else operand.bits)
        if isinstance(operand, SpecialRegister):
            return special_shape(self.plan.options, operand.name)
        if isinstance(operand, Symbol):
            return self.plan.symbol_shape(operand)
        return UNIFORM

    def check_wrap(
        self, node: Node, index: int, source: Shaped, base: Value, guard: Value | None, segment: tuple[int, int] | None
    ) -> None:
        """Ends in a fault if the value of a lane that is here wrapped around before it is extended (see affine_rules).

        The usual path looks at the base alone; only where some lane may have wrapped are lanes looked at one by one.
        `segment`: (number, count) of the lanes that `base` stands for, None for all of them.
        """
        operands = flatten(node.operands)
        operand = operands[index]
        if not isinstance(operand, ValueRef):
            return
        shape = self.plan.shape(operand.id)
        shapes = [shape if i == index else Shape("uniform") for i in range(len(operands))]
        bits = needs_wrap_check(node.instruction, shapes, index)
        if not bits:
            return
        e = self.emitter
        low, high = min(source.offsets), max(source.offsets)
        top = e.const(base.type, (1 << (bits - 1)) - 1 - max(high, 0))
        bottom = e.const(base.type, -(1 << (bits - 1)) - min(low, 0))
        fine = e.and_(e.icmp("sle", base, top), e.icmp("sge", base, bottom))
        known, doubtful = self.region.fresh_label("proved"), self.region.fresh_label("doubtful")
        e.line(f"br {fine.typed}, label %{known}, label %{doubtful}, !prof !10")
        self.region.label(doubtful)
        exact = e.cast("sext", base, "i64")
        offsets = e.vector_constant("i64", source.offsets)
        wide = e.add(e.splat(exact, LANES), offsets)
        narrow = e.add(e.splat(base, LANES), e.vector_constant(base.type, source.offsets))
        differs = e.icmp("ne", wide, e.cast("sext", narrow, "i64"))
        if self.machine.lanes.vector is not None:
            differs = e.and_(differs, self.machine.lanes.vector)
        if guard is not None:
            differs = e.and_(differs, e.splat(guard, LANES))
        lanes = e.emit("i32", 1, f"bitcast {differs.typed} to i32")
        if segment is not None:
            number, count = segment
            width = LANES // count
            lanes = e.and_(lanes, e.const("i32", ((1 << width) - 1) << number * width))
        wrapped = self.region.fresh_label("wrapped")
        e.line(f"br {e.icmp('eq', lanes, e.const('i32', 0)).typed}, label %{known}, label %{wrapped}")
        self.region.label(wrapped)
        self.region.trap(
            WRAP_FAULT, node.instruction.location.line, e.intrinsic("llvm.cttz", [lanes, e.const("i1", 0)])
        )
        self.region.label(known)

    def apply_per_segment(
        self, node: Node, slots: dispatch.Signature, operands: list[SsaOperand], shapes: list[Shape], widths: list[int]
    ) -> list[Shaped]:
        """A load whose address is one scalar per segment."""
        count = self.plan.segments
        columns = []
        for segment in range(count):
            self.machine.segment = (segment, count)
            values = [self.argument(operand, self.slot_type(slots, i)) for i, operand in enumerate(operands)]
            columns.append(dispatch.apply(self.machine, node.instruction, values, widths, slots))
        self.machine.segment = None
        return [Shaped(None, tuple(column[i] for column in columns)) for i in range(len(columns[0]))]
