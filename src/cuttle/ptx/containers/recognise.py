"""What kind of module a piece of bytes is, from its first bytes."""

from __future__ import annotations

import re
import struct
from enum import Enum

from cuttle.ptx.containers import elf, fatbin, image, pe

_PTX_START = re.compile(rb"(?:\s|//[^\n]*(?:\n|\Z)|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|@@[^\n]*\n)*\.version\s+\d")
OLD_FATBIN_MAGIC_BYTES = (0x1EE55A01).to_bytes(4, "little")


class Kind(Enum):
    """Kinds of input. Values are words for messages."""

    FATBIN = "fat binary"
    FATBIN_WRAPPER = "fat binary wrapper (its pointers must be followed in the program)"
    OLD_FATBIN = "fat binary of CUDA 3 or older"
    CUBIN = "cubin"
    HOST_ELF = "ELF file of the host"
    PE = "PE file"
    PTX = "PTX text"
    IMAGE = "linked image of Cuttle"
    ARCHIVE = "archive"
    UNKNOWN = "unknown data"


def recognise(data: bytes | memoryview) -> Kind:
    """The kind of `data`; looks at no more than 64 KiB and trusts no size."""
    head = bytes(memoryview(data)[:65536])
    if head.startswith(fatbin.MAGIC_BYTES):
        return Kind.FATBIN
    if head.startswith(elf.MAGIC):
        machine = struct.unpack_from("<H", head, 18)[0] if len(head) >= 20 else 0
        return Kind.CUBIN if machine == elf.MACHINE_CUDA else Kind.HOST_ELF
    if head.startswith(image.MAGIC):
        return Kind.IMAGE
    if head.startswith(fatbin.WRAPPER_MAGIC_BYTES):
        return Kind.FATBIN_WRAPPER
    if head.startswith(OLD_FATBIN_MAGIC_BYTES):
        return Kind.OLD_FATBIN
    if head.startswith((b"!<arch>\n", b"!<thin>\n")):
        return Kind.ARCHIVE
    if head.startswith(pe.MAGIC):
        return Kind.PE
    if _PTX_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return Kind.PTX
    return Kind.UNKNOWN
