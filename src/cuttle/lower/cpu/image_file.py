"""The image file: one compiled kernel on disk, as the executor loads it.

All numbers little-endian::

    0   8 bytes   IMAGE_MAGIC
    8   u64       bytes of metadata
    16  32 bytes  SHA-256 of metadata and blob, in this order
    48  ...       metadata: JSON object, UTF-8 (keys: abi/kernel_abi.py IMAGE_METADATA)
    ... zeros up to a multiple of 4096, then the blob (metadata["blob_bytes"] bytes), to the end of the file
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

from cuttle.abi.kernel_abi import IMAGE_MAGIC

HEADER_BYTES = 48
PAGE = 4096


class ImageError(ValueError):
    """The file is no image, or damaged."""


def pack_image(metadata: dict[str, Any], blob: bytes) -> bytes:
    """The bytes of an image file; `blob_bytes` is added to the metadata."""
    text = json.dumps({**metadata, "blob_bytes": len(blob)}, separators=(",", ":"), sort_keys=True).encode()
    digest = hashlib.sha256(text + blob).digest()
    head = IMAGE_MAGIC + struct.pack("<Q", len(text)) + digest + text
    return head + bytes(-len(head) % PAGE) + blob


def unpack_image(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Metadata and blob of an image file. Raises ImageError unless every byte is as it was written."""
    if len(data) < HEADER_BYTES or data[:8] != IMAGE_MAGIC:
        raise ImageError("not an image file")
    (size,) = struct.unpack_from("<Q", data, 8)
    if size > len(data) - HEADER_BYTES:
        raise ImageError("the metadata is cut off")
    text = data[HEADER_BYTES : HEADER_BYTES + size]
    start = blob_offset(size)
    blob = data[start:]
    if any(data[HEADER_BYTES + size : start]) or len(data) < start:
        raise ImageError("the padding is damaged")
    if hashlib.sha256(text + blob).digest() != data[16:48]:
        raise ImageError("the checksum does not match")
    try:
        metadata = json.loads(text)
    except ValueError as error:
        raise ImageError("the metadata is no JSON") from error
    if not isinstance(metadata, dict) or metadata.get("blob_bytes") != len(blob):
        raise ImageError("the metadata does not fit the blob")
    return metadata, blob


def blob_offset(metadata_bytes: int) -> int:
    """Where the blob begins in the file."""
    end = HEADER_BYTES + metadata_bytes
    return end + -end % PAGE


def write_image(path: str | os.PathLike[str], metadata: dict[str, Any], blob: bytes) -> None:
    """Write an image file; another process sees either no file or the whole one."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pack_image(metadata, blob))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_image(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bytes]:
    """Read and check an image file. Raises ImageError or OSError."""
    return unpack_image(Path(path).read_bytes())
