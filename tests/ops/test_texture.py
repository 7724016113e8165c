"""Textures and surfaces on descriptors in host memory, one lane at a time, against a Python model of CUDA's rules."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import harness
import pytest
from scalar_machine import ScalarMachine

from cuttle.abi import texture as facts
from cuttle.lower.ops.forms import synthesise


def f32(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def as_float(bits: int) -> float:
    result: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return result


class Texture:
    """A descriptor and its texels."""

    def __init__(self, data: bytes, width: int, height: int = 1, depth: int = 1, **fields: Any) -> None:
        self.data = ctypes.create_string_buffer(data, len(data) + 16)
        size, channels = fields.get("component_bytes", 4), fields.get("channels", 1)
        pitch = width * size * channels
        values: dict[str, Any] = {
            "base": ctypes.addressof(self.data), "slice_bytes": pitch * height, "pitch_bytes": pitch, "width": width,
            "height": height, "depth": depth, "component_bytes": size, "channels": channels, "levels": 1, **fields,
        }  # fmt: skip
        self.block = ctypes.create_string_buffer(facts.TEXTURE_BYTES)
        for name, value in values.items():
            bits = 64 if name in ("base", "slice_bytes") else 32
            for index, item in enumerate(value if isinstance(value, (tuple, list)) else [value]):
                at = facts.TEXTURE_OFFSETS[name] + index * bits // 8
                self.block[at : at + bits // 8] = int(item).to_bytes(bits // 8, "little")

    @property
    def handle(self) -> int:
        return ctypes.addressof(self.block)


def run(spelling: str, columns: list[list[int]]) -> list[list[int]]:
    form = synthesise(spelling)
    module = harness.Module()
    harness.add_function(module, form, "f", 1, machine=ScalarMachine())
    return harness.Compiled(module).run(form, "f", columns)


FLOAT = {"kind": facts.KIND_FLOAT}
WRAP, CLAMP, MIRROR, BORDER = range(4)


def test_integer_texels() -> None:
    """tex1Dfetch: signed bytes, four channels; outside a linear buffer 0."""
    texture = Texture(bytes(range(250, 256)) + bytes(range(10)), 4, component_bytes=1, channels=4,
                      kind=facts.KIND_SIGNED, address_modes=[BORDER] * 3)  # fmt: skip
    answers = run("tex.1d.v4.s32.s32", [[texture.handle] * 4, [0, 1, 2, 0xFFFFFFFF]])
    assert [column[0] for column in answers] == [0xFFFFFFFA, 0xFFFFFFFB, 0xFFFFFFFC, 0xFFFFFFFD]
    assert [column[1] for column in answers] == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    assert [column[2] for column in answers] == [2, 3, 4, 5]
    assert [column[3] for column in answers] == [0, 0, 0, 0]


@pytest.mark.parametrize("size", [1, 2])
def test_normalised_reads(size: int) -> None:
    top = (1 << 8 * size) - 1
    data = b"".join(value.to_bytes(size, "little") for value in (0, 1, top, top // 2))
    texture = Texture(data, 4, component_bytes=size, flags=facts.FLAG_NORMALISED_READ, address_modes=[CLAMP] * 3)
    answers = run("tex.1d.v4.f32.s32", [[texture.handle] * 4, [0, 1, 2, 3]])[0]
    assert answers == [f32(0), f32(1 / top), f32(1.0), f32((top // 2) / top)]
    signed = Texture(data, 4, component_bytes=size, kind=facts.KIND_SIGNED, flags=facts.FLAG_NORMALISED_READ)
    answers = run("tex.1d.v4.f32.s32", [[signed.handle] * 4, [0, 1, 2, 3]])[0]
    assert answers == [f32(0), f32(1 / (top // 2)), f32(-1 / (top // 2)), f32(1.0)]


def index_of(index: int, size: int, mode: int) -> int | None:
    if mode == WRAP:
        return index % size
    if mode == BORDER and not 0 <= index < size:
        return None
    return min(max(index, 0), size - 1)


def model_2d(
    texels: list[float], width: int, height: int, x: float, y: float, mode: int, normal: bool, linear: bool
) -> float:
    def to_texels(value: float, size: int) -> float:
        if not normal:
            return value
        if mode == WRAP:
            value -= math.floor(value)
        if mode == MIRROR:
            whole = math.floor(value)
            value = value - whole if whole % 2 == 0 else 1 - (value - whole)
        return as_float(f32(value * size))

    def texel(i: int, j: int) -> float:
        real = mode if normal or mode == BORDER else CLAMP
        a, b = index_of(i, width, real), index_of(j, height, real)
        return 0.25 if a is None or b is None else texels[b * width + a]

    x, y = to_texels(x, width), to_texels(y, height)
    if not linear:
        return texel(math.floor(x), math.floor(y))
    fx, fy = round((x - 0.5) * 256), round((y - 0.5) * 256)
    i, a, j, b = fx >> 8, (fx & 255) / 256, fy >> 8, (fy & 255) / 256
    return ((1 - a) * (1 - b) * texel(i, j) + a * (1 - b) * texel(i + 1, j)
            + (1 - a) * b * texel(i, j + 1) + a * b * texel(i + 1, j + 1))  # fmt: skip


@pytest.mark.parametrize("mode", [WRAP, CLAMP, MIRROR, BORDER])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("normal", [False, True])
def test_2d_filtering(mode: int, linear: bool, normal: bool) -> None:
    width, height = 5, 3
    texels = [float((7 * k) % 11) - 3 for k in range(width * height)]
    flags = (facts.FLAG_LINEAR if linear else 0) | (facts.FLAG_NORMALISED_COORDINATES if normal else 0)
    data = struct.pack(f"<{len(texels)}f", *texels)
    texture = Texture(data, width, height, flags=flags, address_modes=[mode] * 3, border=[f32(0.25)] * 4, **FLOAT)
    scale = 1.0 if normal else 4.0
    xs = [scale * (k * 0.173 - 1.1) for k in range(18)]
    ys = [scale * (k * 0.241 - 1.7) for k in range(18)]
    answers = run("tex.2d.v4.f32.f32", [[texture.handle] * 18, [f32(x) for x in xs], [f32(y) for y in ys]])[0]
    for x, y, got in zip(xs, ys, answers, strict=True):
        wanted = model_2d(texels, width, height, as_float(f32(x)), as_float(f32(y)), mode, normal, linear)
        assert as_float(got) == pytest.approx(wanted, rel=1e-5, abs=1e-5), (x, y)


def test_layers_and_volumes() -> None:
    texels = [float(k) for k in range(2 * 2 * 3)]
    data = struct.pack("<12f", *texels)
    texture = Texture(data, 2, 2, 3, address_modes=[CLAMP] * 3, **FLOAT)
    one = [f32(1.5)]
    layered = run("tex.a2d.v4.f32.f32", [[texture.handle], [9], one, [f32(0.5)], [0]])
    assert as_float(layered[0][0]) == 9.0  # layer 9 clamps to 2
    volume = run("tex.3d.v4.f32.f32", [[texture.handle], one, one, one, [0]])
    assert as_float(volume[0][0]) == 7.0


def test_gather() -> None:
    texels = [float(k) for k in range(16)]
    texture = Texture(struct.pack("<16f", *texels), 4, 4, address_modes=[CLAMP] * 3, **FLOAT)
    answers = run("tld4.r.2d.v4.f32.f32", [[texture.handle], [f32(2.0)], [f32(2.0)]])
    assert [as_float(column[0]) for column in answers] == [9.0, 10.0, 6.0, 5.0]


def test_surfaces() -> None:
    surface = Texture(bytes(range(64)), 4, 4, component_bytes=4, channels=1)
    h = surface.handle
    outside = 0xFFFFFFFC
    assert run("suld.b.2d.b32.zero", [[h] * 3, [4, 16, outside], [1, 1, 0]])[0] == [0x17161514, 0, 0]
    assert run("suld.b.2d.b32.clamp", [[h] * 2, [4, 100], [1, 9]])[0] == [0x17161514, 0x3F3E3D3C]
    run("sust.b.2d.b32.zero", [[h] * 2, [8, 64], [2, 0], [0xAABBCCDD, 0x11111111]])
    assert surface.data.raw[40:44] == bytes.fromhex("ddccbbaa")
    assert surface.data.raw[:40] == bytes(range(40))
    run("sured.b.add.2d.u32.clamp", [[h] * 2, [0, 0], [0, 0], [1, 2]])
    assert surface.data.raw[:4] == (0x03020100 + 3).to_bytes(4, "little")


# What `sust.p` was given on an H200, and what it made of each.
STORED = [0, 0x3F800000, 0xBF800000, 0x40490FDB, 0x7F800000, 0xFF800000, 0x7FC00000, 0x42FE0000, 0x477FFF00, 0xCF000000, 0x3B808081,
          0x33800000, 0x387FFFFF, 0x38800000, 1, 0x477FE000, 0xFFFFFFFF, 0xFF, 0x80, 0xFFFF, 0x80000000, 0x7FFFFFFF]  # fmt: skip
HALVES = [0, 0x3C00, 0xBC00, 0x4248, 0x7C00, 0xFC00, 0x7E00, 0x57F0, 0x7BFF, 0xFBFF, 0x1C04,
          1, 0x3FF, 0x400, 0, 0x7BFF, 0xFFFF, 0, 0, 0, 0x8000, 0x7FFF]  # fmt: skip


def signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("kind", [facts.KIND_UNSIGNED, facts.KIND_SIGNED, facts.KIND_FLOAT])
def test_formatted_stores(size: int, kind: int) -> None:
    if (size, kind) == (1, facts.KIND_FLOAT):
        return  # there is no such format
    count, top = len(STORED), 1 << 8 * size
    surface = Texture(b"\x55" * (count * size * 2), count, component_bytes=size, channels=2, kind=kind)
    run("sust.p.1d.b32.zero", [[surface.handle] * (count + 1), [*range(count), count], [*STORED, 0x11]])
    got = [int.from_bytes(surface.data.raw[at : at + size], "little") for at in range(0, count * size * 2, size)]
    wanted = {
        facts.KIND_UNSIGNED: [min(value, top - 1) for value in STORED],
        facts.KIND_SIGNED: [max(min(signed(value), top // 2 - 1), -top // 2) % top for value in STORED],
        facts.KIND_FLOAT: HALVES if size == 2 else STORED,
    }[kind]
    assert got[::2] == wanted and got[1::2] == [0] * count


def test_formatted_stores_of_vectors_and_reductions() -> None:
    surface = Texture(bytes(64), 4, 4, component_bytes=1, channels=4)
    run("sust.p.2d.v4.b32.clamp", [[surface.handle], [9], [2], [1], [300], [3], [0xFFFFFFFF]])
    assert surface.data.raw[44:48] == bytes((1, 255, 3, 255))
    for kind, least in ((facts.KIND_UNSIGNED, 5), (facts.KIND_SIGNED, 0xFFFFFFFE)):
        numbers = Texture((5).to_bytes(4, "little") * 4, 4, kind=kind)
        run("sured.p.min.1d.b32.trap", [[numbers.handle] * 2, [3, 3], [0xFFFFFFFE, 7]])
        assert numbers.data.raw[12:16] == least.to_bytes(4, "little")
        assert numbers.data.raw[:12] == (5).to_bytes(4, "little") * 3
