"""Literals and constant expressions of PTX (PTX ISA 9.x, section 4.5).

Integer constants are 64 bits wide, signed unless they carry `U` or do not fit; operators and precedence are those of C.
Floating-point constants cannot be part of an expression, save for a sign.
"""

from __future__ import annotations

import re
import struct

from cuttle.ptx.ir import Immediate
from cuttle.ptx.scanner import MAX_NESTING

MASK64 = (1 << 64) - 1

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(U?)\Z", re.ASCII)
_FLOAT_BITS = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_FLOAT = re.compile(r"(\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)\Z", re.ASCII)
_TOKEN = re.compile(
    r"\s*(?:(0[fFdD][0-9a-fA-F]+|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?U?|\.\d+(?:[eE][-+]?\d+)?)"
    r"|(\.[su]64)|(WARP_SZ)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+!~*/%<>&^|?:()]))",
    re.ASCII,
)
_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip


class ConstantError(ValueError):
    """A malformed constant; the caller adds the place."""


def literal(text: str) -> Immediate | None:
    """The value of one literal without sign, or None if `text` is none."""
    match = _INTEGER.match(text)
    if match:
        digits = match[1]
        if len(digits) > 66:
            raise ConstantError(f"integer `{digits[:20]}...` does not fit 64 bits")
        if digits[0] == "0" and len(digits) > 1:
            if digits[1] in "xX":
                value = int(digits, 16)
            elif digits[1] in "bB":
                value = int(digits, 2)
            elif digits.strip("01234567"):
                raise ConstantError(f"`{digits}` is no octal number")
            else:
                value = int(digits, 8)
        else:
            value = int(digits)
        if value > MASK64:
            raise ConstantError(f"integer `{digits}` does not fit 64 bits")
        return Immediate(value)
    match = _FLOAT_BITS.match(text)
    if match:
        return Immediate(int(match[1], 16), 32) if match[1] else Immediate(int(match[2], 16), 64)
    if len(text) <= 400 and _FLOAT.match(text):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    return None


def immediate(text: str) -> Immediate:
    """The value of a constant expression, integer or floating-point. Raises ConstantError."""
    value = literal(text)
    if value is not None:
        return value
    stripped = text.strip()
    if stripped[:1] in "-+":
        value = literal(stripped[1:].strip())
        if value is not None:
            if stripped[0] == "+":
                return value
            if value.float_bits:
                return Immediate(value.bits ^ (1 << (value.float_bits - 1)), value.float_bits)
            return Immediate(-value.bits & MASK64)
    return Immediate(integer(text) & MASK64)


def integer(text: str) -> int:
    """The value of an integer constant expression: -2**63 .. 2**64-1. Raises ConstantError."""
    return _Expression(text).whole()


class _Expression:
    """Precedence climbing over the tokens of one expression; values are (value, unsigned) pairs."""

    def __init__(self, text: str) -> None:
        if len(text) > 10_000:
            raise ConstantError("constant expression is too long")
        self.text = text
        self.tokens: list[str] = []
        position = 0
        stop = len(text.rstrip())
        while position < stop:
            match = _TOKEN.match(text, position, stop)
            if match is None:
                raise ConstantError(f"`{text.strip()[:40]}` is no constant")
            self.tokens.append(match[match.lastindex or 0])
            position = match.end()
        self.tokens.append("")
        self.at = 0
        self.depth = 0

    def whole(self) -> int:
        value, _ = self.ternary()
        if self.tokens[self.at]:
            raise ConstantError(f"`{self.text.strip()[:40]}` is no constant: unexpected `{self.tokens[self.at]}`")
        return value

    def take(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def nested(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise ConstantError("constant expression nests too deeply")

    def ternary(self) -> tuple[int, bool]:
        self.nested()
        condition = self.binary(1)
        if self.tokens[self.at] == "?":
            self.take()
            first = self.ternary()
            if self.take() != ":":
                raise ConstantError("`?` without `:` in a constant expression")
            second = self.ternary()
            condition = first if condition[0] else second
        self.depth -= 1
        return condition

    def binary(self, lowest: int) -> tuple[int, bool]:
        left = self.unary()
        while True:
            operator = self.tokens[self.at]
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < lowest:
                return left
            self.take()
            left = _apply(operator, left, self.binary(precedence + 1))

    def unary(self) -> tuple[int, bool]:
        self.nested()
        token = self.take()
        if token == "(":
            if self.tokens[self.at] in (".s64", ".u64"):
                unsigned = self.take() == ".u64"
                if self.take() != ")":
                    raise ConstantError("unclosed cast in a constant expression")
                value = _wrap(self.unary()[0], unsigned)
            else:
                value = self.ternary()
                if self.take() != ")":
                    raise ConstantError("unclosed bracket in a constant expression")
        elif token in ("-", "+", "~"):
            operand, unsigned = self.unary()
            value = _wrap(-operand if token == "-" else ~operand if token == "~" else operand, unsigned)
        elif token == "!":
            value = (int(self.unary()[0] == 0), False)
        elif token == "WARP_SZ":
            value = (32, False)
        else:
            unsigned = token.endswith("U")
            number = literal(token) if token else None
            if number is None or number.float_bits:
                raise ConstantError(f"`{self.text.strip()[:40]}` is no integer constant")
            value = _wrap(number.bits, unsigned or number.bits >> 63 != 0)
        self.depth -= 1
        return value


def _wrap(value: int, unsigned: bool) -> tuple[int, bool]:
    value &= MASK64
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


def _apply(operator: str, left: tuple[int, bool], right: tuple[int, bool]) -> tuple[int, bool]:
    """One binary operator; the result is unsigned if either operand is (shifts: if the left one is)."""
    if operator in ("<<", ">>"):
        count = right[0]
        if not 0 <= count < 64:
            return (0, left[1])
        return _wrap(left[0] << count if operator == "<<" else left[0] >> count, left[1])
    unsigned = left[1] or right[1]
    a, b = _wrap(left[0], unsigned)[0], _wrap(right[0], unsigned)[0]
    if operator in ("/", "%"):
        if b == 0:
            raise ConstantError("division by zero in a constant expression")
        quotient = abs(a) // abs(b)
        if (a < 0) != (b < 0):
            quotient = -quotient
        return _wrap(quotient if operator == "/" else a - quotient * b, unsigned)
    if operator in ("+", "-", "*", "&", "|", "^"):
        result = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[operator]
        return _wrap(result, unsigned)
    truth = {
        "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
        "&&": bool(a) and bool(b), "||": bool(a) or bool(b),
    }[operator]  # fmt: skip
    return int(truth), False
