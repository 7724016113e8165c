"""PE files (Windows programs and DLLs), as far as device code needs: the section `.nv_fatb` and imported DLLs.

Section names hold eight characters, hence `.nv_fatb` for `.nv_fatbin`. Layout: Microsoft PE/COFF specification.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cuttle.errors import ContainerError

MAGIC = b"MZ"
FATBIN_SECTION = ".nv_fatb"
MAX_IMPORTS = 4096


@dataclass(frozen=True, slots=True)
class PeSection:
    """`address` is relative to the image base; offset and size are of the raw data, within the file."""

    name: str
    address: int
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pe:
    """The headers of a PE file. `machine`: 0x8664 x86-64, 0x14C i386, 0xAA64 arm64."""

    machine: int
    bits: int
    sections: tuple[PeSection, ...]
    import_table: int


def read_pe(data: bytes | memoryview) -> Pe:
    """Headers of a PE file, checked against the size of `data`. Raises ContainerError."""
    view = memoryview(data)
    if len(view) < 64 or view[:2] != MAGIC:
        raise ContainerError("CON-0101", "the data is no PE file")
    (start,) = struct.unpack_from("<I", view, 60)
    if start + 24 > len(view) or bytes(view[start : start + 4]) != b"PE\0\0":
        raise ContainerError("CON-0101", "the data is no PE file (an old DOS program?)")
    machine, count = struct.unpack_from("<HH", view, start + 4)
    (optional_bytes,) = struct.unpack_from("<H", view, start + 20)
    optional = start + 24
    table = optional + optional_bytes
    if table + 40 * count > len(view):
        raise ContainerError("CON-0102", "the PE section table reaches past the end of the file")
    bits, imports = 64, 0
    if optional_bytes >= 2:
        (kind,) = struct.unpack_from("<H", view, optional)
        bits = 64 if kind == 0x20B else 32
        directories = 112 if bits == 64 else 96
        if optional_bytes >= directories + 16:
            (imports,) = struct.unpack_from("<I", view, optional + directories + 8)
    sections = []
    for index in range(count):
        place = table + 40 * index
        name = bytes(view[place : place + 8]).rstrip(b"\0").decode("latin-1")
        virtual_bytes, address, raw_bytes, offset = struct.unpack_from("<IIII", view, place + 8)
        if raw_bytes and offset + raw_bytes > len(view):
            raise ContainerError("CON-0102", f"PE section `{name}` reaches past the end of the file")
        size = min(raw_bytes, virtual_bytes) if virtual_bytes else raw_bytes
        sections.append(PeSection(name, address, offset, size))
    return Pe(machine, bits, tuple(sections), imports)


def fatbin_sections(data: bytes | memoryview, pe: Pe) -> list[memoryview]:
    """Contents of the sections that hold fat binaries."""
    view = memoryview(data)
    return [view[s.offset : s.offset + s.size_bytes] for s in pe.sections if s.name == FATBIN_SECTION and s.size_bytes]


def imported_libraries(data: bytes | memoryview, pe: Pe) -> tuple[str, ...]:
    """Names of the DLLs in the import table, as written."""
    view = memoryview(data)
    names: list[str] = []
    place = _file_offset(pe, pe.import_table) if pe.import_table else -1
    while 0 <= place <= len(view) - 20 and len(names) < MAX_IMPORTS:
        descriptor = struct.unpack_from("<IIIII", view, place)
        if not any(descriptor):
            break
        name = _file_offset(pe, descriptor[3])
        if 0 <= name < len(view):
            names.append(bytes(view[name : name + 260]).split(b"\0", 1)[0].decode("latin-1"))
        place += 20
    return tuple(names)


def _file_offset(pe: Pe, address: int) -> int:
    """File offset of an image-relative address, -1 if no section holds it."""
    for section in pe.sections:
        if section.address <= address < section.address + section.size_bytes:
            return section.offset + address - section.address
    return -1
