"""ELF files, as far as device code needs: sections, needed libraries, kernels of a cubin.

A reader of its own, because pyelftools takes 70 ms to import and modules are loaded at program start. Facts on cubins:
`driver.md` sections 5 and 6. Only little-endian files are read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cuttle.errors import ContainerError

MAGIC = b"\x7fELF"
MACHINE_CUDA = 190
FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MAX_SECTIONS = 1 << 20
MAX_NAME_BYTES = 1 << 16

_TYPE_SYMBOLS = 2
_TYPE_NOBITS = 8
_TYPE_DYNAMIC = 6
_TAG_NEEDED = 1
_SYMBOL_FUNCTION = 2
_OTHER_CUDA_ENTRY = 0x10
_ATTRIBUTE_PARAMETER = 0x17
_ATTRIBUTE_PARAMETER_BYTES = 0x19


@dataclass(frozen=True, slots=True)
class Section:
    """A section header; `offset` and `size_bytes` lie within the file, or size is 0 (no bits)."""

    name: str
    type: int
    offset: int
    size_bytes: int
    link: int


@dataclass(frozen=True, slots=True)
class Elf:
    """The headers of an ELF file."""

    bits: int
    machine: int
    os_abi: int
    abi_version: int
    flags: int
    sections: tuple[Section, ...]

    @property
    def is_cubin(self) -> bool:
        return self.machine == MACHINE_CUDA

    @property
    def architecture(self) -> int:
        """Target of a cubin (80 for sm_80): bits 8-15 of the flags since ABI version 8, bits 0-7 before."""
        return (self.flags >> 8 if self.abi_version >= 8 else self.flags) & 0xFF


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """Where a parameter of a cubin's kernel stands in the parameter buffer."""

    ordinal: int
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CubinKernel:
    """A kernel of a cubin and its parameter layout. `parameter_bytes` is the size of the parameter buffer."""

    name: str
    parameters: tuple[KernelParameter, ...]
    parameter_bytes: int


def read_elf(data: bytes | memoryview) -> Elf:
    """Headers of an ELF file, checked against the size of `data`. Raises ContainerError."""
    view = memoryview(data)
    if len(view) < 52 or view[:4] != MAGIC:
        raise ContainerError("CON-0101", "the data is no ELF file")
    wide, little = view[4] == 2, view[5] == 1
    if view[4] not in (1, 2) or not little:
        raise ContainerError("CON-0103", "ELF file of an unknown class or byte order")
    if wide:
        if len(view) < 64:
            raise ContainerError("CON-0102", "the ELF header is cut off")
        table, flags = struct.unpack_from("<QI", view, 40)
        entry_bytes, count, names = struct.unpack_from("<HHH", view, 58)
    else:
        table, flags = struct.unpack_from("<II", view, 32)
        entry_bytes, count, names = struct.unpack_from("<HHH", view, 46)
    (machine,) = struct.unpack_from("<H", view, 18)
    sections = _read_sections(view, wide, table, entry_bytes, count, names) if table else ()
    return Elf(64 if wide else 32, machine, view[7], view[8], flags, sections)


def _read_sections(
    view: memoryview, wide: bool, table: int, entry_bytes: int, count: int, names: int
) -> tuple[Section, ...]:
    if entry_bytes < (64 if wide else 40):
        raise ContainerError("CON-0103", f"ELF section header size {entry_bytes} is impossible")

    def header(index: int) -> tuple[int, int, int, int, int]:
        place = table + index * entry_bytes
        if place + entry_bytes > len(view):
            raise ContainerError("CON-0102", "the ELF section table reaches past the end of the file")
        if wide:
            name, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", view, place)
        else:
            name, kind, _, _, offset, size, link = struct.unpack_from("<IIIIIII", view, place)
        return name, kind, offset, size, link

    if count == 0:  # more than 65279 sections: the true numbers stand in section 0
        _, _, _, count, link = header(0)
        if names == 0xFFFF:
            names = link
    elif names == 0xFFFF:
        names = header(0)[4]
    if count > MAX_SECTIONS:
        raise ContainerError("CON-0103", f"the ELF file claims {count} sections")
    headers = [header(index) for index in range(count)]
    strings = memoryview(b"")
    if names < count:
        _, kind, offset, size, _ = headers[names]
        if kind != _TYPE_NOBITS:
            if offset + size > len(view):
                raise ContainerError("CON-0102", "the ELF section names reach past the end of the file")
            strings = view[offset : offset + size]
    sections = []
    for name, kind, offset, size, link in headers:
        if kind == _TYPE_NOBITS:
            offset, size = 0, 0
        elif offset + size > len(view):
            raise ContainerError("CON-0102", f"ELF section `{_string(strings, name)}` reaches past the end of the file")
        sections.append(Section(_string(strings, name), kind, offset, size, link))
    return tuple(sections)


def _string(strings: memoryview, offset: int) -> str:
    """The NUL-terminated string at `offset`, empty if there is none."""
    if offset >= len(strings):
        return ""
    piece = bytes(strings[offset : offset + MAX_NAME_BYTES])
    return piece.split(b"\0", 1)[0].decode("utf-8", "replace")


def elf_bytes(data: bytes | memoryview) -> int:
    """Size of the ELF image that begins `data`, from its headers (a cubin in memory comes without its size)."""
    view = memoryview(data)
    elf = read_elf(view)
    wide = elf.bits == 64
    table, _ = struct.unpack_from("<QI" if wide else "<II", view, 40 if wide else 32)
    entry_bytes, count = struct.unpack_from("<HH", view, 58 if wide else 46)
    programs, program_bytes, program_count = (
        (*struct.unpack_from("<Q", view, 32), *struct.unpack_from("<HH", view, 54))
        if wide
        else (*struct.unpack_from("<I", view, 28), *struct.unpack_from("<HH", view, 42))
    )
    ends = [64 if wide else 52, table + entry_bytes * count, programs + program_bytes * program_count]
    ends.extend(section.offset + section.size_bytes for section in elf.sections)
    return int(min(len(view), max(ends)))


def section_data(data: bytes | memoryview, section: Section) -> memoryview:
    return memoryview(data)[section.offset : section.offset + section.size_bytes]


def fatbin_sections(data: bytes | memoryview, elf: Elf) -> list[memoryview]:
    """Contents of the sections of a host ELF file that hold fat binaries."""
    return [section_data(data, s) for s in elf.sections if s.name in FATBIN_SECTIONS and s.size_bytes]


def needed_libraries(data: bytes | memoryview, elf: Elf) -> tuple[str, ...]:
    """The DT_NEEDED names of a program or shared library."""
    names: list[str] = []
    for section in elf.sections:
        if section.type != _TYPE_DYNAMIC or not section.link < len(elf.sections):
            continue
        strings = section_data(data, elf.sections[section.link])
        table = section_data(data, section)
        pair = struct.Struct("<qQ" if elf.bits == 64 else "<iI")
        for place in range(0, len(table) - pair.size + 1, pair.size):
            tag, value = pair.unpack_from(table, place)
            if tag == 0 or len(names) > 4096:
                break
            if tag == _TAG_NEEDED:
                names.append(_string(strings, value))
    return tuple(names)


def cubin_kernels(data: bytes | memoryview, elf: Elf) -> tuple[CubinKernel, ...]:
    """The kernels of a cubin with their parameters, from its sections `.nv.info.<kernel>`."""
    entries = _entry_functions(data, elf)
    kernels = []
    for section in elf.sections:
        if section.name.startswith(".nv.info.") and section.name[9:] in entries:
            kernels.append(_kernel(section.name[9:], section_data(data, section)))
    return tuple(kernels)


def _entry_functions(data: bytes | memoryview, elf: Elf) -> set[str]:
    """Names of the symbols marked as kernels; device functions have `.nv.info` sections too."""
    names: set[str] = set()
    for section in elf.sections:
        if section.type != _TYPE_SYMBOLS or not section.link < len(elf.sections):
            continue
        strings = section_data(data, elf.sections[section.link])
        table = section_data(data, section)
        wide = elf.bits == 64
        step = 24 if wide else 16
        for place in range(0, len(table) - step + 1, step):
            info, other = struct.unpack_from("<BB", table, place + (4 if wide else 12))
            if info & 15 == _SYMBOL_FUNCTION and other & _OTHER_CUDA_ENTRY:
                names.add(_string(strings, struct.unpack_from("<I", table, place)[0]))
    return names


def _kernel(name: str, info: memoryview) -> CubinKernel:
    """Attributes: u8 format, u8 number, then u16 value, or (format 4) u16 size and as many bytes."""
    parameters: list[KernelParameter] = []
    total = 0
    place = 0
    while len(info) - place >= 4:
        form, attribute, value = struct.unpack_from("<BBH", info, place)
        place += 4
        if form == 4:
            if value > len(info) - place:
                raise ContainerError("CON-0102", f"attribute {attribute:#x} of kernel `{name}` is cut off")
            if attribute == _ATTRIBUTE_PARAMETER and value >= 12:
                _, ordinal, offset, bits = struct.unpack_from("<IHHI", info, place)
                parameters.append(KernelParameter(ordinal, offset, bits >> 18))
            place += value
        elif attribute == _ATTRIBUTE_PARAMETER_BYTES:
            total = value
    parameters.sort(key=lambda parameter: parameter.ordinal)
    return CubinKernel(name, tuple(parameters), total)
