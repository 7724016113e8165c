"""What kernels print and report: the records of the output buffer (`abi/amdgpu_abi.py`) to text, as device printf formats it.

Conversions: CUDA C++ Programming Guide, "Formatted Output": those of the host's printf; a wrong conversion is printed as it stands.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache
from struct import unpack_from
from typing import Any

from cuttle.abi.amdgpu_abi import AMDGPU_OUTPUT, AMDGPU_RECORD, RECORD_ASSERT, RECORD_PRINTF, offset_of

OUTPUT_BYTES = AMDGPU_OUTPUT.bytes
_CONVERSION = re.compile(
    rb"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?(?P<size>[hlLqjzt]*)(?P<letter>.)?", re.S
)
_INTEGERS, _FLOATS = b"diuoxX", b"eEfFgGaA"


@cache
def _host_printf() -> Any:
    function = ctypes.CDLL(None).snprintf
    function.restype = ctypes.c_int
    return function


def _print(form: bytes, value: Any) -> bytes:
    buffer = ctypes.create_string_buffer(512)
    count = _host_printf()(buffer, ctypes.c_size_t(512), form, value)
    return buffer.raw[: max(0, min(count, 511))]


class _Arguments:
    """Values one after the other, naturally aligned."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> int:
        self._at = -(-self._at // size) * size
        value = int.from_bytes(self._data[self._at : self._at + size], "little")
        self._at += size
        return value

    def signed(self) -> int:
        value = self.take(4)
        return value - (1 << 32) if value >> 31 else value


def format_text(form: bytes, arguments: bytes, string_at: Callable[[int], bytes]) -> bytes:
    """What device printf prints. `string_at` reads a string of the device by its address."""
    reader = _Arguments(arguments)
    result, at = b"", 0
    while True:
        percent = form.find(b"%", at)
        if percent < 0:
            return result + form[at:]
        result += form[at:percent]
        if form[percent + 1 : percent + 2] == b"%":
            result, at = result + b"%", percent + 2
            continue
        match = _CONVERSION.match(form, percent)
        assert match is not None
        at = match.end()
        result += _convert(match, reader, string_at)


def _convert(match: re.Match[bytes], reader: _Arguments, string_at: Callable[[int], bytes]) -> bytes:
    flags = b"".join(dict.fromkeys(match["flags"][n : n + 1] for n in range(len(match["flags"]))))
    width, precision = match["width"], match["precision"]
    wide = reader.signed() if width == b"*" else int(width or b"-1")
    if width == b"*" and wide < 0:
        wide, flags = -wide, flags if b"-" in flags else flags + b"-"
    exact = -1 if precision is None else reader.signed() if precision == b"*" else int(precision or b"0")
    letter, size = match["letter"] or b"", match["size"]
    form = (
        b"%" + flags + (b"%d" % min(wide, 400) if wide >= 0 else b"") + (b".%d" % min(exact, 80) if exact >= 0 else b"")
    )
    if letter and letter in _INTEGERS:
        if size and b"h" not in size:
            return _print(form + b"ll" + letter, ctypes.c_longlong(reader.take(8)))
        return _print(form + size[:2] + letter, ctypes.c_int(reader.take(4)))
    if letter and letter in _FLOATS:
        bits = ctypes.c_uint64(reader.take(8))
        return _print(form + letter, ctypes.c_double.from_buffer(bits))
    if letter == b"p":
        return _print(form + b"p", ctypes.c_void_p(reader.take(8)))
    if letter == b"c":
        return _padded(bytes([reader.take(4) & 255]), wide, b"-" in flags)
    if letter == b"s":
        address = reader.take(8)
        text = string_at(address) if address else b"(null)"
        return _padded(text if exact < 0 else text[:exact], wide, b"-" in flags)
    return match[0]


def _padded(text: bytes, width: int, left: bool) -> bytes:
    return text.ljust(width) if left else text.rjust(width) if width > 0 else text


def read_records(
    area: bytes, block: tuple[int, int, int], string_at: Callable[[int], bytes]
) -> list[tuple[int, bytes]]:
    """(channel, text) of each record of an output area; channel 1 is stdout, 2 stderr. `block` is the launch's block size."""
    texts, at = [], 0
    while at + AMDGPU_RECORD.bytes <= len(area):
        size, kind, address = unpack_from("<IIQ", area, at)
        if size < AMDGPU_RECORD.bytes or at + size > len(area):
            break
        body = area[at + AMDGPU_RECORD.bytes : at + size]
        if kind == RECORD_PRINTF and address:
            texts.append((1, format_text(string_at(address), body, string_at)))
        elif kind == RECORD_ASSERT and len(body) >= 48:
            texts.append((2, _assertion(address, body, block, string_at)))
        at += size
    return texts


def _assertion(message: int, body: bytes, block: tuple[int, int, int], string_at: Callable[[int], bytes]) -> bytes:
    file, line, function, thread, yz, x = unpack_from("<6Q", body)
    position = thread % block[0], thread // block[0] % block[1], thread // (block[0] * block[1])
    where = b"block: [%d,%d,%d], thread: [%d,%d,%d]" % (x, yz & 0xFFFFFFFF, yz >> 32, *position)
    names = [string_at(address) for address in (file, function, message)]
    return b"%s:%d: %s: %s Assertion `%s` failed.\n" % (names[0], line, names[1], where, names[2])


def read_fault(header: bytes) -> tuple[int, int, tuple[int, int, int], int]:
    """(kind, PTX line, block, thread) of an output header; kind 0 is none."""
    kind, line = unpack_from("<II", header, offset_of(AMDGPU_OUTPUT, "fault"))
    x, y, z, thread = unpack_from("<4I", header, offset_of(AMDGPU_OUTPUT, "block"))
    return kind, line, (x, y, z), thread
