"""One relocatable AMDGPU object to a code object that HIP loads: an ELF shared object with dynamic symbols.

What is in the file is LLVM's: code, kernel descriptors (`NAME.kd`), metadata note, flags. Added are a layout in three loadable segments
(read, read-execute, read-write; each on pages of its own, file offsets without gaps), the tables of a shared object, and the
values of relocations. Facts: LLVM's "User Guide for AMDGPU Backend" (relocation records, code object), the System V gABI;
the result is compared with that of `ld.lld` in tests.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

PAGE = 4096
MAX_CODE_OBJECT_BYTES = 1 << 30
ELF_HEADER, PROGRAM_HEADER, SECTION_HEADER, SYMBOL, RELA = 64, 56, 64, 24, 24
EM_AMDGPU = 224
ET_REL, ET_DYN = 1, 3
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    11,
)
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 4, 6, 0x6474E551, 0x6474E552
READ, READ_EXECUTE, READ_WRITE = 4, 5, 6
DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT, DT_STRSZ, DT_SYMENT = (
    0,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
)
STB_GLOBAL = 1

# Relocation records of AMDGPU.
ABS64, REL32, REL64, REL32_LO, REL32_HI, RELATIVE64 = 3, 4, 5, 10, 11, 13
WIDTHS = {ABS64: 8, REL32: 4, REL64: 8, REL32_LO: 4, REL32_HI: 4}


class LinkError(ValueError):
    """The object is malformed, or needs what a code object of ours cannot have."""


@dataclass(slots=True)
class Part:
    """A section of the output: its bytes, and where they go."""

    name: str
    type: int
    flags: int
    align: int
    data: bytearray
    size: int
    entry_bytes: int = 0
    link: str = ""
    info: int = 0
    address: int = -1
    file_offset: int = -1


@dataclass(frozen=True, slots=True)
class SymbolRow:
    """A symbol of the input; `section` is the input section's number, 0 if it is undefined, -1 if it is absolute."""

    name: str
    info: int
    other: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class RelocationRow:
    section: int
    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Span:
    """A loadable segment: its rights, file offset, distance of addresses from file offsets, ends in the file and in memory."""

    rights: int
    start: int
    shift: int
    file_end: int
    end: int


@dataclass(slots=True)
class ObjectFile:
    """What is taken from the relocatable object. `parts` maps input section numbers to what becomes of them."""

    flags: int
    abi_version: int
    parts: dict[int, Part] = field(default_factory=dict)
    symbols: list[SymbolRow] = field(default_factory=list)
    relocations: list[RelocationRow] = field(default_factory=list)


def link_code_object(data: bytes) -> bytes:
    """The loadable code object of one relocatable object. Raises LinkError."""
    try:
        source = read_object(data)
    except (ELFError, struct.error, UnicodeDecodeError, KeyError, OverflowError, MemoryError) as error:
        raise LinkError(f"the object is malformed: {error}") from error
    return Layout(source).link()


# -- reading ----------------------------------------------------------------------------------------------------------


def read_object(data: bytes) -> ObjectFile:
    if data[:8] != b"\x7fELF\x02\x01\x01\x40":
        raise LinkError("not a little-endian ELF64 file of AMDHSA")
    elf = ELFFile(io.BytesIO(data))
    header = elf.header
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != ET_REL or machine != EM_AMDGPU:
        raise LinkError("not a relocatable AMDGPU object")
    result = ObjectFile(header["e_flags"], data[8])
    sections = list(elf.iter_sections())
    for index, section in enumerate(sections):
        flags = section["sh_flags"]
        number = section_type(section["sh_type"])
        if flags & SHF_ALLOC and number in (SHT_PROGBITS, SHT_NOTE, SHT_NOBITS):
            result.parts[index] = take_section(section, number, flags, len(data))
    tables = [section for section in sections if isinstance(section, SymbolTableSection)]
    if len(tables) != 1:
        raise LinkError(f"{len(tables)} symbol tables")
    for symbol in tables[0].iter_symbols():
        result.symbols.append(take_symbol(symbol, result))
    for section in sections:
        if isinstance(section, RelocationSection):
            take_relocations(section, result)
    return result


def section_type(name: str | int) -> int:
    known = {"SHT_PROGBITS": SHT_PROGBITS, "SHT_NOTE": SHT_NOTE, "SHT_NOBITS": SHT_NOBITS}
    return name if isinstance(name, int) else known.get(name, 0)


def take_section(section: object, number: int, flags: int, file_bytes: int) -> Part:
    size, align = section["sh_size"], max(section["sh_addralign"], 1)  # type: ignore[index]
    name = section.name  # type: ignore[attr-defined]
    if align & (align - 1) or align > PAGE:
        raise LinkError(f"`{name}` has alignment {align}")
    if size > MAX_CODE_OBJECT_BYTES:
        raise LinkError(f"`{name}` has {size} bytes")
    if number != SHT_NOBITS and section["sh_offset"] + size > file_bytes:  # type: ignore[index]
        raise LinkError(f"`{name}` lies outside the file")
    data = bytearray() if number == SHT_NOBITS else bytearray(section.data())  # type: ignore[attr-defined]
    return Part(name, number, flags & (SHF_WRITE | SHF_ALLOC | SHF_EXECINSTR), align, data, size)


def take_symbol(symbol: object, result: ObjectFile) -> SymbolRow:
    entry = symbol.entry  # type: ignore[attr-defined]
    binding, kind = entry["st_info"]["bind"], entry["st_info"]["type"]
    bindings = {"STB_LOCAL": 0, "STB_GLOBAL": STB_GLOBAL, "STB_WEAK": 2}
    kinds = {"STT_NOTYPE": 0, "STT_OBJECT": 1, "STT_FUNC": 2, "STT_SECTION": 3, "STT_FILE": 4}
    visibilities = {"STV_DEFAULT": 0, "STV_INTERNAL": 1, "STV_HIDDEN": 2, "STV_PROTECTED": 3}
    index = entry["st_shndx"]
    section = {"SHN_UNDEF": 0, "SHN_ABS": -1}.get(index, index if isinstance(index, int) else -2)
    name = symbol.name  # type: ignore[attr-defined]
    if section == -2:
        raise LinkError(f"the symbol `{name}` is of a kind that a code object does not have")
    value, size = entry["st_value"], entry["st_size"]
    part = result.parts.get(section)
    if part is not None and value > part.size:
        raise LinkError(f"the symbol `{name}` lies outside its section")
    info = bindings.get(binding, 0) << 4 | kinds.get(kind, 0)
    return SymbolRow(name, info, visibilities.get(entry["st_other"]["visibility"], 0), section, value, size)


def take_relocations(table: RelocationSection, result: ObjectFile) -> None:
    part = result.parts.get(table["sh_info"])
    if part is None:
        return
    if not table.is_RELA():
        raise LinkError(f"`{table.name}` has no addends")
    for relocation in table.iter_relocations():
        kind = relocation["r_info_type"]
        width = WIDTHS.get(kind)
        if width is None:
            raise LinkError(f"relocation type {kind} in `{part.name}` has no place in a code object")
        if part.type == SHT_NOBITS or relocation["r_offset"] + width > part.size:
            raise LinkError(f"a relocation lies outside `{part.name}`")
        if relocation["r_info_sym"] >= len(result.symbols):
            raise LinkError("a relocation has no symbol")
        result.relocations.append(
            RelocationRow(
                table["sh_info"], relocation["r_offset"], kind, relocation["r_info_sym"], relocation["r_addend"]
            )
        )


# -- laying out -------------------------------------------------------------------------------------------------------


class Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = bytearray(1)
        self.known: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self.known:
            self.known[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.known[text]


def elf_hash(name: str) -> int:
    """The hash function of the gABI's SHT_HASH tables."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high & 0xFFFF_FFFF
    return value


class Layout:
    """Places all parts, then fills in what depends on addresses."""

    def __init__(self, source: ObjectFile) -> None:
        self.source = source
        self.numbers: dict[int, int] = {}
        self.exported = [s for s in source.symbols if s.info >> 4 == STB_GLOBAL and s.section in source.parts]
        for symbol in source.symbols:
            if symbol.section == 0 and symbol.name:
                raise LinkError(f"the object needs `{symbol.name}`, which nobody provides")

    def link(self) -> bytes:
        strings = Strings()
        names = [strings.add(symbol.name) for symbol in self.exported]
        absolute = [row for row in self.source.relocations if row.type == ABS64]
        table_bytes = SYMBOL * (1 + len(self.exported))
        tables = [
            self.part(".dynsym", SHT_DYNSYM, table_bytes, 8, SYMBOL, ".dynstr", 1),
            self.part(".hash", SHT_HASH, 4 * (2 + 2 * (1 + len(self.exported))), 4, 4, ".dynsym"),
            self.part(".dynstr", SHT_STRTAB, len(strings.data), 1),
        ]
        if absolute:
            tables.append(self.part(".rela.dyn", SHT_RELA, RELA * len(absolute), 8, RELA, ".dynsym"))
        taken = list(self.source.parts.values())
        notes = [part for part in taken if part.type == SHT_NOTE]
        readable = [p for p in taken if not p.flags & (SHF_WRITE | SHF_EXECINSTR) and p.type != SHT_NOTE]
        code = [part for part in taken if part.flags & SHF_EXECINSTR]
        written = [part for part in taken if part.flags & SHF_WRITE and not part.flags & SHF_EXECINSTR]
        written.sort(key=lambda part: part.type == SHT_NOBITS)
        entries = 9 if absolute else 6
        dynamic = self.part(".dynamic", SHT_DYNAMIC, 16 * entries, 8, 16, ".dynstr", flags=SHF_ALLOC | SHF_WRITE)
        segments = [(READ, [*notes, *tables, *readable]), (READ_EXECUTE, code), (READ_WRITE, [dynamic, *written])]
        segments = [(rights, members) for rights, members in segments if members]
        parts = [part for _, members in segments for part in members]
        self.numbers = {id(part): number for number, part in enumerate(parts, 1)}
        header_count = len(segments) + 4 + bool(notes)
        place = ELF_HEADER + PROGRAM_HEADER * header_count
        spans: list[Span] = []
        shift = 0  # addresses minus file offsets, a multiple of the page size
        for rights, members in segments:
            align = max(part.align for part in members)
            start = -(-place // align) * align if spans else 0
            place = max(place, start)
            end = file_end = place
            for part in members:
                end = -(-end // part.align) * part.align
                part.file_offset, part.address = end, end + shift
                end += part.size
                if part.type != SHT_NOBITS:
                    file_end = end
            spans.append(Span(rights, start, shift, file_end, end))
            place = file_end
            shift = -(-(end + shift) // PAGE) * PAGE - place // PAGE * PAGE
        for row in self.source.relocations:
            self.relocate(row)
        self.fill_tables(tables, names, strings, absolute)
        self.fill_dynamic(dynamic, tables, absolute)
        return self.write(parts, spans, notes, dynamic, header_count)

    def part(
        self, name: str, kind: int, size: int, align: int, entry: int = 0, link: str = "", info: int = 0,
        flags: int = SHF_ALLOC
    ) -> Part:  # fmt: skip
        return Part(name, kind, flags, align, bytearray(size), size, entry, link, info)

    def address(self, symbol: SymbolRow) -> int:
        if symbol.section == -1:
            return symbol.value
        part = self.source.parts.get(symbol.section)
        if part is None:
            raise LinkError(f"`{symbol.name or 'a symbol'}` lies in a section that is not loaded")
        return part.address + symbol.value

    def relocate(self, row: RelocationRow) -> None:
        part = self.source.parts[row.section]
        target = self.address(self.source.symbols[row.symbol]) + row.addend
        distance = target - (part.address + row.offset)
        if row.type == ABS64:
            value = target
        elif row.type == REL32_HI:
            value = distance >> 32
        else:
            value = distance
        if row.type == REL32 and not -(1 << 31) <= value < 1 << 31:
            raise LinkError(f"a distance in `{part.name}` does not fit 32 bits")
        width = WIDTHS[row.type]
        part.data[row.offset : row.offset + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")

    def fill_tables(
        self, tables: list[Part], names: list[int], strings: Strings, absolute: list[RelocationRow]
    ) -> None:
        symbols, hashes, texts = tables[:3]
        symbols.data[:] = self.symbol_table(self.exported, names)
        texts.data[:] = strings.data
        count = 1 + len(self.exported)
        buckets, chains = [0] * count, [0] * count
        for index, symbol in enumerate(self.exported, 1):
            bucket = elf_hash(symbol.name) % count
            chains[index], buckets[bucket] = buckets[bucket], index
        hashes.data[:] = struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)
        if absolute:
            rows = [
                struct.pack(
                    "<QQq",
                    self.source.parts[row.section].address + row.offset,
                    RELATIVE64,
                    self.address(self.source.symbols[row.symbol]) + row.addend,
                )
                for row in absolute
            ]
            tables[3].data[:] = b"".join(rows)

    def symbol_table(self, symbols: Iterable[SymbolRow], names: Iterable[int]) -> bytes:
        rows = [bytes(SYMBOL)]
        for symbol, name in zip(symbols, names, strict=True):
            section = self.numbers[id(self.source.parts[symbol.section])]
            rows.append(
                struct.pack("<IBBHQQ", name, symbol.info, symbol.other, section, self.address(symbol), symbol.size)
            )
        return b"".join(rows)

    def fill_dynamic(self, dynamic: Part, tables: list[Part], absolute: list[RelocationRow]) -> None:
        symbols, hashes, texts = tables[:3]
        entries = [(DT_SYMTAB, symbols.address), (DT_SYMENT, SYMBOL), (DT_STRTAB, texts.address), (DT_STRSZ, texts.size),
                   (DT_HASH, hashes.address)]  # fmt: skip
        if absolute:
            entries += [(DT_RELA, tables[3].address), (DT_RELASZ, tables[3].size), (DT_RELAENT, RELA)]
        entries.append((DT_NULL, 0))
        dynamic.data[:] = b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, parts: list[Part], spans: list[Span], notes: list[Part], dynamic: Part, headers: int) -> bytes:
        """The file: headers, parts at their addresses, then symbols and section names that loaders do not map."""
        out = bytearray(spans[-1].file_end)
        for part in parts:
            if part.type != SHT_NOBITS:
                out[part.file_offset : part.file_offset + len(part.data)] = part.data
        rows = [program_header(PT_PHDR, READ, ELF_HEADER, 0, PROGRAM_HEADER * headers, 8)]
        for span in spans:
            size = span.file_end - span.start
            rows.append(
                program_header(PT_LOAD, span.rights, span.start, span.shift, size, PAGE, span.end - span.start)
            )  # fmt: skip
        at, shift = dynamic.file_offset, dynamic.address - dynamic.file_offset
        rows.append(program_header(PT_DYNAMIC, READ_WRITE, at, shift, dynamic.size, 8))
        # What the loader has filled in need not be written again; ours ends with the table itself.
        rows.append(program_header(PT_GNU_RELRO, READ, at, shift, dynamic.size, 1))
        rows.append(program_header(PT_GNU_STACK, READ_WRITE, 0, 0, 0, 0))
        if notes:
            start = notes[0].address
            end = notes[-1].address + notes[-1].size
            rows.append(program_header(PT_NOTE, READ, start, 0, end - start, 4))
        out[ELF_HEADER : ELF_HEADER + PROGRAM_HEADER * headers] = b"".join(rows)
        names = Strings()
        symbol_names = Strings()
        symbol_table = self.symbol_table(self.exported, [symbol_names.add(s.name) for s in self.exported])
        unmapped = [
            Part(".symtab", SHT_SYMTAB, 0, 8, bytearray(symbol_table), len(symbol_table), SYMBOL, ".strtab", 1),
            Part(".strtab", SHT_STRTAB, 0, 1, symbol_names.data, len(symbol_names.data)),
        ]
        everything = [*parts, *unmapped]
        name_numbers = [names.add(part.name) for part in everything]
        own = names.add(".shstrtab")
        everything.append(Part(".shstrtab", SHT_STRTAB, 0, 1, names.data, len(names.data)))
        places = []
        for part in everything:
            if part.address >= 0:
                places.append(part.file_offset)
                continue
            out += bytes(-len(out) % part.align)
            places.append(len(out))
            out += part.data
        out += bytes(-len(out) % 8)
        table_at = len(out)
        out += bytes(SECTION_HEADER)
        numbers = {part.name: number for number, part in enumerate(everything, 1)}
        for part, name, place in zip(everything, [*name_numbers, own], places, strict=True):
            out += struct.pack(
                "<IIQQQQIIQQ", name, part.type, part.flags, max(part.address, 0), place, part.size,
                numbers.get(part.link, 0), part.info, part.align, part.entry_bytes,
            )  # fmt: skip
        identity = b"\x7fELF\x02\x01\x01\x40" + bytes([self.source.abi_version]) + bytes(7)
        out[:ELF_HEADER] = identity + struct.pack(
            "<HHIQQQIHHHHHH", ET_DYN, EM_AMDGPU, 1, 0, ELF_HEADER, table_at, self.source.flags, ELF_HEADER,
            PROGRAM_HEADER, headers, SECTION_HEADER, len(everything) + 1, len(everything),
        )  # fmt: skip
        return bytes(out)


def program_header(kind: int, rights: int, place: int, shift: int, size: int, align: int, memory: int = -1) -> bytes:
    """`shift`: address minus file offset; `memory`: size in memory if it is not that in the file."""
    address = place + shift
    return struct.pack("<IIQQQQQQ", kind, rights, place, address, address, size, size if memory < 0 else memory, align)
