"""Writes fat binaries, ELF and PE files and archives for the tests: only what the readers look at."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import lz4.block
from backports import zstd

from cuttle.ptx.containers import fatbin


@dataclass(frozen=True)
class Entry:
    """One entry to write. `kind` 1 is PTX, 2 a cubin."""

    payload: bytes
    kind: int = 1
    architecture: int = 80
    compression: str = "none"
    flags: int = fatbin.FLAG_64_BIT | fatbin.FLAG_LINUX
    version: tuple[int, int] = (8, 0)
    header_bytes: int = 64
    says_uncompressed: int | None = None


def write_fatbin(*entries: Entry) -> bytes:
    content = b"".join(_entry(entry) for entry in entries)
    return struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(content)) + content


def _entry(entry: Entry) -> bytes:
    payload, flags, compressed = entry.payload, entry.flags, 0
    if entry.kind == 1:
        payload += b"\0"
    size = len(payload)
    if entry.compression == "lz4":
        payload, flags = lz4.block.compress(payload, store_size=False), flags | fatbin.FLAG_LZ4
        compressed = len(payload)
    elif entry.compression == "zstd":
        payload, flags = zstd.compress(payload), flags | fatbin.FLAG_ZSTD
        compressed = len(payload)
    else:
        size = 0
    if entry.says_uncompressed is not None:
        size = entry.says_uncompressed
    payload += bytes(-len(payload) % 8)
    header = struct.pack(
        "<HHIQIIHHIIIQQQ", entry.kind, 0x101, entry.header_bytes, len(payload), compressed, 0, entry.version[1],
        entry.version[0], entry.architecture, 64, 0, flags, 0, size,
    )  # fmt: skip
    return header + bytes(entry.header_bytes - len(header)) + payload


def write_elf(
    sections: dict[str, bytes], machine: int = 62, flags: int = 0, abi: tuple[int, int] = (0, 0),
    types: dict[str, int] | None = None, links: dict[str, str] | None = None, bits: int = 64,
) -> bytes:  # fmt: skip
    """An ELF file with the given sections, a null section before and `.shstrtab` behind them."""
    sections = {"": b"", **sections, ".shstrtab": b""}
    names = list(sections)
    strings = b"\0".join(name.encode() for name in names) + b"\0"
    sections[".shstrtab"] = strings
    header_bytes, entry_bytes = (64, 64) if bits == 64 else (52, 40)
    body, offsets = b"", {}
    for name, data in sections.items():
        offsets[name] = header_bytes + len(body)
        body += data + bytes(-len(data) % 8)
    table = b""
    for name, data in sections.items():
        kind = (types or {}).get(name, 1 if name else 0)
        link = names.index((links or {}).get(name, ""))
        place = strings.index(name.encode() + b"\0") if name else 0
        form = "<IIQQQQIIQQ" if bits == 64 else "<IIIIIIIIII"
        table += struct.pack(form, place, kind, 0, 0, offsets[name], len(data), link, 0, 1, 0)
    start = header_bytes + len(body)
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1, abi[0], abi[1]]) + bytes(7)
    form = "<HHIQQQIHHHHHH" if bits == 64 else "<HHIIIIIHHHHHH"
    header = struct.pack(
        form, 3, machine, 1, 0, 0, start, flags, header_bytes, 56, 0, entry_bytes, len(names), len(names) - 1
    )
    return ident + header + body + table


def write_cubin(kernels: dict[str, list[tuple[int, int]]], architecture: int = 80) -> bytes:
    """A cubin whose kernels have parameters given as (offset, size)."""
    sections: dict[str, bytes] = {}
    strings, symbols = b"\0", bytes(24)
    for name, parameters in kernels.items():
        info = b""
        total = 0
        for ordinal, (offset, size) in enumerate(parameters):
            info += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18 | 0x1F000)
            total = max(total, offset + size)
        info = struct.pack("<BBH", 3, 0x19, total) + info
        sections[f".text.{name}"] = b"\x90" * 16
        sections[f".nv.info.{name}"] = info
        symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0x10, 1, 0, 16)
        strings += name.encode() + b"\0"
    symbols += struct.pack("<IBBHQQ", len(strings), 0x12, 0, 1, 0, 16)
    strings += b"device_function\0"
    sections[".nv.info.device_function"] = b""
    sections |= {".symtab": symbols, ".strtab": strings}
    flags = architecture << 8 | 0x6000002
    return write_elf(sections, 190, flags, (0x41, 8), {".symtab": 2}, {".symtab": ".strtab"})


def write_program(fatbins: bytes, needed: tuple[str, ...] = (), bits: int = 64) -> bytes:
    """A host ELF file with `.nv_fatbin` and DT_NEEDED entries."""
    strings, dynamic = b"\0", b""
    pair = "<qQ" if bits == 64 else "<iI"
    for name in needed:
        dynamic += struct.pack(pair, 1, len(strings))
        strings += name.encode() + b"\0"
    dynamic += struct.pack(pair, 0, 0)
    sections = {".text": b"\xc3", ".dynstr": strings, ".dynamic": dynamic}
    if fatbins:
        sections[".nv_fatbin"] = fatbins
    return write_elf(sections, 62, types={".dynamic": 6}, links={".dynamic": ".dynstr"}, bits=bits)


def write_pe(fatbins: bytes, imports: tuple[str, ...] = ()) -> bytes:
    """An x86-64 PE file with `.nv_fatb` and an import table."""
    base, names = 0x2000, b""
    table_bytes = 20 * (len(imports) + 1)
    table = b""
    for name in imports:
        table += struct.pack("<IIIII", 1, 0, 0, base + table_bytes + len(names), 1)
        names += name.encode() + b"\0"
    idata = table + bytes(20) + names
    optional = struct.pack("<H", 0x20B) + bytes(110) + struct.pack("<IIII", 0, 0, base, len(idata)) + bytes(112)
    parts = [(b".idata", base, idata), (b".nv_fatb", 0x100000, fatbins)]
    offset = 64 + 24 + len(optional) + 40 * len(parts)
    headers, content = b"", b""
    for name, address, data in parts:
        headers += struct.pack("<8sIIII", name, len(data), address, len(data), offset + len(content)) + bytes(16)
        content += data
    dos = b"MZ" + bytes(58) + struct.pack("<I", 64)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(parts), 0, 0, 0, len(optional), 0x2022)
    return dos + coff + optional + headers + content


def write_archive(members: dict[str, bytes]) -> bytes:
    result = b"!<arch>\n"
    for name, data in members.items():
        result += (
            f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return result
