"""The emitter for CPUs with AVX-512: small tables in registers and sums of bytes, for which LLVM has no portable instruction.

Only for vectors of a multiple of 16 lanes; everything else is as in `Emitter`.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.lower.emit import Emitter, Value

REGISTER_LANES = 16
PERMUTE = "@llvm.x86.avx512.vpermi2var.d.512"
FIELDS = "@llvm.x86.avx512.pmultishift.qb.512"  # bytes from any bits of a 64-bit word
DOT = "@llvm.x86.avx512.vpdpbusd.512"  # sums of four products of bytes
LARGEST_TABLE = 128


class Avx512Emitter(Emitter):
    """Looks small tables up with the permutation of two registers: a gather is a load for each lane.

    `bytes_too`: the CPU has AVX512-VBMI and AVX512-VNNI.
    """

    def __init__(self, prefix: str = "v", *, bytes_too: bool = False) -> None:
        super().__init__(prefix)
        self.bytes_too = bytes_too

    def another(self) -> Emitter:
        return Avx512Emitter(bytes_too=self.bytes_too)

    def permute(self, low: Value, high: Value, index: Value) -> Value:
        """Elements of two registers (i32) joined, by the low 5 bits of the index (i32)."""
        vector = f"<{REGISTER_LANES} x i32>"
        self.declare(PERMUTE, f"declare {vector} {PERMUTE}({vector}, {vector}, {vector})")
        return self.emit("i32", REGISTER_LANES, f"call {vector} {PERMUTE}({low.typed}, {index.typed}, {high.typed})")

    def lookup_halves(self, name: str, elements: Sequence[int], index: Value) -> tuple[Value, Value]:
        if index.lanes % REGISTER_LANES or len(elements) > LARGEST_TABLE:
            return super().lookup_halves(name, elements, index)
        parts = [self.lanes_from(index, first, REGISTER_LANES) for first in range(0, index.lanes, REGISTER_LANES)]
        halves = []
        for shift in (0, 32):
            words = [element >> shift & 0xFFFF_FFFF for element in elements]
            halves.append(self.joined([self.lookup_word(words, part) for part in parts]))
        return halves[0], halves[1]

    def lookup_word(self, words: Sequence[int], index: Value) -> Value:
        """One of up to 128 words for each lane of a register: pairs of registers, chosen by the index's upper bits."""
        step = 2 * REGISTER_LANES
        padded = [*words, *[0] * (-len(words) % step)]
        found = []
        for first in range(0, len(padded), step):
            low, high = (
                self.vector_constant("i32", padded[start : start + REGISTER_LANES])
                for start in (first, first + REGISTER_LANES)
            )
            found.append(self.permute(low, high, index))
        bit = step
        while len(found) > 1:
            upper = self.icmp("ne", self.and_(index, self.const("i32", bit)), self.const("i32", 0))
            pairs = [self.select(upper, b, a) for a, b in zip(found[::2], found[1::2], strict=False)]
            found = [*pairs, *found[len(pairs) * 2 :]]
            bit *= 2
        return found[0]

    def bit_products(self, value: Value, bits: Value) -> Value | None:
        if not self.bytes_too or value.lanes % REGISTER_LANES:
            return None
        parts = []
        for first in range(0, value.lanes, REGISTER_LANES):
            number, choice = (self.lanes_from(each, first, REGISTER_LANES) for each in (value, bits))
            total = self.const("i32", 0)
            for numbers, chosen in (((6, 5, 4, 3), (0, 1, 2, 3)), ((2, 1, 0, -1), (4, 5, 6, 7))):
                ones = self.and_(self.fields(choice, chosen), self.const("i32", 0x01010101))
                total = self.dot(total, self.fields(number, numbers), ones)
            parts.append(total)
        return self.joined(parts)

    def fields(self, words: Value, first_bits: Sequence[int]) -> Value:
        """Four bytes for each word, from these bits of it on (the next word's come after the last, and bit -1 is 0 if all are
        below 2**31)."""
        vector = f"<{4 * REGISTER_LANES} x i8>"
        self.declare(FIELDS, f"declare {vector} {FIELDS}({vector}, {vector})")
        places = [bit % 64 for pair in (0, 32) for bit in (pair + first for first in first_bits)]
        control = self.vector_constant("i8", places * (REGISTER_LANES // 2))
        data = self.emit("i8", 4 * REGISTER_LANES, f"bitcast {words.typed} to {vector}")
        found = self.emit("i8", 4 * REGISTER_LANES, f"call {vector} {FIELDS}({control.typed}, {data.typed})")
        return self.emit("i32", REGISTER_LANES, f"bitcast {found.typed} to {words.llvm_type}")

    def dot(self, total: Value, unsigned: Value, signed: Value) -> Value:
        """`total` plus the products of the words' unsigned and signed bytes."""
        total = self.splat(total, REGISTER_LANES)
        vector = total.llvm_type
        self.declare(DOT, f"declare {vector} {DOT}({vector}, {vector}, {vector})")
        call = f"call {vector} {DOT}({total.typed}, {unsigned.typed}, {signed.typed})"
        return self.emit("i32", REGISTER_LANES, call)
