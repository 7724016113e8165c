"""Decompression of fat binary payloads with limits: LZ4 raw blocks and zstd frames.

The decompressors are imported when first needed: raw payloads must not pay for them at program start.
"""

from __future__ import annotations

import importlib
from typing import Any

from cuttle.errors import ContainerError

MAX_PAYLOAD_BYTES = 256 << 20
MAX_RATIO = 4096
_RATIO_FREE_BYTES = 16 << 20  # below this size no ratio is suspicious


def decompress(method: str, stored: bytes | memoryview, uncompressed_bytes: int) -> bytes:
    """The content of `stored`. `uncompressed_bytes` is what the header promises, 0 if it does not say.

    `method` is `none`, `lz4` or `zstd`. Raises ContainerError; never returns more than MAX_PAYLOAD_BYTES.
    """
    if max(uncompressed_bytes, len(stored)) > MAX_PAYLOAD_BYTES:
        raise ContainerError(
            "CON-0105", f"a payload of {max(uncompressed_bytes, len(stored))} bytes exceeds {MAX_PAYLOAD_BYTES}"
        )
    if method == "none":
        return bytes(stored)
    if uncompressed_bytes > max(_RATIO_FREE_BYTES, MAX_RATIO * len(stored)):
        raise ContainerError(
            "CON-0105", f"{len(stored)} compressed bytes claim to hold {uncompressed_bytes}: not plausible"
        )
    data = _lz4(stored, uncompressed_bytes) if method == "lz4" else _zstd(stored, uncompressed_bytes)
    if uncompressed_bytes and len(data) != uncompressed_bytes:
        raise ContainerError(
            "CON-0104", f"the {method} payload holds {len(data)} bytes, its header says {uncompressed_bytes}"
        )
    return data


def _lz4(stored: bytes | memoryview, uncompressed_bytes: int) -> bytes:
    block = _library("lz4.block")
    if uncompressed_bytes:
        try:
            return bytes(block.decompress(stored, uncompressed_size=uncompressed_bytes))
        except (block.LZ4BlockError, ValueError, OverflowError) as error:
            raise ContainerError("CON-0104", f"the LZ4 payload is damaged ({error})") from None
    # A raw block does not know its size. It cannot grow more than 255-fold.
    size = min(max(1024, 8 * len(stored)), MAX_PAYLOAD_BYTES)
    limit = min(256 * len(stored) + 1024, MAX_PAYLOAD_BYTES)
    while True:
        try:
            return bytes(block.decompress(stored, uncompressed_size=size))
        except (block.LZ4BlockError, ValueError, OverflowError) as error:
            if size >= limit:
                raise ContainerError("CON-0104", f"the LZ4 payload is damaged ({error})") from None
            size = min(2 * size, limit)


def _zstd(stored: bytes | memoryview, uncompressed_bytes: int) -> bytes:
    try:
        zstd = importlib.import_module("compression.zstd")  # Python 3.14
    except ImportError:
        zstd = _library("backports.zstd")
    limit = uncompressed_bytes or min(MAX_PAYLOAD_BYTES, max(_RATIO_FREE_BYTES, MAX_RATIO * len(stored)))
    decompressor = zstd.ZstdDecompressor()
    try:
        data = bytes(decompressor.decompress(stored, max_length=limit + 1))
    except (zstd.ZstdError, ValueError, EOFError, MemoryError) as error:
        raise ContainerError("CON-0104", f"the zstd payload is damaged ({error})") from None
    if len(data) > limit:
        if uncompressed_bytes:
            raise ContainerError("CON-0104", f"the zstd payload holds more than the {limit} bytes its header says")
        raise ContainerError("CON-0105", f"the zstd payload holds more than {limit} bytes")
    if not decompressor.eof:
        raise ContainerError("CON-0104", "the zstd payload ends too early")
    return data


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ContainerError("CON-0106", f"the Python package `{name.split('.block')[0]}` is not installed") from None
