"""The handshake against published and own test vectors (docs/legal.md says what it is)."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from cuttle.client import build

# RFC 1319, appendix A.5.
MD2_VECTORS = {
    b"": "8350e5a3e24c153df2275c9f80692773",
    b"a": "32ec01ec4a6dac72c0ab96fb34c0b5d1",
    b"abc": "da853b0d3f88d99b30283a69e6ded6bb",
    b"message digest": "ab4f496bfb2a530b219ff33031fe06b0",
    b"abcdefghijklmnopqrstuvwxyz": "4e8ddff3650292ab5a4108c3aa47940b",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "da33def2a42df13975352846c30338cd",
    b"1234567890" * 8: "d5976f79d83d3a0dc9806c3c66f3efd8",
}


class Device(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_uint8 * 16),
        ("domain", ctypes.c_uint32),
        ("bus", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
    ]


class Input(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("driver_version", "asked_version", "process", "thread")),
        *(
            (name, ctypes.c_uint64)
            for name in ("runtime_table", "integrity_table", "integrity_function", "unix_seconds")
        ),
        ("device_count", ctypes.c_uint32),
        ("devices", ctypes.POINTER(Device)),
    ]


def compiled(folder: Path, *flags: str) -> ctypes.CDLL:
    output = folder / "handshake.so"
    source = build.CLIENT / "handshake.c"
    subprocess.run(
        [
            *build.compiler(),
            "-std=gnu11",
            "-O1",
            "-fPIC",
            "-shared",
            "-pthread",
            *flags,
            str(source),
            "-o",
            str(output),
        ],
        check=True,
    )
    return ctypes.CDLL(str(output))


@pytest.fixture(scope="module")
def handshake(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("handshake"))


def answer(library: ctypes.CDLL, version: int, devices: list[Device]) -> tuple[int, int] | None:
    array = (Device * max(1, len(devices)))(*devices)
    given = Input(
        13000,
        version,
        1000,
        0x11223344,
        0x7F0000001000,
        0x7F0000002000,
        0x7F0000003000,
        1700000000,
        len(devices),
        array,
    )
    result = (ctypes.c_uint64 * 2)()
    return (result[0], result[1]) if library.handshake_answer(ctypes.byref(given), result) else None


@pytest.mark.parametrize(("message", "digest"), MD2_VECTORS.items())
def test_md2(handshake: ctypes.CDLL, message: bytes, digest: str) -> None:
    result = ctypes.create_string_buffer(16)
    handshake.handshake_md2(message, ctypes.c_size_t(len(message)), result)
    assert result.raw.hex() == digest


def test_first_answers_are_constants(handshake: ctypes.CDLL) -> None:
    assert answer(handshake, 13000, []) == (0x3341181C03CB675C, 0x8ED383AA1F4CD1E8)
    assert answer(handshake, 13001, []) == (0x1841181C03CB675C, 0x8ED383AA1F4CD1E8)


def test_keyed_answer(handshake: ctypes.CDLL) -> None:
    assert answer(handshake, 13002, []) == (0xDCF6994078079AE9, 0x148C618FC26E6301)
    device = Device((ctypes.c_uint8 * 16)(*range(16)), 0, 3, 0)
    assert answer(handshake, 13002, [device]) == (0x4DFC8530AC299E79, 0xDEC44135D9EDDB27)


def test_switch(tmp_path: Path) -> None:
    assert answer(compiled(tmp_path, "-DCUTTLE_HANDSHAKE=0"), 13002, []) is None
