"""Initialisers of variables, flattened to bytes and relocations (PTX ISA 9.x, section 5.4.4).

Braces fill an array as in C: an inner brace starts at the next multiple of its sub-array, missing elements are zero.
Elements are constants, or addresses: `name`, `name+4`, `generic(name)`, `0xFF00(name)` (one byte of an address).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from cuttle.ptx.constants import ConstantError, immediate, integer
from cuttle.ptx.ir import TYPE_BITS, Immediate, Relocation
from cuttle.ptx.scanner import MAX_NESTING, Tokens, closing_offset

_ITEM = re.compile(r"\s*(?:([{}])|((?:[^{},;()]|\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\))+))\s*(,?)", re.ASCII)
_PLAIN_LIST = re.compile(r"[\s\d,]*\Z", re.ASCII)
_ADDRESS = re.compile(
    r"(?:(?:mask\s*\(\s*)?(?P<mask>0[xX][0-9a-fA-F]+|\d+)\s*[,(]\s*)?"
    r"(?P<generic>generic\s*\(\s*)?(?P<name>[$%A-Za-z_][\w$]*)\s*(?P<inner>[-+][^()]+)?(?P<close>[)\s]*)"
    r"(?P<addend>[-+].*)?\Z",
    re.ASCII | re.DOTALL,
)
_PACK = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


class Initialiser:
    """Reads what follows `=`. `shape` is the array shape, innermost last; a leading 0 is found by counting."""

    def __init__(
        self, tokens: Tokens, type_name: str, shape: list[int], constants: Mapping[str, str], limit: int
    ) -> None:
        self.tokens = tokens
        self.type = type_name
        self.width = max(1, TYPE_BITS[type_name] // 8)
        self.constants = constants
        self.limit = limit
        self.unsized = bool(shape) and shape[0] == 0
        extents = [1]
        for size in reversed(shape[1:] if self.unsized else shape):
            extents.append(extents[-1] * size)
        if self.unsized:
            extents.append(limit // self.width)
        extents.reverse()
        self.extents = extents  # elements covered by a brace at each depth; the last is 1
        self.data = bytearray() if self.unsized else bytearray(extents[0] * self.width)
        self.relocations: list[Relocation] = []

    def read(self) -> tuple[bytes, tuple[Relocation, ...]]:
        tokens = self.tokens
        source = tokens.source
        start = tokens.token.offset
        if tokens.token.text != "{":
            stop = source.text.find(";", start, tokens.end)
            comma = self._scalar_end(start, stop)
            if comma < 0:
                raise tokens.error("PTX-0102", "this initialiser never ends")
            self._store(source.text[start:comma], start, 0)
            tokens.seek(comma)
        else:
            stop = closing_offset(source.text, start + 1, tokens.end)
            if stop < 0:
                raise tokens.error("PTX-0102", "this `{` is never closed")
            if not self._plain_bytes(start + 1, stop):
                self._braces(start, stop + 1)
            tokens.seek(stop + 1)
        return bytes(self.data), tuple(self.relocations)

    def _scalar_end(self, start: int, stop: int) -> int:
        """End of a scalar initialiser: `;`, or a `,` outside brackets before it."""
        text, depth = self.tokens.source.text, 0
        if stop < 0:
            return -1
        for offset in range(start, min(stop, start + 4096)):
            character = text[offset]
            if character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
            elif character == "," and depth == 0:
                return offset
        return stop

    def _plain_bytes(self, start: int, stop: int) -> bool:
        """The common large case, one flat list of decimal bytes, at the speed of C. False if it is another case."""
        if self.width != 1 or len(self.extents) > 2 or stop - start < 64:
            return False
        inner = self.tokens.source.text[start:stop]
        if not _PLAIN_LIST.match(inner):
            return False
        pieces = inner.split(",")
        try:
            data = bytes(map(int, pieces))
        except ValueError:
            return False
        # A leading zero means octal in PTX but not in Python's int().
        if any(len(piece) > 1 and piece.lstrip()[:1] == "0" and piece.strip() != "0" for piece in pieces):
            return False
        if self.unsized:
            self.data = bytearray(data)
        else:
            if len(data) > len(self.data):
                raise self.tokens.error(
                    "PTX-0303", f"the initialiser has {len(data)} elements", expected=f"at most {len(self.data)}"
                )
            self.data[: len(data)] = data
        return True

    def _braces(self, start: int, stop: int) -> None:
        text = self.tokens.source.text
        last_depth = len(self.extents) - 1
        open_ends: list[int] = []
        cursor, position = 0, start
        after_comma = True
        while position < stop:
            match = _ITEM.match(text, position, stop)
            if match is None:
                raise self._error("PTX-0101", position, "the initialiser is malformed", found=text[position:stop])
            brace = match[1]
            if brace == "{":
                depth = len(open_ends)
                if depth > MAX_NESTING:
                    raise self._error("PTX-0302", position, "the initialiser nests too deeply")
                if not after_comma:
                    raise self._error("PTX-0101", position, "two initialisers", expected="`,` between them")
                extent = self.extents[min(depth, last_depth)]
                if depth and cursor % extent:
                    cursor += extent - cursor % extent
                open_ends.append(cursor + extent)
                after_comma = True
            elif brace == "}":
                end = open_ends.pop()
                cursor = end if open_ends or not self.unsized else cursor
                after_comma = bool(match[3])
            else:
                if not after_comma:
                    raise self._error("PTX-0101", position, "two initialisers", expected="`,` between them")
                if cursor >= open_ends[-1]:
                    raise self._error(
                        "PTX-0303", position, "too many initialisers", expected=f"at most {self.extents[0]}"
                    )
                self._store(match[2], match.start(2), cursor)
                cursor += 1
                after_comma = bool(match[3])
            position = match.end()
            if brace == "}" and not open_ends:
                return
        raise self._error("PTX-0102", start, "this `{` is never closed")

    def _error(self, code: str, offset: int, message: str, *, found: str = "", expected: str = "") -> Exception:
        return self.tokens.error(code, message, found=found, expected=expected, offset=offset)

    def _store(self, item: str, offset: int, index: int) -> None:
        """Put one element at element number `index`."""
        item = item.strip()
        width = self.width
        place = index * width
        if place + width > self.limit:
            raise self._error("PTX-0301", offset, "the initialiser is too large")
        if len(self.data) < place + width:
            if not self.unsized:
                raise self._error("PTX-0303", offset, "too many initialisers")
            self.data.extend(bytes(place + width - len(self.data)))
        if item[:1].isdigit() and "(" not in item:
            self.data[place : place + width] = self._constant(item, offset)
            return
        match = _ADDRESS.match(item)
        if match is None or item == "WARP_SZ":
            self.data[place : place + width] = self._constant(item, offset)
            return
        opened = item.count("(")
        if opened != item.count(")") or opened != (match["mask"] is not None) + (match["generic"] is not None):
            raise self._error("PTX-0101", offset, "unbalanced brackets in an address", found=item)
        try:
            addend = sum(integer(part) for part in (match["inner"], match["addend"]) if part)
            mask = integer(match["mask"]) if match["mask"] else 0
        except ConstantError as error:
            raise self._error("PTX-0105", offset, str(error)) from None
        name = self.constants.get(match["name"], match["name"])
        self.relocations.append(Relocation(place, width, name, addend, match["generic"] is not None, mask))

    def _constant(self, item: str, offset: int) -> bytes:
        try:
            value = immediate(item)
        except ConstantError as error:
            raise self._error("PTX-0105", offset, str(error)) from None
        return pack(value, self.type, self.width)


def pack(value: Immediate, type_name: str, width: int) -> bytes:
    """The bytes of a constant stored as `type_name`: floats are converted, integers cut to the type's width."""
    format_of_type = _FLOATS.get(type_name)
    if value.float_bits:
        if format_of_type is None or value.float_bits == 8 * width:
            return (value.bits & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        source = struct.pack("<I" if value.float_bits == 32 else "<Q", value.bits)
        number = struct.unpack("<f" if value.float_bits == 32 else "<d", source)[0]
        try:
            return struct.pack(format_of_type, number)
        except OverflowError:
            return struct.pack(format_of_type, float("-inf") if number < 0 else float("inf"))
    if format_of_type is not None and type_name != "f16":
        signed = value.bits - (1 << 64) if value.bits >> 63 else value.bits
        return struct.pack(format_of_type, float(signed))
    return (value.bits & ((1 << 8 * width) - 1)).to_bytes(width, "little")
