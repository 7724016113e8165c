"""Names inside a function body: nested blocks, shadowing, register ranges, vector registers (PTX ISA 9.x, 4.4, 5.1).

The IR is flat: every name that a block declares gets a name unique in the function (`%r1`, `%r1$1`, ...). Register
ranges (`.reg .b32 %r<100>;`) are kept as ranges; only registers that occur are materialised.
"""

from __future__ import annotations

from collections.abc import Container

from cuttle.ptx.ir import Function, Operand, Register, SpecialRegister, Vector
from cuttle.ptx.special_registers import SPECIAL_REGISTERS

MAX_RANGE = 1 << 31


class Scope:
    """One block. `memo` maps operand text to operand; a block without declarations shares its parent's."""

    __slots__ = ("memo", "names", "own_memo", "parent", "ranges")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, tuple[str, int] | Operand] = {}
        self.ranges: dict[str, tuple[str, int, int]] = {}
        self.memo: dict[str, Operand] = {} if parent is None else parent.memo
        self.own_memo = parent is None

    def declared(self) -> None:
        """A declaration was made: what was looked up before may now mean something else."""
        if self.own_memo:
            self.memo.clear()
        else:
            self.memo = {}
            self.own_memo = True


class Names:
    """Resolves names for one function; owns the uniqueness of its flattened names."""

    def __init__(self, function: Function, module_names: Container[str]) -> None:
        self.function = function
        self.module_names = module_names
        self.used: set[str] = set()
        self.counters: dict[str, int] = {}
        self.vector_elements: set[str] = set()

    def unique(self, name: str) -> str:
        """`name`, or `name$1`, ... if it is taken in this function or means something at module scope."""
        candidate = name
        while candidate in self.used or candidate in self.module_names or candidate in SPECIAL_REGISTERS:
            number = self.counters.get(name, 0) + 1
            self.counters[name] = number
            candidate = f"{name}${number}"
        self.used.add(candidate)
        return candidate

    def declare_register(self, scope: Scope, name: str, type_name: str, width: int) -> bool:
        """Declare one register (`width` 1) or vector register; False if the block has the name already."""
        if name in scope.names:
            return False
        scope.names[name] = (type_name, width)
        return True

    def find(self, scope: Scope | None, name: str) -> Operand | None:
        """The register, vector register or function-scope symbol that `name` means here; None if there is none."""
        while scope is not None:
            entry = scope.names.get(name)
            if entry is not None:
                if isinstance(entry, tuple):
                    entry = self._materialise(name, entry[0], entry[1])
                    scope.names[name] = entry
                return entry
            if scope.ranges:
                declared = _range_of(scope.ranges, name)
                if declared is not None:
                    entry = self._materialise(name, declared[0], declared[1])
                    scope.names[name] = entry
                    return entry
            scope = scope.parent
        return None

    def _materialise(self, name: str, type_name: str, width: int) -> Operand:
        if width == 1:
            register = Register(self.unique(name))
            self.function.registers[register.name] = type_name
            return register
        elements: list[Operand] = []
        for component in range(width):
            suffix = "xyzw"[component] if width <= 4 else str(component)
            register = Register(self.unique(f"{name}${suffix}"))
            self.function.registers[register.name] = type_name
            self.vector_elements.add(register.name)
            elements.append(register)
        return Vector(tuple(elements))


def _range_of(ranges: dict[str, tuple[str, int, int]], name: str) -> tuple[str, int] | None:
    """Type and vector width if `name` lies in a declared range: `%r12` in `%r<20>`, or in `%r1<5>`."""
    prefix = name.rstrip("0123456789")
    first, length = len(prefix), len(name)
    entry = ranges.get(prefix)
    if entry is not None and 0 < length - first <= 10 and (name[first] != "0" or first + 1 == length):
        if int(name[first:]) < entry[1]:
            return entry[0], entry[2]
    for split in range(max(first + 1, length - 10), length):
        if name[split] == "0" and split + 1 < length:
            continue  # no leading zeros: %r<10> declares %r7, not %r07
        entry = ranges.get(name[:split])
        if entry is not None and int(name[split:]) < entry[1]:
            return entry[0], entry[2]
    return None


def special_register(name: str) -> SpecialRegister | None:
    return SpecialRegister(name) if name in SPECIAL_REGISTERS else None
