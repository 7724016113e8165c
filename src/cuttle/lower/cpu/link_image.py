"""One relocatable ELF64 x86-64 object to one flat, position-independent blob.

Layout: code (`.text*`, then stubs for imported functions), read-only data, then from a page boundary on everything that
is written at load time or by the program: sections with absolute addresses, `.data*`, the GOT, `.bss`. Unwind and debug
sections are dropped. The object comes from our own compiler, but every number in it is checked before it is used: a
damaged one raises LinkError, nothing else. Facts: System V ABI, AMD64 supplement 1.0, chapter 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from cuttle.lower.cpu.line_table import LINE_SECTION, LineTableError, read_line_table

PAGE = 4096
MAX_BLOB_BYTES = 1 << 30

_SHT_PROGBITS, _SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_REL = 1, 2, 4, 8, 9
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_TLS = 1, 2, 4, 0x400
_SHN_UNDEF, _SHN_LORESERVE, _SHN_ABS, _SHN_COMMON, _SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF
_STT_SECTION, _STT_TLS, _STT_GNU_IFUNC = 3, 6, 10

_R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_PC64, _R_GOTPCRELX, _R_REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
_WIDTHS = {_R_64: 8, _R_PC32: 4, _R_PLT32: 4, _R_GOTPCREL: 4, _R_PC64: 8, _R_GOTPCRELX: 4, _R_REX_GOTPCRELX: 4}


class LinkError(ValueError):
    """The object is malformed, or holds something that a flat blob cannot hold."""


@dataclass(slots=True)
class Linked:
    """`symbols`: offsets of all named definitions. `fixups`: offsets of 64-bit words to which the load address is
    added. `imports`: (offset, name) of 64-bit words that get a function's address. All fixups and imports lie at or
    behind `data_offset`, a multiple of the page size: what is before it can be mapped read-only and executable. `lines`:
    ascending offsets from which on code belongs to a source line (0: to none).
    """

    blob: bytes
    symbols: dict[str, int]
    fixups: list[int]
    imports: list[tuple[int, str]]
    data_offset: int
    lines: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Section:
    index: int
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_bytes: int
    place: int = -1


@dataclass(slots=True)
class _Symbol:
    name: str
    type: int
    section: int
    value: int
    size: int


@dataclass(slots=True)
class _Relocation:
    section: _Section
    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(slots=True)
class _Object:
    data: bytes
    sections: list[_Section] = field(default_factory=list)
    symbols: list[_Symbol] = field(default_factory=list)
    relocations: list[_Relocation] = field(default_factory=list)
    line_relocations: list[_Relocation] = field(default_factory=list)


def link_image(data: bytes, exports: Iterable[str] = (), allowed_imports: Iterable[str] | None = None) -> Linked:
    """Link one object. `exports` must all be defined in it. Imports outside `allowed_imports` (if given) are refused."""
    source = _read_object(data)
    linked = _Layout(source).link()
    for name in exports:
        if name not in linked.symbols:
            raise LinkError(f"the object does not define `{name}`")
    if allowed_imports is not None:
        allowed = set(allowed_imports)
        for _, name in linked.imports:
            if name not in allowed:
                raise LinkError(f"the object needs `{name}`, which is not provided")
    return linked


# -- reading ----------------------------------------------------------------------------------------------------------


def _slice(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset < 0 or size < 0 or offset + size > len(data):
        raise LinkError(f"{what} lies outside the file")
    return data[offset : offset + size]


def _string(table: bytes, offset: int) -> str:
    if offset >= len(table):
        raise LinkError("a name lies outside its string table")
    end = table.find(b"\0", offset)
    if end < 0:
        raise LinkError("a string table does not end")
    return table[offset:end].decode("utf-8", "replace")


def _read_object(data: bytes) -> _Object:
    header = _slice(data, 0, 64, "the ELF header")
    if header[:7] != b"\x7fELF\x02\x01\x01":
        raise LinkError("not a little-endian ELF64 file")
    kind, machine = struct.unpack_from("<HH", header, 16)
    if kind != 1 or machine != 62:
        raise LinkError("not a relocatable x86-64 object")
    (table_offset,) = struct.unpack_from("<Q", header, 40)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", header, 58)
    if entry_bytes != 64:
        raise LinkError(f"section headers have {entry_bytes} bytes")
    if table_offset and count == 0:  # more than 0xFF00 sections: the number stands in section 0 (gABI, e_shnum)
        count = struct.unpack("<Q", _slice(data, table_offset + 32, 8, "section header 0"))[0]
    if names_index == _SHN_XINDEX:
        names_index = struct.unpack("<I", _slice(data, table_offset + 40, 4, "section header 0"))[0]
    if count > len(data) // 64:
        raise LinkError("more section headers than the file can hold")
    table = _slice(data, table_offset, 64 * count, "the section table")
    result = _Object(data)
    raw_names = []
    for index in range(count):
        name, kind, flags, _, offset, size, link, info, align, entry = struct.unpack_from(
            "<IIQQQQIIQQ", table, 64 * index
        )
        if align & (align - 1) or align > 1 << 20:
            raise LinkError(f"section {index} has alignment {align}")
        if kind != _SHT_NOBITS and kind != 0:
            _slice(data, offset, size, f"section {index}")
        if size > MAX_BLOB_BYTES:
            raise LinkError(f"section {index} has {size} bytes")
        raw_names.append(name)
        result.sections.append(_Section(index, "", kind, flags, offset, size, link, info, max(align, 1), entry))
    if names_index >= count:
        raise LinkError("there is no section name table")
    strings = result.sections[names_index]
    names = _slice(data, strings.offset, strings.size, "the section name table")
    for section, name in zip(result.sections, raw_names, strict=True):
        section.name = _string(names, name) if section.index else ""
    tables = [section for section in result.sections if section.type == _SHT_SYMTAB]
    if len(tables) != 1:
        raise LinkError(f"{len(tables)} symbol tables")
    _read_symbols(result, tables[0])
    for section in result.sections:
        if section.type in (_SHT_RELA, _SHT_REL):
            _read_relocations(result, section, tables[0].index)
    return result


def _read_symbols(result: _Object, table: _Section) -> None:
    if table.entry_bytes != 24 or table.size % 24:
        raise LinkError("the symbol table is malformed")
    if table.link >= len(result.sections):
        raise LinkError("the symbol table has no names")
    strings = result.sections[table.link]
    names = _slice(result.data, strings.offset, strings.size, "the symbol name table")
    for name, info, _, index, value, size in struct.iter_unpack(
        "<IBBHQQ", _slice(result.data, table.offset, table.size, "the symbol table")
    ):
        if _SHN_LORESERVE <= index and index not in (_SHN_ABS, _SHN_COMMON):
            raise LinkError(f"a symbol has section index {index:#x}")
        if index < _SHN_LORESERVE and index >= len(result.sections):
            raise LinkError("a symbol lies in no section")
        if 0 < index < _SHN_LORESERVE and value > result.sections[index].size:
            raise LinkError("a symbol lies outside its section")
        result.symbols.append(_Symbol(_string(names, name) if name else "", info & 15, index, value, size))


def _read_relocations(result: _Object, table: _Section, symbol_table: int) -> None:
    if table.info >= len(result.sections):
        raise LinkError(f"`{table.name}` applies to no section")
    section = result.sections[table.info]
    is_lines = section.name == LINE_SECTION
    if not _kept(section) and not is_lines:
        return
    if table.type != _SHT_RELA or table.entry_bytes != 24 or table.size % 24 or table.link != symbol_table:
        raise LinkError(f"`{table.name}` is malformed")
    for offset, info, addend in struct.iter_unpack(
        "<QQq", _slice(result.data, table.offset, table.size, "a relocation table")
    ):
        symbol, kind = info >> 32, info & 0xFFFF_FFFF
        width = _WIDTHS.get(kind)
        if width is None:
            raise LinkError(f"relocation type {kind} in `{section.name}` has no place in a flat image")
        if section.type == _SHT_NOBITS or offset + width > section.size:
            raise LinkError(f"a relocation lies outside `{section.name}`")
        if symbol >= len(result.symbols):
            raise LinkError("a relocation has no symbol")
        into = result.line_relocations if is_lines else result.relocations
        into.append(_Relocation(section, offset, kind, symbol, addend))


def _kept(section: _Section) -> bool:
    """Whether a section becomes part of the blob."""
    if not section.flags & _SHF_ALLOC or section.type not in (_SHT_PROGBITS, _SHT_NOBITS):
        return False
    if section.flags & _SHF_TLS:
        raise LinkError(f"thread-local section `{section.name}`")
    return not section.name.startswith((".eh_frame", ".gcc_except_table", ".note"))


# -- laying out -------------------------------------------------------------------------------------------------------


class _Layout:
    def __init__(self, source: _Object) -> None:
        self.source = source
        self.end = 0
        self.stubs: dict[int, int] = {}
        self.slots: dict[tuple[int, int], int] = {}
        self.commons: dict[int, int] = {}

    def _reserve(self, size: int, align: int) -> int:
        place = -(-self.end // align) * align
        self.end = place + size
        if self.end > MAX_BLOB_BYTES:
            raise LinkError("the image is too large")
        return place

    def link(self) -> Linked:
        source = self.source
        kept = [section for section in source.sections if _kept(section)]
        absolute = {r.section.index for r in source.relocations if r.type == _R_64}
        code = [s for s in kept if s.flags & _SHF_EXECINSTR]
        if any(section.index in absolute for section in code):
            raise LinkError("absolute address in code: it was not compiled as position-independent code")
        data = [s for s in kept if s not in code and (s.flags & _SHF_WRITE or s.index in absolute)]
        constants = [s for s in kept if s not in code and s not in data]
        data.sort(key=lambda section: section.type == _SHT_NOBITS)
        for section in code:
            section.place = self._reserve(section.size, max(section.align, 16))
        for relocation in source.relocations:
            symbol = source.symbols[relocation.symbol]
            if symbol.type in (_STT_TLS, _STT_GNU_IFUNC):
                raise LinkError(f"`{symbol.name}` is thread-local or an indirect function")
            if symbol.section == _SHN_UNDEF:
                if not symbol.name:
                    raise LinkError("a relocation refers to nothing")
                if relocation.type in (_R_PC32, _R_PLT32) and relocation.symbol not in self.stubs:
                    self.stubs[relocation.symbol] = self._reserve(8, 8)
        for section in constants:
            section.place = self._reserve(section.size, section.align)
        data_offset = self._reserve(0, PAGE)
        for section in data:
            if section.type != _SHT_NOBITS:
                section.place = self._reserve(section.size, section.align)
        for number in self.stubs:
            self._slot(number, 0)
        for relocation in source.relocations:
            if relocation.type in (_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX):
                self._slot(relocation.symbol, 0)
        for section in data:
            if section.type == _SHT_NOBITS:
                section.place = self._reserve(section.size, section.align)
        for number, symbol in enumerate(source.symbols):
            if symbol.section == _SHN_COMMON:
                if symbol.value & (symbol.value - 1) or symbol.value > 1 << 20:
                    raise LinkError(f"`{symbol.name}` has alignment {symbol.value}")
                self.commons[number] = self._reserve(symbol.size, max(symbol.value, 1))
        self._reserve(0, PAGE)
        return self._fill(kept, data_offset)

    def _slot(self, symbol: int, addend: int) -> int:
        place = self.slots.get((symbol, addend))
        if place is None:
            place = self.slots[symbol, addend] = self._reserve(8, 8)
        return place

    def _address(self, number: int) -> int | None:
        """A symbol's offset in the blob, or None if it is imported."""
        symbol = self.source.symbols[number]
        if symbol.section == _SHN_UNDEF:
            return None
        if symbol.section == _SHN_COMMON:
            return self.commons[number]
        if symbol.section == _SHN_ABS:
            raise LinkError(f"`{symbol.name}` has an absolute address")
        section = self.source.sections[symbol.section]
        if section.place < 0:
            raise LinkError(f"`{symbol.name}` lies in `{section.name}`, which is not loaded")
        return section.place + symbol.value

    def _fill(self, kept: list[_Section], data_offset: int) -> Linked:
        source = self.source
        blob = bytearray(self.end)
        for section in kept:
            if section.type != _SHT_NOBITS:
                blob[section.place : section.place + section.size] = _slice(
                    source.data, section.offset, section.size, f"`{section.name}`"
                )
        fixups: list[int] = []
        imports: list[tuple[int, str]] = []
        for (number, _), place in self.slots.items():
            address = self._address(number)
            if address is None:
                imports.append((place, source.symbols[number].name))
            else:
                struct.pack_into("<Q", blob, place, address)
                fixups.append(place)
        for number, place in self.stubs.items():
            # jmp *slot(%rip); two bytes of int3 behind it
            blob[place : place + 8] = b"\xff\x25" + struct.pack("<i", self.slots[number, 0] - place - 6) + b"\xcc\xcc"
        for relocation in source.relocations:
            self._apply(blob, relocation, fixups, imports)
        symbols: dict[str, int] = {}
        for number, symbol in enumerate(source.symbols):
            if symbol.name and symbol.section not in (_SHN_UNDEF, _SHN_ABS) and symbol.type != _STT_SECTION:
                if symbol.section != _SHN_COMMON and source.sections[symbol.section].place < 0:
                    continue
                address = self._address(number)
                if address is not None:
                    symbols[symbol.name] = address
        return Linked(bytes(blob), symbols, sorted(fixups), sorted(imports), data_offset, self._lines())

    def _lines(self) -> list[tuple[int, int]]:
        """Where code of which source line begins, from the debug section that is not loaded."""
        source = self.source
        for section in source.sections:
            if section.name == LINE_SECTION:
                data = bytearray(_slice(source.data, section.offset, section.size, "the line table"))
                for relocation in source.line_relocations:
                    address = self._address(relocation.symbol)
                    if relocation.type != _R_64 or address is None:
                        raise LinkError("a relocation of the line table is not of an address in the code")
                    struct.pack_into("<Q", data, relocation.offset, address + relocation.addend)
                try:
                    return read_line_table(bytes(data))
                except LineTableError as error:
                    raise LinkError(f"the line table: {error}") from None
        return []

    def _apply(
        self, blob: bytearray, relocation: _Relocation, fixups: list[int], imports: list[tuple[int, str]]
    ) -> None:
        place = relocation.section.place + relocation.offset
        number, addend, kind = relocation.symbol, relocation.addend, relocation.type
        address = self._address(number)
        if kind == _R_64:
            if address is None:
                if addend:
                    raise LinkError(f"address of `{self.source.symbols[number].name}` with an addend")
                struct.pack_into("<Q", blob, place, 0)
                imports.append((place, self.source.symbols[number].name))
            else:
                struct.pack_into("<Q", blob, place, (address + addend) & 0xFFFF_FFFF_FFFF_FFFF)
                fixups.append(place)
            return
        if kind in (_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX):
            if address is not None and kind != _R_GOTPCREL and relocation.offset >= 2 and blob[place - 2] == 0x8B:
                blob[place - 2] = 0x8D  # mov slot(%rip), reg becomes lea symbol(%rip), reg
            else:
                address = self.slots[number, 0]
        elif address is None:
            if kind == _R_PC64:
                raise LinkError(f"64-bit offset to `{self.source.symbols[number].name}`, which is imported")
            address = self.stubs[number]
        delta = address + addend - place
        if kind == _R_PC64:
            if not -(1 << 63) <= delta < 1 << 63:
                raise LinkError("a relocation overflows")
            struct.pack_into("<q", blob, place, delta)
            return
        if not -(1 << 31) <= delta < 1 << 31:
            raise LinkError("a relocation overflows")
        struct.pack_into("<i", blob, place, delta)
