"""Unix archives (`.a`, and `.lib` of MSVC): members of static libraries. Format: ar(5), System V and BSD names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuttle.errors import ContainerError

MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
MAX_MEMBERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    data: memoryview = field(repr=False)


def members(data: bytes | memoryview) -> Iterator[Member]:
    """The members but for symbol tables. Raises ContainerError on a broken header."""
    view = memoryview(data)
    if view[:8] != MAGIC:
        raise ContainerError("CON-0101", "the data is no archive")
    position, long_names = 8, b""
    for _ in range(MAX_MEMBERS):
        if position + _HEADER_BYTES > len(view):
            return
        header = bytes(view[position : position + _HEADER_BYTES])
        size_text = header[48:58].strip()
        if header[58:60] != b"`\n" or not size_text.isdigit():
            raise ContainerError("CON-0103", f"broken archive member header at {position:#x}")
        size = int(size_text)
        start = position + _HEADER_BYTES
        if size > len(view) - start:
            raise ContainerError("CON-0102", f"archive member at {position:#x} reaches past the end of the file")
        content = view[start : start + size]
        position = start + size + size % 2
        name = header[:16].rstrip()
        if name == b"//":
            long_names = bytes(content)
            continue
        if name in (b"/", b"/SYM64/") or name.startswith(b"__.SYMDEF"):
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():
            length = min(int(name[3:]), len(content))
            name, content = bytes(content[:length]).rstrip(b"\0"), content[length:]
        elif name.startswith(b"/") and name[1:].isdigit():
            offset = int(name[1:])
            name = long_names[offset : offset + 1024].split(b"\n", 1)[0].split(b"\0", 1)[0]
        yield Member(name.rstrip(b"/").decode("utf-8", "replace"), content)
    raise ContainerError("CON-0103", f"the archive has more than {MAX_MEMBERS} members")
