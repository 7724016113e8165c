"""Cuttle's own linked image: what `cuLinkComplete` returns and `cuModuleLoadData` accepts.

Layout: magic (8 bytes), u32 version, u32 zero, u64 payload size, then PTX text in UTF-8 with a trailing NUL. The size
in the header lets a client that is given only a pointer know how much to send.
"""

from __future__ import annotations

import struct

from cuttle.errors import ContainerError
from cuttle.ptx.containers.compression import MAX_PAYLOAD_BYTES

MAGIC = b"\x8bCUTTLE\n"
VERSION = 1
_HEADER = struct.Struct("<8sIIQ")


def pack_image(ptx: str) -> bytes:
    """The image of a linked module's PTX text."""
    payload = ptx.encode("utf-8") + b"\0"
    return _HEADER.pack(MAGIC, VERSION, 0, len(payload)) + payload


def image_bytes(data: bytes | memoryview) -> int:
    """Size of the image that begins `data`, header included. Raises ContainerError."""
    if len(data) < _HEADER.size:
        raise ContainerError("CON-0102", "the linked image is cut off")
    magic, version, _, size = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ContainerError("CON-0101", "the data is no linked image of Cuttle")
    if version != VERSION:
        raise ContainerError("CON-0103", f"linked image of version {version}; this Cuttle knows version {VERSION}")
    if size > MAX_PAYLOAD_BYTES:
        raise ContainerError("CON-0105", f"the linked image claims {size} bytes")
    return int(_HEADER.size + size)


def unpack_image(data: bytes | memoryview) -> bytes:
    """The PTX text inside. Raises ContainerError."""
    end = image_bytes(data)
    if end > len(data):
        raise ContainerError("CON-0102", "the linked image is cut off")
    return bytes(memoryview(data)[_HEADER.size : end]).rstrip(b"\0")
