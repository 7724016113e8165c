"""The emitter: LLVM text, one instruction at a time, for scalars and lane vectors alike.

A `Value` is an LLVM operand with its *element* type and a lane count: 1 is a scalar (a value that is the same for all
lanes, or a lane's own value on a scalar target), any other number a vector with one element per lane. Every method
takes values of mixed lane counts and splats scalars where a vector operand forces it, so an op function is written
once and yields scalar code when all its operands are scalar.

Text is built with f-strings: 20-30 times cheaper than `llvmlite.ir` objects (design/models.md, D.3), and the only way
to `bfloat`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from cuttle.lower import fold

FLOAT_OF_BITS = {16: "half", 32: "float", 64: "double"}
BITS_OF_TYPE = {
    "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128,
    "half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64,
}  # fmt: skip
_SUFFIX_OF_TYPE = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


def bits_of(element_type: str) -> int:
    """Size in bits of an LLVM element type (`iN`, `half`, `bfloat`, `float`, `double`, `ptr`)."""
    known = BITS_OF_TYPE.get(element_type)
    return known if known is not None else int(element_type[1:])


def is_float(element_type: str) -> bool:
    return element_type in ("half", "bfloat", "float", "double")


def float_literal(element_type: str, bits: int) -> str:
    """An LLVM floating-point literal with exactly these bits (NaN payloads included)."""
    if element_type == "half":
        return f"0xH{bits:04X}"
    if element_type == "bfloat":
        return f"0xR{bits:04X}"
    if element_type == "double":
        return f"0x{bits:016X}"
    # LLVM writes a float as the double of the same value; a NaN's payload moves to the top of the double's.
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        wide = 0x7FF << 52 | mantissa << 29
    elif exponent == 0 and mantissa == 0:
        wide = 0
    else:
        wide = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits & 0x7FFFFFFF))[0]))[0]
    return f"0x{sign << 63 | wide:016X}"


@dataclass(frozen=True, slots=True)
class Value:
    """An LLVM operand: element type, its text (`%v7`, `42`, `<2 x i32> ...` without the type), lanes (1 = scalar).

    `constant` is the bit pattern (unsigned, modulo 2**bits) where the operand is a scalar constant; `elements` those of
    an integer vector whose lanes are constants that differ.
    """

    type: str
    text: str
    lanes: int = 1
    constant: int | None = None
    elements: tuple[int, ...] | None = None

    @property
    def llvm_type(self) -> str:
        return self.type if self.lanes == 1 else f"<{self.lanes} x {self.type}>"

    @property
    def typed(self) -> str:
        """Type and text, as an operand is written first in an LLVM instruction."""
        return f"{self.llvm_type} {self.text}"

    @property
    def bits(self) -> int:
        return bits_of(self.type)


def may_fault(text: str) -> bool:
    """Whether a line of LLVM text touches memory or calls something."""
    return text.startswith(("load", "store", "call", "cmpxchg", "atomicrmw")) or " = cmpxchg" in text


class Emitter:
    """Collects the LLVM text of one function body and the declarations it needs.

    `lines` is the body so far; `declarations` the `declare` lines of intrinsics and imports; `constants` module-scope
    constant definitions (tables). Names are `%v<n>`; labels are the caller's business (`label`, `branch`).
    """

    table_space = 0  # the address space of constant tables

    def __init__(self, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, str] = {}
        self._prefix = prefix
        self._next = 0
        # What lines that may fault end in: the debug location of the PTX instruction they belong to, or nothing.
        self.place = ""

    def another(self) -> Emitter:
        """An empty emitter of the same kind."""
        return Emitter()

    # -- names and raw text ------------------------------------------------------------------------------------------

    def name(self) -> str:
        self._next += 1
        return f"%{self._prefix}{self._next}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}{self.place}" if self.place and may_fault(text) else "  " + text)

    def emit(self, element_type: str, lanes: int, text: str) -> Value:
        """Append `%new = text` and return the new value."""
        result = self.name()
        place = self.place if self.place and may_fault(text) else ""
        self.lines.append(f"  {result} = {text}{place}")
        return Value(element_type, result, lanes)

    # -- constants and lanes -----------------------------------------------------------------------------------------

    def const(self, element_type: str, value: int) -> Value:
        """A scalar integer constant, taken modulo 2**bits; for float types the IEEE bit pattern of the value."""
        bits = bits_of(element_type)
        value &= (1 << bits) - 1
        if element_type == "i1":
            return Value("i1", "true" if value else "false", 1, value)
        if element_type.startswith("i"):
            signed = value - (1 << bits) if value >> (bits - 1) else value
            return Value(element_type, str(signed), 1, value)
        return Value(element_type, float_literal(element_type, value), 1, value)

    def splat(self, value: Value, lanes: int) -> Value:
        """The vector with `value` in every lane; a value that has that many lanes already is returned as it is."""
        if value.lanes == lanes:
            return value
        if value.lanes != 1:
            raise ValueError(f"cannot splat {value.lanes} lanes to {lanes}")
        if value.constant is not None:
            return Value(value.type, f"splat ({value.typed})", lanes)
        seed = self.emit(value.type, lanes, f"insertelement <{lanes} x {value.type}> poison, {value.typed}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(value.type, lanes, f"shufflevector {seed.typed}, <{lanes} x {value.type}> poison, {zeros}")

    def unify(self, *values: Value) -> tuple[Value, ...]:
        """The same values, all with the largest lane count among them."""
        lanes = max(value.lanes for value in values)
        return tuple(self.splat(value, lanes) for value in values)

    def vector_constant(self, element_type: str, elements: Sequence[int]) -> Value:
        """A vector with the given integer in each lane (integer element types only)."""
        constants = [self.const(element_type, element) for element in elements]
        texts = ", ".join(constant.typed for constant in constants)
        patterns = tuple(constant.constant or 0 for constant in constants)
        return Value(element_type, f"<{texts}>", len(constants), None, patterns)

    def vector_elements(self, value: Value) -> tuple[int, ...] | None:
        """The constant in each lane, if the value is a constant vector (not one constant in all lanes)."""
        return value.elements

    def _constant_lanes(self, *values: Value) -> list[tuple[int, ...]] | None:
        """The operands' lanes as constants, if all are and at least one is a vector constant or all are scalars."""
        if any(value.constant is None and value.elements is None for value in values) or is_float(values[0].type):
            return None
        lanes = max(value.lanes for value in values)
        return [value.elements or (value.constant or 0,) * lanes for value in values]

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        """`operation` is an LLVM binary opcode with its flags: `add`, `udiv`, `fadd`, `xor`. No fast-math flags."""
        rule = fold.BINARY.get(operation)
        lanes = self._constant_lanes(a, b) if rule is not None else None
        if rule is not None and lanes is not None:
            results = [rule(x, y, a.bits) for x, y in zip(*lanes, strict=True)]
            if len(results) == 1 and results[0] is not None:
                return self.const(a.type, results[0])
            if None not in results and (a.elements or b.elements):
                return self.vector_constant(a.type, [result or 0 for result in results])
        a, b = self.unify(a, b)
        return self.emit(a.type, a.lanes, f"{operation} {a.typed}, {b.text}")

    def add(self, a: Value, b: Value) -> Value:
        return self.binary("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.binary("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.binary("mul", a, b)

    def and_(self, a: Value, b: Value) -> Value:
        return self.binary("and", a, b)

    def or_(self, a: Value, b: Value) -> Value:
        return self.binary("or", a, b)

    def xor(self, a: Value, b: Value) -> Value:
        return self.binary("xor", a, b)

    def shl(self, a: Value, b: Value) -> Value:
        """LLVM `shl`: the amount must be below the width (PTX's clamping is the op function's business)."""
        return self.binary("shl", a, b)

    def lshr(self, a: Value, b: Value) -> Value:
        return self.binary("lshr", a, b)

    def ashr(self, a: Value, b: Value) -> Value:
        return self.binary("ashr", a, b)

    def not_(self, a: Value) -> Value:
        return self.xor(a, self.const(a.type, -1))

    def neg(self, a: Value) -> Value:
        return self.sub(self.const(a.type, 0), a)

    def fneg(self, a: Value) -> Value:
        return self.emit(a.type, a.lanes, f"fneg {a.typed}")

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        lanes = self._constant_lanes(a, b)
        if lanes is not None:
            results = [fold.COMPARE[predicate](x, y, a.bits) for x, y in zip(*lanes, strict=True)]
            if len(set(results)) == 1:
                return self.const("i1", int(results[0]))
            return self.vector_constant("i1", [int(result) for result in results])
        a, b = self.unify(a, b)
        return self.emit("i1", a.lanes, f"icmp {predicate} {a.typed}, {b.text}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        a, b = self.unify(a, b)
        return self.emit("i1", a.lanes, f"fcmp {predicate} {a.typed}, {b.text}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`condition ? a : b`; a scalar condition may choose between vectors."""
        if condition.constant is not None:
            return a if condition.constant else b
        lanes = max(condition.lanes, a.lanes, b.lanes)
        constants = self._constant_lanes(condition, a, b) if a.type != "i1" else None
        if constants is not None and condition.elements is not None:
            return self.vector_constant(a.type, [x if c else y for c, x, y in zip(*constants, strict=True)])
        a, b = self.splat(a, lanes), self.splat(b, lanes)
        if condition.lanes != 1:
            condition = self.splat(condition, lanes)
        return self.emit(a.type, lanes, f"select {condition.typed}, {a.typed}, {b.typed}")

    # -- conversions -------------------------------------------------------------------------------------------------

    def cast(self, operation: str, value: Value, element_type: str) -> Value:
        """`operation` is an LLVM cast: `zext`, `sext`, `trunc`, `fpext`, `fptrunc`, `uitofp`, `sitofp`, ..."""
        if value.type == element_type:
            return value
        if value.constant is not None and operation in ("zext", "sext", "trunc"):
            constant = value.constant
            if operation == "sext" and constant >> (value.bits - 1):
                constant -= 1 << value.bits
            return self.const(element_type, constant)
        to_type = element_type if value.lanes == 1 else f"<{value.lanes} x {element_type}>"
        return self.emit(element_type, value.lanes, f"{operation} {value.typed} to {to_type}")

    def bitcast(self, value: Value, element_type: str) -> Value:
        """The same bits as another element type of the same width."""
        if value.type == element_type:
            return value
        if value.constant is not None:
            return self.const(element_type, value.constant)
        to_type = element_type if value.lanes == 1 else f"<{value.lanes} x {element_type}>"
        return self.emit(element_type, value.lanes, f"bitcast {value.typed} to {to_type}")

    def resize(self, value: Value, bits: int, signed: bool = False) -> Value:
        """An integer truncated or extended (by sign if `signed`) to `bits`."""
        if value.bits == bits:
            return value
        if value.bits > bits:
            return self.cast("trunc", value, f"i{bits}")
        return self.cast("sext" if signed else "zext", value, f"i{bits}")

    def as_bits(self, value: Value) -> Value:
        """Any value as the integer with the same bits."""
        return self.bitcast(value, f"i{value.bits}") if is_float(value.type) else value

    # -- calls -------------------------------------------------------------------------------------------------------

    def intrinsic(self, name: str, arguments: Sequence[Value], result_type: str | None = None) -> Value:
        """Call a target-neutral overloaded LLVM intrinsic (`llvm.fma`, `llvm.ctpop`, `llvm.uadd.sat`).

        The overload suffix is that of the first argument; `i1` arguments that are constants (`llvm.ctlz`) stay scalar.
        """
        flags = [a.type == "i1" and a.constant is not None for a in arguments]
        lanes = max(a.lanes for a, flag in zip(arguments, flags, strict=True) if not flag)
        values = [a if flag else self.splat(a, lanes) for a, flag in zip(arguments, flags, strict=True)]
        element = values[0].type
        result = result_type or element
        suffix = self.overload_suffix(element, lanes)
        full = f"@{name}.{suffix}"
        returned = result if lanes == 1 else f"<{lanes} x {result}>"
        self.declare(full, f"declare {returned} {full}({', '.join(v.llvm_type for v in values)})")
        return self.emit(result, lanes, f"call {returned} {full}({', '.join(v.typed for v in values)})")

    def overload_suffix(self, element_type: str, lanes: int) -> str:
        suffix = _SUFFIX_OF_TYPE.get(element_type, element_type)
        return suffix if lanes == 1 else f"v{lanes}{suffix}"

    def declare(self, name: str, text: str) -> None:
        self.declarations.setdefault(name, text)

    def table(self, name: str, element_type: str, elements: Sequence[int]) -> str:
        """A module-scope constant array; returns its LLVM name. Asked for twice under one name, it is made once."""
        if name not in self.constants:
            body = ", ".join(self.const(element_type, element).typed for element in elements)
            array = f"[{len(elements)} x {element_type}]"
            space = f"addrspace({self.table_space}) " if self.table_space else ""
            self.constants[name] = f"@{name} = private unnamed_addr {space}constant {array} [{body}], align 64"
        return f"@{name}"

    def lookup(self, table: str, element_type: str, index: Value) -> Value:
        """The element of a `table` at an index (i32, each lane its own), which must be inside it."""
        pointer = f"ptr addrspace({self.table_space})" if self.table_space else "ptr"
        size = bits_of(element_type) // 8
        if index.lanes == 1:
            address = self.emit("ptr", 1, f"getelementptr {element_type}, {pointer} {table}, {index.typed}")
            return self.emit(element_type, 1, f"load {element_type}, {pointer} {address.text}, align {size}")
        lanes = index.lanes
        space = self.table_space
        address = self.emit("ptr", lanes, f"getelementptr {element_type}, {pointer} {table}, {index.typed}")
        vector, pointers, mask = f"<{lanes} x {element_type}>", f"<{lanes} x {pointer}>", f"<{lanes} x i1>"
        name = f"@llvm.masked.gather.v{lanes}{self.overload_suffix(element_type, 1)}.v{lanes}p{space}"
        self.declare(name, f"declare {vector} {name}({pointers}, {mask}, {vector})")
        return self.emit(
            element_type,
            lanes,
            f"call {vector} {name}({pointers} align {size} {address.text}, {mask} splat (i1 true), {vector} poison)",
        )

    def lookup_halves(self, name: str, elements: Sequence[int], index: Value) -> tuple[Value, Value]:
        """The low and high 32 bits of an element of a table of 64-bit words, at an index (i32) inside it."""
        word = self.lookup(self.table(name, "i64", elements), "i64", index)
        return self.cast("trunc", word, "i32"), self.cast("trunc", self.lshr(word, self.const("i64", 32)), "i32")

    def bit_products(self, value: Value, bits: Value) -> Value | None:
        """The sum over k = 0 to 7 of bit k of `bits` times floor(2 * `value` / 2**(7 - k)), for values (i32) below 128, by
        the target's own instructions; None without such. The multi-function unit's squarer needs it."""
        return None

    # -- elements ----------------------------------------------------------------------------------------------------

    def lanes_from(self, vector: Value, first: int, count: int) -> Value:
        """`count` neighbouring lanes of a vector."""
        pattern = ", ".join(f"i32 {first + lane}" for lane in range(count))
        poison = f"{vector.llvm_type} poison"
        return self.emit(vector.type, count, f"shufflevector {vector.typed}, {poison}, <{count} x i32> <{pattern}>")

    def joined(self, parts: Sequence[Value]) -> Value:
        """Vectors of equal length, a power of two of them, one behind the other."""
        while len(parts) > 1:
            pairs = []
            for a, b in zip(parts[::2], parts[1::2], strict=True):
                lanes = a.lanes + b.lanes
                pattern = ", ".join(f"i32 {lane}" for lane in range(lanes))
                pairs.append(
                    self.emit(a.type, lanes, f"shufflevector {a.typed}, {b.typed}, <{lanes} x i32> <{pattern}>")
                )
            parts = pairs
        return parts[0]

    def extract(self, value: Value, lane: int) -> Value:
        """One lane of a vector as a scalar; a scalar is every lane's value."""
        if value.lanes == 1:
            return value
        return self.emit(value.type, 1, f"extractelement {value.typed}, i64 {lane}")

    def insert(self, vector: Value, lane: int, element: Value) -> Value:
        return self.emit(vector.type, vector.lanes, f"insertelement {vector.typed}, {element.typed}, i64 {lane}")

    def poison(self, element_type: str, lanes: int = 1) -> Value:
        return Value(element_type, "poison", lanes)
