"""Operands of instructions, from text to IR (PTX ISA 9.x, chapter 6).

`OperandReader.read` is called once per distinct operand text and block; results are memoised by the statement loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cuttle.ptx.constants import MASK64, ConstantError, immediate, integer
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Negated,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Variable,
    Vector,
)
from cuttle.ptx.scopes import Names, Scope, special_register

_NAME = re.compile(r"[%$A-Za-z_][\w$]*\Z", re.ASCII)
_DOTTED = re.compile(r"(-?)\s*([%$A-Za-z_][\w$]*)\.([\w]+)\Z", re.ASCII)
_OFFSET = re.compile(r"([%$A-Za-z_][\w$]*)\s*([-+])\s*(.*)\Z", re.ASCII | re.DOTALL)
_INDEXED = re.compile(r"([%$A-Za-z_][\w$]*)\s*\[(.*)\]\s*(?:\+\s*(.*))?\Z", re.ASCII | re.DOTALL)
_COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
_SELECTOR = re.compile(r"(?:b[0-7]{1,4}|h[0-3]{1,2})\Z")


class OperandError(ValueError):
    """A malformed operand; the statement loop adds the place."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def split_operands(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    pieces = text.split(",")
    if not any(character in text for character in "{[("):
        return pieces
    result: list[str] = []
    parts: list[str] = []
    depth = 0
    for piece in pieces:
        if depth:
            parts.append(piece)
        else:
            parts = [piece]
        depth += piece.count("{") + piece.count("[") + piece.count("(")
        depth -= piece.count("}") + piece.count("]") + piece.count(")")
        if depth < 0:
            raise OperandError("PTX-0106", f"unbalanced brackets in `{text.strip()[:60]}`")
        if depth == 0:
            result.append(",".join(parts))
    if depth:
        raise OperandError("PTX-0106", f"unbalanced brackets in `{text.strip()[:60]}`")
    return result


def register_names(operand: Operand) -> Iterator[str]:
    """Names of all registers in an operand."""
    match operand:
        case Register(name) | SelectedRegister(Register(name)) | Negated(Register(name)) | Address(Register(name)):
            yield name
        case Vector(elements):
            for element in elements:
                yield from register_names(element)
        case PredicatePair(first, second):
            yield from register_names(first)
            yield from register_names(second)
        case TextureOperand(texture, sampler, coordinates):
            for part in (texture, sampler, coordinates):
                if part is not None:
                    yield from register_names(part)
        case _:
            return


class OperandReader:
    """Reads operands of one function. `variables` are those of the module, for array element sizes."""

    def __init__(self, names: Names, variables: Mapping[str, Variable], symbols: Mapping[str, object]) -> None:
        self.names = names
        self.variables = variables
        self.symbols = symbols
        # Sums (result, register, constant, type) that the statement being read needs computed before it.
        self.sums: list[tuple[str, tuple[str, ...], tuple[Operand, ...]]] = []

    def read(self, scope: Scope, text: str, indexed_is_address: bool) -> Operand:
        """One operand. `indexed_is_address`: `name[2]` is a memory operand (all but `mov` and `cvta`)."""
        text = text.strip()
        if not text:
            raise OperandError("PTX-0106", "an operand is missing")
        if _NAME.match(text):
            if text == "_":
                return Sink()
            return self.named(scope, text)
        first = text[0]
        if first == "[":
            return self.bracketed(scope, text)
        if first == "{":
            if text[-1] == "}":
                return self.vector(scope, text)
            vector, bar, rest = text.partition("|")
            if bar:
                return PredicatePair(self.vector(scope, vector.strip()), self.pair_part(scope, rest))
            raise OperandError("PTX-0106", f"`{text[:60]}` is no vector")
        if first == "!" and _NAME.match(text[1:].strip()):
            register = self.named(scope, text[1:].strip())
            if not isinstance(register, Register):
                raise OperandError("PTX-0106", f"`{text[:60]}`: only registers can be negated")
            return Negated(register)
        if first in "%$_" or first.isalpha() or first == "-":
            found = self._named_form(scope, text, indexed_is_address)
            if found is not None:
                return found
        return self.constant(text)

    def _named_form(self, scope: Scope, text: str, indexed_is_address: bool) -> Operand | None:
        """`%p|%q`, `%tid.x`, `%v.y`, `%r.b0`, `name+4`, `name[2]`, `-%r`; None if the text is none of them."""
        if "|" in text:
            first, _, second = text.partition("|")
            if _NAME.match(first.strip()):
                return PredicatePair(self.pair_part(scope, first), self.pair_part(scope, second))
        special = special_register(text)
        if special is not None:
            return special
        match = _DOTTED.match(text)
        if match:
            return self._dotted(scope, match)
        if text[0] == "-":
            name = text[1:].strip()
            if not _NAME.match(name) or name == "WARP_SZ":
                return None
            register = self.named(scope, name)
            if not isinstance(register, Register):
                raise OperandError("PTX-0106", f"`{text[:60]}`: only a register can stand here")
            return SelectedRegister(register, "", True)
        match = _INDEXED.match(text)
        if match:
            return self._indexed(scope, match, indexed_is_address)
        match = _OFFSET.match(text)
        if match and match[1] != "WARP_SZ":
            base = self.named(scope, match[1])
            if isinstance(base, Register):
                return self._sum(base, self.offset(match[2], match[3]), text)
            if not isinstance(base, Symbol):
                raise OperandError("PTX-0106", f"`{text[:60]}`: an offset can be added to a symbol or register only")
            return Symbol(base.name, base.offset + self.offset(match[2], match[3]))
        return None

    def _sum(self, base: Register, offset: int, text: str) -> Register:
        """`%r1+4` as a value: the IR has no such operand, so an `add` to a new register goes before."""
        width = TYPE_BITS[self.names.function.registers[base.name]]
        if width not in (16, 32, 64):
            raise OperandError("PTX-0106", f"`{text[:60]}`: nothing can be added to this register")
        result = Register(self.names.unique(f"{base.name}$sum"))
        self.names.function.registers[result.name] = f"b{width}"
        self.sums.append(("add", (f"s{width}",), (result, base, Immediate(offset & MASK64))))
        return result

    def _element_address(self, base: Symbol, size: int, index: Register) -> Register:
        """Address of `base[%r1]`: computed before the statement, for the IR has no such operand either."""
        registers = self.names.function.registers
        width = TYPE_BITS[registers[index.name]]
        if width not in (32, 64):
            raise OperandError("PTX-0106", f"{index.name} is no array index: it has {width} bits")
        start, result = (Register(self.names.unique(f"{index.name}${what}")) for what in ("array", "element"))
        registers[start.name] = registers[result.name] = "b64"
        sign = "s" if registers[index.name][0] == "s" else "u"
        self.sums.append(("mov", ("u64",), (start, base)))
        how = ("wide", f"{sign}32") if width == 32 else ("lo", f"{sign}64")
        self.sums.append(("mad", how, (result, index, Immediate(size), start)))
        return result

    def named(self, scope: Scope, name: str) -> Operand:
        """What a bare name means: register, vector register, special register, or symbol."""
        found = self.names.find(scope, name)
        if found is not None:
            return found
        special = special_register(name)
        if special is not None:
            return special
        if name in self.symbols:
            return Symbol(name)
        if name[0] == "%":
            raise OperandError("PTX-0201", f"register {name} is not declared")
        raise OperandError("PTX-0203", f"`{name}` is not defined")

    def pair_part(self, scope: Scope, text: str) -> Register | Sink:
        text = text.strip()
        if text == "_":
            return Sink()
        if not _NAME.match(text):
            raise OperandError("PTX-0106", f"`{text[:60]}` is no register")
        register = self.named(scope, text)
        if not isinstance(register, Register):
            raise OperandError("PTX-0106", f"`{text[:60]}` is no register")
        return register

    def _dotted(self, scope: Scope, match: re.Match[str]) -> Operand:
        negated, name, part = match.groups()
        base = self.names.find(scope, name)
        if isinstance(base, Vector) and part in _COMPONENTS and _COMPONENTS[part] < len(base.elements):
            element = base.elements[_COMPONENTS[part]]
            if negated and isinstance(element, Register):
                return SelectedRegister(element, "", True)
            return element
        if isinstance(base, Register) and _SELECTOR.match(part):
            return SelectedRegister(base, part, bool(negated))
        if base is None:
            raise OperandError("PTX-0201", f"register {name} is not declared")
        raise OperandError("PTX-0106", f"`{name}` has no part `.{part}`")

    def _indexed(self, scope: Scope, match: re.Match[str], indexed_is_address: bool) -> Operand:
        name, index, addend = match.groups()
        base = self.named(scope, name)
        if not isinstance(base, Symbol):
            raise OperandError("PTX-0106", f"`{name}` is no array")
        variable = self.names.function.variables.get(base.name) or self.variables.get(base.name)
        size = TYPE_BITS[variable.type] // 8 if variable is not None else 1
        more = base.offset + (self.offset("+", addend) if addend else 0)
        try:
            element = integer(index)
        except ConstantError:
            plus = _OFFSET.match(index.strip())
            register = plus[1] if plus else index.strip()
            found = self.named(scope, register) if _NAME.match(register) else None
            if not isinstance(found, Register):
                raise OperandError("PTX-0105", f"`{index[:40]}` is no array index") from None
            element = self.offset(plus[2], plus[3]) if plus else 0
            at = self._element_address(Symbol(base.name, more + element * size), size, found)
            return Address(at) if indexed_is_address else at
        offset = more + element * size
        return Address(Symbol(base.name), offset) if indexed_is_address else Symbol(base.name, offset)

    def offset(self, sign: str, text: str) -> int:
        try:
            value = integer(text)
        except ConstantError as error:
            raise OperandError("PTX-0106", f"bad offset: {error}") from None
        if sign == "-":
            value = -value
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)

    def bracketed(self, scope: Scope, text: str) -> Operand:
        """`[...]`: an address, or a texture operand when it holds a comma."""
        if text[-1] != "]":
            raise OperandError("PTX-0106", f"`{text[:60]}` is no address")
        inner = text[1:-1].strip()
        if "," in inner:
            return self._texture(scope, inner)
        match = _OFFSET.match(inner)
        name, offset = inner, 0
        if match and match[1] != "WARP_SZ":
            name, offset = match[1], self.offset(match[2], match[3])
        if _NAME.match(name) and name != "WARP_SZ":
            base = self.named(scope, name)
            if isinstance(base, Symbol):
                return Address(Symbol(base.name), base.offset + offset)
            if isinstance(base, Register):
                return Address(base, offset)
            raise OperandError("PTX-0106", f"`{name[:60]}` cannot be an address")
        match = _INDEXED.match(inner)
        if match:
            return self._indexed(scope, match, True)
        try:
            return Address(None, integer(inner))
        except ConstantError:
            raise OperandError("PTX-0106", f"`{text[:60]}` is no address") from None

    def _texture(self, scope: Scope, inner: str) -> TextureOperand:
        parts = split_operands(inner)
        if not 2 <= len(parts) <= 3:
            raise OperandError("PTX-0106", f"`[{inner[:60]}]`: expected texture, sampler, coordinates")
        handles: list[Register | Symbol] = []
        for part in parts[:-1]:
            handle = self.read(scope, part, False)
            if not isinstance(handle, Register | Symbol):
                raise OperandError("PTX-0106", f"`{part.strip()[:60]}` is no texture, surface or sampler")
            handles.append(handle)
        coordinates = self.read(scope, parts[-1], False)
        if not isinstance(coordinates, Vector):
            coordinates = Vector((coordinates,))
        return TextureOperand(handles[0], handles[1] if len(handles) > 1 else None, coordinates)

    def vector(self, scope: Scope, text: str) -> Vector:
        if len(text) < 2 or text[0] != "{" or text[-1] != "}":
            raise OperandError("PTX-0106", f"`{text[:60]}` is no vector")
        elements: list[Operand] = []
        for part in text[1:-1].split(","):
            element = scope.memo.get(part)
            if element is None:
                if "{" in part or "[" in part:
                    raise OperandError("PTX-0106", f"`{text[:60]}`: vectors do not nest")
                element = self.read(scope, part, False)
                if not self.sums:
                    scope.memo[part] = element
            if not isinstance(element, Register | Immediate | Sink | SpecialRegister | Symbol | Negated):
                raise OperandError("PTX-0106", f"`{part.strip()[:60]}` cannot be a vector element")
            elements.append(element)
        return Vector(tuple(elements))

    @staticmethod
    def constant(text: str) -> Immediate:
        try:
            return immediate(text)
        except ConstantError as error:
            raise OperandError("PTX-0106", f"bad operand: {error}") from None
