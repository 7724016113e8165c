"""Fat binaries: the container in which NVIDIA's tools put PTX and cubins, one entry per target.

Layout (design facts: `driver.md` section 6, `export_tables.md` section 6): a 16-byte header (magic, version, header
size, bytes after the header), then entries, each a header of at least 64 bytes and a padded payload that may be
compressed with LZ4 (one raw block) or zstd (one frame).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from cuttle.errors import ContainerError
from cuttle.ptx.containers.compression import decompress

MAGIC = 0xBA55ED50
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
WRAPPER_MAGIC = 0x466243B1
WRAPPER_MAGIC_BYTES = WRAPPER_MAGIC.to_bytes(4, "little")
HEADER_BYTES = 16
ENTRY_HEADER_BYTES = 64

FLAG_64_BIT = 0x1
FLAG_DEBUG = 0x2
FLAG_LINUX = 0x10
FLAG_MAC = 0x20
FLAG_WINDOWS = 0x40
FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCHITECTURE_SPECIFIC = 0x100000
FLAG_FAMILY_SPECIFIC = 0x200000

MAX_ENTRIES = 1 << 16
MAX_ENTRY_HEADER_BYTES = 1 << 16
MAX_FATBINS = 1 << 20

_KINDS = {1: "ptx", 2: "cubin"}


@dataclass(frozen=True, slots=True)
class FatbinEntry:
    """One entry. `kind` is `ptx`, `cubin` or `kind-N` (NVVM, LTO and others: not usable here).

    `version` is the PTX ISA version of a PTX entry, the cubin ABI version otherwise; `architecture` 80 stands for
    sm_80. `compression` is `none`, `lz4` or `zstd`.
    """

    kind: str
    version: tuple[int, int]
    architecture: int
    flags: int
    compression: str
    uncompressed_bytes: int
    offset: int
    stored: memoryview = field(repr=False, compare=False)

    @property
    def suffix(self) -> str:
        """`a` for architecture-specific targets, `f` for family-specific ones, else empty."""
        if self.flags & FLAG_ARCHITECTURE_SPECIFIC:
            return "a"
        return "f" if self.flags & FLAG_FAMILY_SPECIFIC else ""

    @property
    def target(self) -> str:
        """`compute_80` for PTX, `sm_80` for machine code."""
        return f"{'compute' if self.kind == 'ptx' else 'sm'}_{self.architecture}{self.suffix}"

    def payload(self) -> bytes:
        """The content, decompressed; PTX without its trailing NULs. Raises ContainerError."""
        data = decompress(self.compression, self.stored, self.uncompressed_bytes)
        return data.rstrip(b"\0") if self.kind == "ptx" else data


@dataclass(frozen=True, slots=True)
class Fatbin:
    """A fat binary: its entries, and its size in bytes with the header."""

    entries: tuple[FatbinEntry, ...]
    size_bytes: int


def fatbin_bytes(data: bytes | memoryview, offset: int = 0) -> int:
    """Size of the fat binary whose header stands at `offset`, header included. Reads the header only."""
    view = memoryview(data)
    if offset < 0 or offset + HEADER_BYTES > len(view):
        raise ContainerError("CON-0102", f"fat binary header at {offset:#x} reaches past the end of the data")
    magic, version, header_bytes, entries_bytes = struct.unpack_from("<IHHQ", view, offset)
    if magic != MAGIC:
        raise ContainerError("CON-0101", f"no fat binary at {offset:#x}: the magic number is {magic:#010x}")
    if version != 1:
        raise ContainerError("CON-0103", f"fat binary version {version} at {offset:#x}; only version 1 is known")
    if not HEADER_BYTES <= header_bytes <= MAX_ENTRY_HEADER_BYTES:
        raise ContainerError("CON-0103", f"fat binary header size {header_bytes} at {offset:#x} is impossible")
    return int(header_bytes + entries_bytes)


def read_fatbin(data: bytes | memoryview, offset: int = 0) -> Fatbin:
    """The fat binary at `offset`; data behind its end is not looked at. Raises ContainerError."""
    view = memoryview(data)
    size = fatbin_bytes(view, offset)
    end = offset + size
    if end > len(view):
        raise ContainerError(
            "CON-0102", f"fat binary at {offset:#x} needs {size} bytes but only {len(view) - offset} are there"
        )
    position = offset + struct.unpack_from("<H", view, offset + 6)[0]
    entries: list[FatbinEntry] = []
    while end - position >= ENTRY_HEADER_BYTES:
        if len(entries) >= MAX_ENTRIES:
            raise ContainerError("CON-0103", f"fat binary at {offset:#x} has more than {MAX_ENTRIES} entries")
        entry, position = _read_entry(view, position, end)
        entries.append(entry)
    return Fatbin(tuple(entries), size)


def _read_entry(view: memoryview, offset: int, end: int) -> tuple[FatbinEntry, int]:
    """The entry at `offset`, and where the next begins."""
    kind, _, header_bytes, payload_bytes, compressed_bytes = struct.unpack_from("<HHIQI", view, offset)
    minor, major, architecture = struct.unpack_from("<HHI", view, offset + 24)
    (flags,) = struct.unpack_from("<Q", view, offset + 40)
    (uncompressed_bytes,) = struct.unpack_from("<Q", view, offset + 56)
    if not ENTRY_HEADER_BYTES <= header_bytes <= MAX_ENTRY_HEADER_BYTES:
        raise ContainerError("CON-0103", f"fat binary entry header size {header_bytes} at {offset:#x} is impossible")
    start = offset + header_bytes
    compression = "lz4" if flags & FLAG_LZ4 else "zstd" if flags & FLAG_ZSTD else "none"
    stored_bytes = payload_bytes
    if compression != "none":
        if not compressed_bytes:
            raise ContainerError("CON-0103", f"compressed fat binary entry at {offset:#x} has compressed size 0")
        stored_bytes = compressed_bytes
        payload_bytes = max(payload_bytes, compressed_bytes)
    if start > end or payload_bytes > end - start:
        raise ContainerError(
            "CON-0102",
            f"fat binary entry at {offset:#x} has {payload_bytes} bytes; only {max(0, end - start)} are left",
        )
    entry = FatbinEntry(
        _KINDS.get(kind, f"kind-{kind}"), (major, minor), architecture, flags, compression, uncompressed_bytes,
        offset, view[start : start + stored_bytes],
    )  # fmt: skip
    return entry, start + payload_bytes


def read_fatbins(data: bytes | memoryview) -> tuple[Fatbin, ...]:
    """All fat binaries of a section (`.nv_fatbin`): one after another, padded with zeros between. Strict."""
    view = memoryview(data)
    found: list[Fatbin] = []
    position = 0
    while len(view) - position >= HEADER_BYTES:
        if not any(view[position : position + 4]):
            position = _next_nonzero(view, position) & ~7
            if len(view) - position < HEADER_BYTES:
                break
        if len(found) >= MAX_FATBINS:
            raise ContainerError("CON-0103", f"more than {MAX_FATBINS} fat binaries in one section")
        fatbin = read_fatbin(view, position)
        found.append(fatbin)
        position += fatbin.size_bytes
        position += -position % 8
    return tuple(found)


def _next_nonzero(view: memoryview, position: int) -> int:
    """Offset of the next byte that is not zero, or the end."""
    step = 4096
    while position < len(view):
        chunk = bytes(view[position : position + step])
        rest = chunk.lstrip(b"\0")
        if rest:
            return position + len(chunk) - len(rest)
        position += len(chunk)
    return len(view)
