"""Services of the device runtime: text and faults through the output buffer, malloc and free on the launch's heap.

Layouts: `abi/amdgpu_abi.py`. The host reads them when the kernel is done; nothing waits for the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from cuttle.abi.amdgpu_abi import (
    AMDGPU_HEAP,
    AMDGPU_OUTPUT,
    AMDGPU_RECORD,
    HEAP_CLASSES,
    MAX_PRINTF_BYTES,
    RECORD_ASSERT,
    RECORD_PRINTF,
    offset_of,
)
from cuttle.lower.amdgpu.special import linear_thread
from cuttle.lower.emit import Value

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

GLOBAL_POINTER = "ptr addrspace(1)"
AGENT = 'syncscope("agent")'
ASSERT_FAULT = 4
BLOCK_HEADER_BYTES = 16


class Services:
    """Services of one function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter

    def call(self, name: str, arguments: Sequence[Value], result_bits: int) -> Value | None:
        """A service as `Machine.service` names it; arguments are i64."""
        e = self.emitter
        if name == "nanosleep":
            e.declare("@llvm.amdgcn.s.sleep", "declare void @llvm.amdgcn.s.sleep(i32 immarg)")
            e.line("call void @llvm.amdgcn.s.sleep(i32 1)")
            return None
        if name == "malloc":
            return e.resize(self.malloc(arguments[0]), result_bits or 64)
        if name == "free":
            self.free(arguments[0])
            return None
        if name == "assertfail":
            self.assertion(arguments)
            return None
        self.writer.refuse(f"the service {name}")

    # -- memory helpers ----------------------------------------------------------------------------------------------

    def at(self, base: Value, offset: int | Value = 0) -> str:
        """A typed global pointer `offset` bytes behind an i64 address."""
        e = self.emitter
        amount = e.const("i64", offset) if isinstance(offset, int) else offset
        place = e.add(base, amount) if amount.constant != 0 else base
        return f"{GLOBAL_POINTER} {e.emit('ptr', 1, f'inttoptr {place.typed} to {GLOBAL_POINTER}').text}"

    def store(self, base: Value, offset: int, value: Value) -> None:
        self.emitter.line(f"store {value.typed}, {self.at(base, offset)}, align {value.bits // 8}")

    def add(self, base: Value, offset: int | Value, amount: Value) -> Value:
        return self.emitter.emit(
            "i64", 1, f"atomicrmw add {self.at(base, offset)}, {amount.typed} {AGENT} monotonic, align 8"
        )

    # -- text --------------------------------------------------------------------------------------------------------

    def reserve(self, size: Value) -> tuple[Value, Value, Value]:
        """Space for a record of `size` (i64) bytes: the output buffer, the record's address, and whether it fits."""
        e = self.emitter
        output = self.writer.launch_field64("output")
        before = self.add(output, offset_of(AMDGPU_OUTPUT, "cursor"), size)
        capacity = e.emit("i64", 1, f"load i64, {self.at(output, offset_of(AMDGPU_OUTPUT, 'capacity'))}, align 8")
        fits = e.icmp("ule", e.add(before, size), capacity)
        record = e.add(e.add(output, e.const("i64", AMDGPU_OUTPUT.bytes)), before)
        return output, record, fits

    def header(self, record: Value, size: Value, kind: int, text: Value) -> None:
        e = self.emitter
        self.store(record, offset_of(AMDGPU_RECORD, "bytes"), e.resize(size, 32))
        self.store(record, offset_of(AMDGPU_RECORD, "kind"), e.const("i32", kind))
        self.store(record, offset_of(AMDGPU_RECORD, "text"), text)

    def printf(self, text: Value, place: tuple[str, int] | None) -> Value:
        """`vprintf`: `place` is the local variable with the arguments and the offset in it (None: no arguments).

        How many there are only the format says, which the host reads: everything up to the variable's end goes along, or as much as
        arguments can take. Returns whether the record fits (i1).
        """
        e, writer = self.emitter, self.writer
        size = 0
        if place is not None:
            variable = writer.plan.graph.function.variables.get(place[0])
            assert variable is not None
            size = min(max(variable.size_bytes - place[1], 0), MAX_PRINTF_BYTES) & -4
        total = e.const("i64", AMDGPU_RECORD.bytes + -(-size // 8) * 8)
        _, record, fits = self.reserve(total)

        def copy() -> list[Value]:
            self.header(record, total, RECORD_PRINTF, text)
            for at in range(0, size, 4):
                assert place is not None
                source = writer.scratch_pointer(place[0], place[1] + at)
                self.store(record, AMDGPU_RECORD.bytes + at, e.emit("i32", 1, f"load i32, {source}, align 4"))
            return []

        writer.when(fits, copy, [])
        return fits

    def printf_from(self, text: Value, arguments: Value, size: Value) -> Value:
        """`vprintf` whose arguments are anywhere: `size` (i32) bytes at a generic address."""
        e, writer = self.emitter, self.writer
        size = e.resize(e.intrinsic("llvm.umin", [size, e.const("i32", MAX_PRINTF_BYTES)]), 64)
        body = e.and_(e.add(size, e.const("i64", 7)), e.const("i64", -8 & (1 << 64) - 1))
        total = e.add(body, e.const("i64", AMDGPU_RECORD.bytes))
        _, record, fits = self.reserve(total)

        def copy() -> list[Value]:
            self.header(record, total, RECORD_PRINTF, text)
            target = e.add(record, e.const("i64", AMDGPU_RECORD.bytes))
            place = writer.allocate("i64")
            e.line(f"store i64 0, {place}")
            again, one, done = (writer.fresh_label(stem) for stem in ("argument", "word", "copied"))
            e.line(f"br label %{again}")
            writer.label(again)
            at = e.emit("i64", 1, f"load i64, {place}")
            e.line(f"br {e.icmp('ult', at, size).typed}, label %{one}, label %{done}")
            writer.label(one)
            source = e.emit("ptr", 1, f"inttoptr {e.add(arguments, at).typed} to ptr")
            word = e.emit("i32", 1, f"load i32, ptr {source.text}, align 4")
            e.line(f"store {word.typed}, {self.at(target, at)}, align 4")
            e.line(f"store {e.add(at, e.const('i64', 4)).typed}, {place}")
            e.line(f"br label %{again}")
            writer.label(done)
            return []

        writer.when(fits, copy, [])
        return fits

    def measure_arguments(self, text: Value) -> tuple[Value, Value]:
        """How many arguments a format takes that only the program knows, and their bytes (i32): a loop over its characters.

        A `%` begins a conversion and takes one, unless another follows at once; each `*` in a conversion takes one more of 4 bytes; a letter
        that is no length ends it. Sizes and alignment as `device_output.py` reads them.
        """
        e, writer = self.emitter, self.writer
        place, count, size = writer.allocate("i64"), writer.allocate("i32"), writer.allocate("i32")
        inside, wide = writer.allocate("i1"), writer.allocate("i1")
        e.line(f"store {text.typed}, {place}")
        for slot in (count, size):
            e.line(f"store i32 0, {slot}")
        for slot in (inside, wide):
            e.line(f"store i1 false, {slot}")
        again, look, done = (writer.fresh_label(stem) for stem in ("character", "look", "counted"))
        e.line(f"br label %{again}")
        writer.label(again)
        at = e.emit("i64", 1, f"load i64, {place}")
        character = e.emit("i8", 1, f"load i8, {self.at(at)}, align 1")
        e.line(f"br {e.icmp('eq', character, e.const('i8', 0)).typed}, label %{done}, label %{look}")
        writer.label(look)

        def among(letters: str) -> Value:
            return reduce(e.or_, [e.icmp("eq", character, e.const("i8", ord(letter))) for letter in letters])

        total, taken = e.emit("i32", 1, f"load i32, {count}"), e.emit("i32", 1, f"load i32, {size}")
        open_, long_ = e.emit("i1", 1, f"load i1, {inside}"), e.emit("i1", 1, f"load i1, {wide}")
        percent = e.icmp("eq", character, e.const("i8", ord("%")))
        star = e.and_(open_, e.icmp("eq", character, e.const("i8", ord("*"))))
        letter = e.icmp("ult", e.sub(e.or_(character, e.const("i8", 0x20)), e.const("i8", ord("a"))), e.const("i8", 26))
        ends = e.and_(letter, e.not_(among("hlLqjzt")))
        # `%%`: the second one takes back what the first one counted.
        change = e.select(
            percent, e.select(open_, e.const("i32", -1), e.const("i32", 1)), e.cast("zext", star, "i32")
        )  # fmt: skip
        closes = e.and_(open_, ends)
        eight = e.and_(closes, e.or_(among("eEfFgGaAps"), e.and_(long_, among("diuoxX"))))
        four = e.or_(star, e.and_(e.and_(closes, e.not_(eight)), among("diuoxXc")))
        aligned = e.and_(e.add(taken, e.const("i32", 7)), e.const("i32", -8 & 0xFFFFFFFF))
        grown = e.select(four, e.add(taken, e.const("i32", 4)), taken)
        grown = e.select(eight, e.add(aligned, e.const("i32", 8)), grown)
        following = e.select(percent, e.not_(open_), e.and_(open_, e.not_(ends)))
        e.line(f"store {e.add(total, change).typed}, {count}")
        e.line(f"store {grown.typed}, {size}")
        e.line(f"store {following.typed}, {inside}")
        e.line(f"store {e.and_(following, e.or_(long_, among('lLqjzt'))).typed}, {wide}")
        e.line(f"store {e.add(at, e.const('i64', 1)).typed}, {place}")
        e.line(f"br label %{again}")
        writer.label(done)
        return e.emit("i32", 1, f"load i32, {count}"), e.emit("i32", 1, f"load i32, {size}")

    def assertion(self, arguments: Sequence[Value]) -> None:
        """`__assertfail(message, file, line, function)`: the text and a fault."""
        e, writer = self.emitter, self.writer
        message, file, line, function = (e.resize(argument, 64) for argument in arguments[:4])
        axes = [e.cast("zext", writer.call("i32", f"llvm.amdgcn.workgroup.id.{axis}"), "i64") for axis in "xyz"]
        thread = e.cast("zext", linear_thread(writer), "i64")
        rows = e.or_(e.shl(axes[2], e.const("i64", 32)), axes[1])
        fields = [file, line, function, thread, rows, axes[0]]
        total = e.const("i64", AMDGPU_RECORD.bytes + 8 * len(fields))
        _, record, fits = self.reserve(total)

        def copy() -> list[Value]:
            self.header(record, total, RECORD_ASSERT, message)
            for index, field in enumerate(fields):
                self.store(record, AMDGPU_RECORD.bytes + 8 * index, field)
            return []

        writer.when(fits, copy, [])
        self.trap(ASSERT_FAULT, 0)

    def trap(self, fault: int, line: int) -> None:
        """Notes the first fault and ends the wave; what is written behind it is never reached."""
        e, writer = self.emitter, self.writer
        output = writer.launch_field64("output")
        pair = e.name()
        e.line(
            f"{pair} = cmpxchg {self.at(output, offset_of(AMDGPU_OUTPUT, 'fault'))}, i32 0, i32 {fault} "
            f"{AGENT} monotonic monotonic, align 4"
        )
        first = e.emit("i1", 1, f"extractvalue {{ i32, i1 }} {pair}, 1")

        def note() -> list[Value]:
            self.store(output, offset_of(AMDGPU_OUTPUT, "line"), e.const("i32", line))
            for index, axis in enumerate("xyz"):
                block = writer.call("i32", f"llvm.amdgcn.workgroup.id.{axis}")
                self.store(output, offset_of(AMDGPU_OUTPUT, "block") + 4 * index, block)
            self.store(output, offset_of(AMDGPU_OUTPUT, "thread"), linear_thread(writer))
            return []

        writer.when(first, note, [])
        e.declare("@llvm.amdgcn.endpgm", "declare void @llvm.amdgcn.endpgm() noreturn")
        e.line("call void @llvm.amdgcn.endpgm()")
        e.line("unreachable")
        writer.label(writer.fresh_label("dead"))

    # -- heap --------------------------------------------------------------------------------------------------------

    def malloc(self, size: Value) -> Value:
        """The first free block of the size's power of two, or a new one; 0 if there is none. 16-byte aligned."""
        e, writer = self.emitter, self.writer
        heap = writer.launch_field64("heap")
        result = writer.allocate("i64")
        e.line(f"store i64 0, {result}")
        # The class is the power of two that holds size and header, at least 32.
        whole = e.add(size, e.const("i64", BLOCK_HEADER_BYTES - 1))
        zeros = e.intrinsic("llvm.ctlz", [e.or_(whole, e.const("i64", 31)), e.const("i1", 0)])
        number = e.sub(e.const("i64", 64), zeros)
        possible = e.and_(
            e.icmp("ne", heap, e.const("i64", 0)),
            e.and_(e.icmp("ne", size, e.const("i64", 0)), e.icmp("ult", number, e.const("i64", HEAP_CLASSES))),
        )

        def take() -> list[Value]:
            self.take_block(heap, number, result)
            return []

        writer.when(possible, take, [])
        return e.emit("i64", 1, f"load i64, {result}")

    def list_place(self, number: Value) -> Value:
        e = self.emitter
        return e.add(e.shl(number, e.const("i64", 3)), e.const("i64", offset_of(AMDGPU_HEAP, "free")))

    def take_block(self, heap: Value, number: Value, result: str) -> None:
        e, writer = self.emitter, self.writer
        head = self.at(heap, self.list_place(number))
        low = e.const("i64", 0xFFFF_FFFF)
        again, pop, fresh, done = (writer.fresh_label(stem) for stem in ("pop", "popping", "fresh", "taken"))
        e.line(f"br label %{again}")
        writer.label(again)
        seen = e.emit("i64", 1, f"load atomic i64, {head} {AGENT} acquire, align 8")
        distance = e.and_(seen, low)
        e.line(f"br {e.icmp('ne', distance, e.const('i64', 0)).typed}, label %{pop}, label %{fresh}")
        writer.label(pop)
        block = e.add(heap, e.shl(distance, e.const("i64", 4)))
        following = e.emit("i64", 1, f"load atomic i64, {self.at(block, 8)} {AGENT} monotonic, align 8")
        tag = e.add(e.and_(seen, e.not_(low)), e.const("i64", 1 << 32))
        new = e.or_(tag, e.and_(following, low))
        _, success = writer.machine.atomics.compare_exchange(head, seen, new, f"{AGENT} acq_rel")
        self.emitter.line(f"store {e.add(block, e.const('i64', BLOCK_HEADER_BYTES)).typed}, {result}")
        e.line(f"br {success.typed}, label %{done}, label %{again}")
        writer.label(fresh)
        size = e.shl(e.const("i64", 1), number)
        address = self.fresh_block(heap, number, size)
        e.line(f"store {address.typed}, {result}")
        e.line(f"br label %{done}")
        writer.label(done)

    def fresh_block(self, heap: Value, number: Value, size: Value) -> Value:
        """The address behind the header of a block never given out before, or 0.

        What obviously does not fit is not reserved: until it is given back, it would be missing to other lanes.
        """
        e, writer = self.emitter, self.writer
        at = offset_of(AMDGPU_HEAP, "next")
        end = e.emit("i64", 1, f"load i64, {self.at(heap, offset_of(AMDGPU_HEAP, 'end'))}, align 8")
        first = e.emit("i64", 1, f"load atomic i64, {self.at(heap, at)} {AGENT} monotonic, align 8")
        nothing = e.const("i64", 0)

        def reserve() -> list[Value]:
            place = self.add(heap, at, size)
            fits = e.icmp("ule", e.add(place, size), end)

            def keep() -> list[Value]:
                self.store(place, 0, number)
                return []

            def give_back() -> list[Value]:
                self.add(heap, at, e.neg(size))
                return []

            writer.when(fits, keep, [])
            writer.when(e.not_(fits), give_back, [])
            return [e.select(fits, e.add(place, e.const("i64", BLOCK_HEADER_BYTES)), nothing)]

        return writer.when(e.icmp("ule", e.add(first, size), end), reserve, [nothing])[0]

    def free(self, address: Value) -> None:
        """Puts the block in front of its list; nothing for a null pointer."""
        e, writer = self.emitter, self.writer
        heap = writer.launch_field64("heap")

        def put() -> list[Value]:
            block = e.sub(address, e.const("i64", BLOCK_HEADER_BYTES))
            number = e.emit("i64", 1, f"load i64, {self.at(block)}, align 8")
            head = self.at(heap, self.list_place(number))
            distance = e.lshr(e.sub(block, heap), e.const("i64", 4))
            again, done = writer.fresh_label("push"), writer.fresh_label("pushed")
            low = e.const("i64", 0xFFFF_FFFF)
            e.line(f"br label %{again}")
            writer.label(again)
            seen = e.emit("i64", 1, f"load atomic i64, {head} {AGENT} monotonic, align 8")
            e.line(f"store atomic {e.and_(seen, low).typed}, {self.at(block, 8)} {AGENT} monotonic, align 8")
            tag = e.add(e.and_(seen, e.not_(low)), e.const("i64", 1 << 32))
            _, success = writer.machine.atomics.compare_exchange(head, seen, e.or_(tag, distance), f"{AGENT} acq_rel")
            e.line(f"br {success.typed}, label %{done}, label %{again}")
            writer.label(done)
            return []

        writer.when(e.icmp("ne", address, e.const("i64", 0)), put, [])
