"""The texture accesses that are recorded on an NVIDIA GPU and replayed: `tools/record_textures.py`, `tests/textures`.

Every geometry, filter, way of addressing, format, level, gradient, offset and gather there is, at a few hundred places each:
inside, at edges, far outside, and at special values. Some of the textures cannot be made; that is recorded as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from cuttle.sweep.textures import (
    BORDER,
    CLAMP,
    CUBEMAP,
    FLOAT,
    GATHER,
    HALF,
    INTEGERS,
    LAYERED,
    LINEAR,
    MASK,
    MIRROR,
    NO_TRILINEAR,
    NORMALISED,
    POINT,
    RESOURCE_LINEAR,
    RESOURCE_PITCH,
    S8,
    S16,
    S32,
    SEAMLESS,
    SRGB,
    SURFACE,
    U8,
    U16,
    U32,
    WRAP,
    Case,
    Image,
    Numbers,
    Sampling,
    bits_of,
)

LANES = 192
_SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-45, -1e-45, 1e30, -1e30, math.inf, -math.inf, math.nan, 65536.0, 1e7, -1e7,
    4194304.5, -4194304.5, 0.99999994, 1.0000001, 0.49999997, 0.50000006, 1e-8, -1e-8, 2147483648.0, -2147483648.0, 131072.5,
    -131072.5, 262144.3, 1048576.3,
)  # fmt: skip
_MODES = ((WRAP, MIRROR, BORDER), (BORDER, WRAP, CLAMP), (MIRROR, BORDER, WRAP), (CLAMP,) * 3, (BORDER,) * 3)
_BORDER = (-7.5, 1.0, 2.0, 3.0)

Column = tuple[int, ...]


def floats(seed: int, low: float, high: float, special: bool = False) -> Column:
    numbers = Numbers(seed)
    column = [bits_of(numbers.uniform(low, high)) for _ in range(LANES)]
    if special:
        column[: len(_SPECIAL)] = [bits_of(value) for value in _SPECIAL]
    return tuple(column)


def integers(seed: int, low: int, high: int) -> Column:
    numbers = Numbers(seed)
    return tuple(low + numbers.word() % (high - low + 1) & MASK for _ in range(LANES))


def same(value: float) -> Column:
    return (bits_of(value),) * LANES


def steps(seed: int, axes: int) -> list[Column]:
    """Gradients: magnitudes from 2^-8 to 2, both signs."""
    numbers = Numbers(seed)
    return [
        tuple(bits_of(2.0 ** numbers.uniform(-8, 1) * (1 if numbers.word() & 1 else -1)) for _ in range(LANES))
        for _ in range(axes)
    ]


def near_edges(seed: int) -> list[Column]:
    """Directions, most of them close to the edges and corners of a cube."""
    numbers = Numbers(seed)
    columns: list[list[int]] = [[], [], []]
    for _ in range(LANES):
        out = numbers.word() % 3
        direction = [0.0, 0.0, 0.0]
        direction[out] = 1.0 if numbers.word() & 1 else -1.0
        kind = numbers.word() % 4
        for axis, close in (((out + 1) % 3, kind < 3), ((out + 2) % 3, kind > 1)):
            sign = 1 if numbers.word() & 1 else -1
            direction[axis] = sign * (1 - numbers.uniform(0, 0.2)) if close else numbers.uniform(-1, 1)
        scale = 2.0 ** (numbers.word() % 5 - 2)
        for axis in range(3):
            columns[axis].append(bits_of(direction[axis] * scale))
    return [tuple(column) for column in columns]


def ties() -> list[Column]:
    """Directions in which components are equal, zero, infinite or no numbers."""
    values = (-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, math.inf, -math.inf, math.nan, 1e38, 1e-40)
    triples = list(product(values, repeat=3))[:: len(values) ** 3 // LANES][:LANES]
    return [tuple(bits_of(triple[axis]) for triple in triples) for axis in range(3)]


def addressing() -> Iterator[Case]:
    """Rows: ways of addressing, with coordinates in texels and normalised ones."""
    for width, mode, filter_mode in product((5, 100, 1000), (WRAP, CLAMP, MIRROR, BORDER), (POINT, LINEAR)):
        sampling = Sampling((mode,) * 3, filter_mode, NORMALISED, border=_BORDER)
        yield Case(f"row {width} mode {mode} filter {filter_mode}", Image(width, fill="index"), sampling,
                   "tex.1d.v4.f32.f32", (floats(width + mode, -2.5, 3.5, True),))  # fmt: skip
    for first, second in product(range(4), repeat=2):
        sampling = Sampling((first, second, CLAMP), LINEAR, NORMALISED, border=_BORDER)
        yield Case(f"row modes {first} {second}", Image(13, fill="index"), sampling, "tex.1d.v4.f32.f32",
                   (floats(1, -1.5, 2.5),))  # fmt: skip
    for geometry, image, axes in _shapes():
        for modes, flags, filter_mode in product(_MODES, (0, NORMALISED), (POINT, LINEAR)):
            low, high = (-1.7, 2.9) if flags else (-3, 15)
            columns = [floats(200 + axis, low, high, True) for axis in range(axes)]
            if geometry.startswith("a"):
                columns.insert(0, integers(77, -2, 7))
            sampling = Sampling(modes, filter_mode, flags, border=_BORDER)
            yield Case(f"{geometry} modes {modes} flags {flags} filter {filter_mode}", image, sampling,
                       f"tex.{geometry}.v4.f32.f32", tuple(columns))  # fmt: skip


def _shapes() -> tuple[tuple[str, Image, int], ...]:
    return (
        ("2d", Image(13, 7, fill="index"), 2),
        ("3d", Image(5, 7, 9, fill="index"), 3),
        ("a1d", Image(13, 0, 5, flags=LAYERED, fill="index"), 1),
        ("a2d", Image(13, 7, 5, flags=LAYERED, fill="index"), 2),
    )


def formats() -> Iterator[Case]:
    """How each format is read and filtered."""
    kinds = [
        (FLOAT, "random", 1), (FLOAT, "wide", 2), (FLOAT, "special", 1), (HALF, "random", 4), (HALF, "wide", 1),
        (HALF, "special", 2), (U8, "random", 4), (S8, "random", 4), (U16, "random", 2), (S16, "random", 1),
    ]  # fmt: skip
    for form, fill, channels in kinds:
        name = f"format {form:#x} {fill} {channels}"
        for geometry, size in (("1d", (32, 0, 0)), ("2d", (16, 16, 0)), ("3d", (8, 8, 8))):
            axes = int(geometry[0])
            columns = tuple(floats(100 + axis, 0, size[0]) for axis in range(axes))
            yield Case(f"{name} {geometry}", Image(*size, form, channels, fill=fill), Sampling(filter=LINEAR),
                       f"tex.{geometry}.v4.f32.f32", columns)  # fmt: skip
        image = Image(16, 16, 0, form, channels, fill=fill)
        around = (floats(7, -1, 17), floats(8, -1, 17))
        border = Sampling((BORDER,) * 3, LINEAR, border=(0.3, -0.7, 1.1, 0.9))
        yield Case(f"{name} border", image, border, "tex.2d.v4.f32.f32", around)
        yield Case(f"{name} nearest", image, Sampling(), "tex.2d.v4.f32.f32", around)
        yield Case(f"{name} f16", image, Sampling(filter=LINEAR), "tex.2d.v4.f16.f32", around)
        yield Case(f"{name} f16x2", image, Sampling(), "tex.2d.v2.f16x2.f32", around)
    for form, kind in product((U8, S8, U16, S16, U32, S32), ("u32", "s32", "f32")):
        sampling = Sampling((BORDER,) * 3, flags=INTEGERS, border=(3.7, -2.3, 1e10, -1e10))
        yield Case(f"integers {form:#x} as {kind}", Image(8, 8, 0, form, 4, fill="bits"), sampling,
                   f"tex.2d.v4.{kind}.f32", (floats(1, -1, 9), floats(2, -1, 9)))  # fmt: skip
    for channels in (1, 2, 4):
        image = Image(16, 16, 0, U8, channels, fill="bits")
        sampling = Sampling((BORDER,) * 3, LINEAR, SRGB, border=(0.5, 0.25, 0.1, 0.7))
        yield Case(f"srgb {channels}", image, sampling, "tex.2d.v4.f32.f32", (floats(1, -1, 17), floats(2, -1, 17)))
    for part, filter_mode in product(range(6), (POINT, LINEAR)):
        column = tuple(bits_of(2 * (i // 4 + part * LANES // 4) + 0.5 + i % 4 * 0.3125) for i in range(LANES))
        yield Case(f"srgb pairs {part} filter {filter_mode}", Image(512, 0, 0, U8, 1, fill="pairs"),
                   Sampling(filter=filter_mode, flags=SRGB), "tex.1d.v4.f32.f32", (column,))  # fmt: skip
    for form in (S8, U16, HALF, FLOAT):
        yield Case(f"srgb of format {form:#x}", Image(16, 16, 0, form, 4), Sampling(flags=SRGB), "tex.2d.v4.f32.f32",
                   (floats(1, 0, 16), floats(2, 0, 16)))  # fmt: skip
    for form in (U32, S8):
        yield Case(f"filtered integers {form:#x}", Image(16, 16, 0, form), Sampling(filter=LINEAR, flags=INTEGERS),
                   "tex.2d.v4.s32.f32", (floats(1, 0, 16), floats(2, 0, 16)))  # fmt: skip


def numbers() -> Iterator[Case]:
    """Texels by number, in arrays, pitched and linear memory."""
    for geometry, image, axes in _shapes():
        for mode in (WRAP, CLAMP, BORDER):
            columns = [integers(300 + axis, -3, 15) for axis in range(axes)]
            if geometry.startswith("a"):
                columns.insert(0, integers(77, -2, 7))
            yield Case(f"number {geometry} mode {mode}", image, Sampling((mode,) * 3, border=_BORDER),
                       f"tex.{geometry}.v4.f32.s32", tuple(columns))  # fmt: skip
    mipmaps = (
        ("1d", Image(50, levels=6, fill="index"), 1), ("2d", Image(50, 37, levels=6, fill="index"), 2),
        ("3d", Image(20, 13, 9, levels=5, fill="index"), 3), ("a1d", Image(50, 0, 5, flags=LAYERED, levels=6, fill="index"), 1),
        ("a2d", Image(50, 37, 5, flags=LAYERED, levels=6, fill="index"), 2),
    )  # fmt: skip
    for geometry, image, axes in mipmaps:
        for mode in (CLAMP, BORDER):
            columns = [integers(300 + axis, -3, 55) for axis in range(axes)]
            if geometry.startswith("a"):
                columns.insert(0, integers(77, -2, 7))
            yield Case(f"number and level {geometry} mode {mode}", image, Sampling((mode,) * 3),
                       f"tex.level.{geometry}.v4.f32.s32", (*columns, integers(3, -2, 8)))  # fmt: skip
    place = (integers(1, -3, 55), integers(2, -3, 40))
    for name in ("tex", "tex.base"):
        yield Case(f"{name} number of a level", Image(50, 37, levels=6, fill="index"), Sampling(least=2, most=5),
                   f"{name}.2d.v4.f32.s32", place)  # fmt: skip
    for form, channels in ((U8, 4), (S16, 2), (FLOAT, 1)):
        memory = Image(100, 0, 0, form, channels, resource=RESOURCE_LINEAR)
        yield Case(f"linear memory {form:#x}", memory, Sampling(), "tex.1d.v4.f32.s32", (integers(1, -5, 105),))
    memory = Image(100, resource=RESOURCE_LINEAR)
    yield Case(
        "linear memory and level",
        memory,
        Sampling(),
        "tex.level.1d.v4.f32.s32",
        (integers(1, -5, 105), integers(2, -1, 1)),
    )
    yield Case("linear memory at a float", memory, Sampling(), "tex.1d.v4.f32.f32", (floats(1, -5, 105),))
    yield Case("row by number", Image(100), Sampling(), "tex.1d.v4.f32.s32", (integers(1, -5, 105),))
    pitched = Image(13, 7, 0, FLOAT, 1, resource=RESOURCE_PITCH, fill="index")
    yield Case(
        "pitched memory by number", pitched, Sampling(), "tex.2d.v4.f32.s32", (integers(1, -3, 15), integers(2, -3, 9))
    )
    yield Case(
        "pitched memory", pitched, Sampling(filter=LINEAR), "tex.2d.v4.f32.f32", (floats(1, -3, 15), floats(2, -3, 9))
    )


def offsets() -> Iterator[Case]:
    """Texel offsets, values to compare with, residency."""
    shapes = (("1d", Image(13, fill="index"), 1), *_shapes())
    ways = ((CLAMP, 0, POINT), (BORDER, 0, LINEAR), (WRAP, NORMALISED, LINEAR), (MIRROR, NORMALISED, LINEAR))
    for (geometry, image, axes), (mode, flags, filter_mode) in product(shapes, ways):
        low, high = (-1.7, 2.9) if flags else (-3, 15)
        columns = [floats(400 + axis, low, high) for axis in range(axes)]
        columns += [integers(500 + axis, -40, 40) for axis in range(axes)]
        if geometry.startswith("a"):
            columns.insert(0, integers(77, 0, 4))
        yield Case(f"offset {geometry} mode {mode} filter {filter_mode}", image,
                   Sampling((mode,) * 3, filter_mode, flags, border=_BORDER), f"tex.{geometry}.v4.f32.f32 offset",
                   tuple(columns))  # fmt: skip
    image = Image(13, 7, fill="index")
    yield Case("offset by number", image, Sampling(), "tex.2d.v4.f32.s32 offset",
               (integers(1, -3, 15), integers(2, -3, 9), integers(3, -40, 40), integers(4, -40, 40)))  # fmt: skip
    place = (floats(1, 0, 13), floats(2, 0, 7))
    for filter_mode in (POINT, LINEAR):
        yield Case(f"compare filter {filter_mode}", image, Sampling(filter=filter_mode), "tex.2d.v4.f32.f32 depth",
                   (*place, floats(3, 0, 90)))  # fmt: skip
    yield Case("offset and compare", image, Sampling(), "tex.2d.v4.f32.f32 offset depth",
               (*place, integers(3, -3, 3), integers(4, -3, 3), floats(3, 0, 90)))  # fmt: skip
    yield Case("resident", image, Sampling((BORDER,) * 3), "tex.2d.v4.f32.f32 resident", place)


def gathers() -> Iterator[Case]:
    """tld4."""
    around = (floats(1, -2, 15, True), floats(2, -2, 9, True))
    for channel, form in product("rgba", (U16, S8)):
        sampling = Sampling(filter="rgba".index(channel) % 2)
        yield Case(f"gather {channel} {form:#x}", Image(13, 7, 0, form, 4, GATHER), sampling,
                   f"tld4.{channel}.2d.v4.f32.f32", around)  # fmt: skip
    index = Image(13, 7, flags=GATHER, fill="index")
    yield Case("gather normalised", index, Sampling((WRAP, MIRROR, WRAP), LINEAR, NORMALISED), "tld4.r.2d.v4.f32.f32",
               (floats(1, -2, 3), floats(2, -2, 3)))  # fmt: skip
    bordered = Sampling((BORDER,) * 3, LINEAR, border=_BORDER)
    moved = (integers(8, -70, 70), integers(9, -70, 70))
    yield Case("gather offset", index, bordered, "tld4.r.2d.v4.f32.f32 offset", (*around, *moved))
    layers = Image(13, 7, 5, flags=LAYERED, fill="index")
    yield Case("gather layers", layers, bordered, "tld4.r.a2d.v4.f32.f32 offset", (integers(5, -2, 7), *around, *moved))
    yield Case("gather level", Image(50, 37, levels=6, fill="index"),
               Sampling(filter=LINEAR, flags=NORMALISED, least=2, most=5), "tld4.r.2d.v4.f32.f32",
               (floats(1, 0, 1), floats(2, 0, 1)))  # fmt: skip
    yield Case("gather srgb", Image(13, 7, 0, U8, 4), Sampling(flags=SRGB), "tld4.g.2d.v4.f32.f32", around)
    yield Case(
        "gather integers", Image(13, 7, 0, S8, 4, fill="bits"), Sampling(flags=INTEGERS), "tld4.b.2d.v4.s32.f32", around
    )
    yield Case("gather missing", Image(13, 7, 0, U8, 1), Sampling(), "tld4.a.2d.v4.f32.f32", around)
    for flags in (NORMALISED, NORMALISED | SEAMLESS):
        cube = Image(8, 8, 6, flags=CUBEMAP, fill="index")
        yield Case(f"gather cube {flags}", cube, Sampling(filter=LINEAR, flags=flags, address=(BORDER,) * 3, border=_BORDER),
                   "tld4.r.cube.v4.f32.f32", tuple(near_edges(4)))  # fmt: skip
        cubes = Image(8, 8, 18, flags=CUBEMAP | LAYERED, fill="index")
        yield Case(f"gather cubes {flags}", cubes, Sampling(filter=LINEAR, flags=flags), "tld4.r.acube.v4.f32.f32",
                   (integers(4, -1, 4), *near_edges(4)))  # fmt: skip


def cubes() -> Iterator[Case]:
    """Cube maps: faces, ties, filtering across edges and corners, arrays, levels."""
    for flags, filter_mode, mode in product(
        (NORMALISED, NORMALISED | SEAMLESS), (POINT, LINEAR), (CLAMP, WRAP, BORDER)
    ):
        name = f"flags {flags} filter {filter_mode} mode {mode}"
        sampling = Sampling((mode,) * 3, filter_mode, flags, border=_BORDER)
        cube = Image(5, 5, 6, flags=CUBEMAP, fill="index")
        anywhere = tuple(floats(seed, -1, 1, True) for seed in (1, 2, 3))
        yield Case(f"cube {name}", cube, sampling, "tex.cube.v4.f32.f32", anywhere)
        yield Case(f"cube edges {name}", cube, sampling, "tex.cube.v4.f32.f32", tuple(near_edges(3)))
        yield Case(f"cube ties {name}", cube, sampling, "tex.cube.v4.f32.f32", tuple(ties()))
    for flags, (width, form, fill) in product(
        (NORMALISED, NORMALISED | SEAMLESS),
        ((1, FLOAT, "index"), (2, FLOAT, "index"), (16, FLOAT, "random"), (8, U8, "random")),
    ):
        image = Image(width, width, 6, form, 4 if form == U8 else 1, CUBEMAP, fill=fill)
        yield Case(f"cube {width} {form:#x} flags {flags}", image, Sampling(filter=LINEAR, flags=flags | SRGB),
                   "tex.cube.v4.f32.f32", tuple(near_edges(3)))  # fmt: skip
    many = Image(8, 8, 18, flags=CUBEMAP | LAYERED, fill="random")
    for flags, filter_mode in product((NORMALISED, NORMALISED | SEAMLESS), (POINT, LINEAR)):
        yield Case(f"cubes flags {flags} filter {filter_mode}", many, Sampling(filter=filter_mode, flags=flags),
                   "tex.acube.v4.f32.f32", (integers(3, -3, 6), *near_edges(5)))  # fmt: skip
    yield Case("cube compare", Image(8, 8, 6, flags=CUBEMAP), Sampling(flags=NORMALISED), "tex.cube.v4.f32.f32 depth",
               (*near_edges(6), floats(7, -1, 1)))  # fmt: skip


def levels() -> Iterator[Case]:
    """Levels of detail: how they are chosen, bounded, blended and read."""
    pyramid = Image(64, 64, levels=7, fill="level")
    middle = (same(0.3), same(0.3))
    for blend in (POINT, LINEAR):
        for part in range(3):
            column = tuple(bits_of(-1 + (part * LANES + i) * 15 / 1024) for i in range(LANES))
            yield Case(f"level {part} blend {blend}", pyramid, Sampling(flags=NORMALISED, mipmap_filter=blend, most=100),
                       "tex.level.2d.v4.f32.f32", (*middle, column))  # fmt: skip
        yield Case(f"special levels blend {blend}", pyramid, Sampling(flags=NORMALISED, mipmap_filter=blend, most=100),
                   "tex.level.2d.v4.f32.f32", (*middle, floats(3, -3, 9, True)))  # fmt: skip
        bounds = ((0, 0, 0), (0.3, 0, 100), (-0.7, 1.3, 3.6), (20, 0, 100), (-20, 0, 100), (1.0001, 0.001, 2.999), (0, 3, 1),
                  (0, -2, 100), (0, 5.5, 5.6), (math.nan, 0, 100), (0, math.nan, 3), (0, 2, math.nan))  # fmt: skip
        for (bias, least, most), kind in product(bounds, ("tex", "tex.base", "tex.level")):
            given = (floats(5, -20, 25),) if kind == "tex.level" else ()
            yield Case(f"{kind} bias {bias} from {least} to {most} blend {blend}", pyramid,
                       Sampling(flags=NORMALISED, mipmap_filter=blend, bias=bias, least=least, most=most),
                       f"{kind}.2d.v4.f32.f32", (*middle, *given))  # fmt: skip
    for anisotropy, flags in product((2, 4, 8), (NORMALISED, NORMALISED | NO_TRILINEAR)):
        yield Case(f"level anisotropy {anisotropy} flags {flags}", pyramid,
                   Sampling(flags=flags, mipmap_filter=LINEAR, most=100, anisotropy=anisotropy), "tex.level.2d.v4.f32.f32",
                   (*middle, floats(5, -1, 7)))  # fmt: skip
    for (form, fill), filter_mode, blend in product(
        ((FLOAT, "random"), (FLOAT, "wide"), (U8, "random"), (HALF, "random"), (S8, "random")),
        (POINT, LINEAR),
        (POINT, LINEAR),
    ):
        yield Case(f"blended {form:#x} {fill} filter {filter_mode} blend {blend}", Image(50, 37, 0, form, levels=6, fill=fill),
                   Sampling((WRAP, CLAMP, CLAMP), filter_mode, NORMALISED, mipmap_filter=blend, most=100),
                   "tex.level.2d.v4.f32.f32", (floats(1, -1, 2), floats(2, -1, 2), floats(3, -1, 7)))  # fmt: skip
    shapes = (
        ("1d", Image(50, levels=6, fill="index"), 1), ("3d", Image(20, 13, 9, levels=5, fill="index"), 3),
        ("a1d", Image(50, 0, 5, flags=LAYERED, levels=6, fill="index"), 1),
        ("a2d", Image(50, 20, 5, flags=LAYERED, levels=6, fill="index"), 2),
        ("cube", Image(16, 16, 6, flags=CUBEMAP, levels=5, fill="index"), 3),
        ("acube", Image(16, 16, 12, flags=CUBEMAP | LAYERED, levels=5, fill="index"), 3),
    )  # fmt: skip
    for (geometry, image, axes), filter_mode in product(shapes, (POINT, LINEAR)):
        columns = [floats(600 + axis, -1, 1) for axis in range(axes)]
        if geometry.startswith("a"):
            columns.insert(0, integers(77, 0, 4))
        flags = NORMALISED | (SEAMLESS if geometry == "cube" else 0)
        yield Case(f"blended {geometry} filter {filter_mode}", image,
                   Sampling(filter=filter_mode, flags=flags, mipmap_filter=LINEAR, most=100),
                   f"tex.level.{geometry}.v4.f32.f32", (*columns, floats(3, -1, 7)))  # fmt: skip
    yield Case("level, coordinates in texels", Image(50, 37, levels=6, fill="index"),
               Sampling((BORDER,) * 3, LINEAR, mipmap_filter=LINEAR, most=100, border=_BORDER), "tex.level.2d.v4.f32.f32",
               (floats(1, -3, 55), floats(2, -3, 40), floats(3, -1, 7)))  # fmt: skip


def gradients() -> Iterator[Case]:
    """The level that follows from gradients; it may be off by 1/256 or 2/256."""
    sampling = Sampling(flags=NORMALISED, mipmap_filter=LINEAR, most=100)
    shapes = (
        ("1d", Image(64, levels=7, fill="level"), 1), ("2d", Image(64, 16, levels=7, fill="level"), 2),
        ("3d", Image(64, 32, 16, levels=7, fill="level"), 3), ("a2d", Image(64, 64, 3, flags=LAYERED, levels=7, fill="level"), 2),
    )  # fmt: skip
    for geometry, image, axes in shapes:
        columns = [same(0.3)] * axes + steps(5, 2 * axes)
        if geometry.startswith("a"):
            columns.insert(0, integers(77, 0, 2))
        yield Case(
            f"gradients {geometry}", image, sampling, f"tex.grad.{geometry}.v4.f32.f32", tuple(columns), (), True
        )
    zero = same(0.0)
    one = steps(6, 1)[0]
    for axis in range(4):
        columns = [zero] * 4
        columns[axis] = one
        yield Case(f"gradient {axis}", Image(64, 64, levels=7, fill="level"), sampling, "tex.grad.2d.v4.f32.f32",
                   (same(0.3), same(0.3), *columns))  # fmt: skip
    small = [
        tuple(bits_of(Numbers(7 + axis * LANES + i).uniform(-0.2, 0.2)) for i in range(LANES)) for axis in range(6)
    ]
    cube = Image(64, 64, 6, flags=CUBEMAP, levels=7, fill="level")
    for number, direction in enumerate(((0.3, 0.3, 1.0), (1.0, 0.2, -0.3), (-0.5, 3.0, 1.0))):
        yield Case(f"gradients cube {number}", cube, sampling, "tex.grad.cube.v4.f32.f32",
                   (*(same(value) for value in direction), *small), (), True)  # fmt: skip


def views() -> Iterator[Case]:
    """Resource views, and what cannot be made."""
    pyramid = Image(50, 37, levels=6, fill="index")
    place = (floats(1, 0, 1), floats(2, 0, 1), floats(3, -1, 7))
    for view in ((0x16, 50, 37, 0, 2, 4), (0x16, 50, 37, 0, 5, 9), (0, 50, 37, 0, 2, 4), (0x16, 12, 9, 0, 2, 4),
                 (5, 50, 37, 0, 1, 1), (0x16, 50, 37, 0, 3, 2)):  # fmt: skip
        yield Case(f"view {view}", pyramid, Sampling(flags=NORMALISED, mipmap_filter=LINEAR, most=100),
                   "tex.level.2d.v4.f32.f32", place, view)  # fmt: skip
    layers = Image(13, 7, 5, flags=LAYERED, fill="index")
    for depth in (3, 5):
        yield Case(f"view of layers {depth}", layers, Sampling(), "tex.a2d.v4.f32.f32",
                   (integers(5, -2, 7), floats(1, -2, 15), floats(2, -2, 9)), (0x16, 13, 7, depth, 0, 0, 1, 3))  # fmt: skip
    around = (floats(1, -2, 15), floats(2, -2, 9))
    yield Case("view of integers as floats", Image(13, 7, 0, U32, 1, fill="bits"), Sampling(), "tex.2d.v4.f32.f32", around,
               (0x16, 13, 7, 0))  # fmt: skip
    yield Case("view of unsigned as signed", Image(13, 7, 0, U8, 4, fill="bits"), Sampling(), "tex.2d.v4.f32.f32", around,
               (6, 13, 7, 0))  # fmt: skip
    image = Image(16, 16)
    for name, sampling in (
        ("mode 9", Sampling((9, 0, 0))), ("filter 7", Sampling(filter=7)), ("flags 0x80", Sampling(flags=0x80)),
        ("flags 8", Sampling(flags=8)), ("anisotropy 99", Sampling(anisotropy=99)), ("level filter 7", Sampling(mipmap_filter=7)),
        ("seamless image", Sampling(flags=SEAMLESS)), ("srgb floats", Sampling(flags=SRGB)), ("wrapped texels", Sampling((WRAP,) * 3)),
    ):  # fmt: skip
        yield Case(f"made with {name}", image, sampling, "tex.2d.v4.f32.f32", around)


def cases() -> list[Case]:
    """All of them, in a fixed order."""
    groups = (addressing, formats, numbers, offsets, gathers, cubes, levels, gradients, views)
    return [case for group in groups for case in group()]


# Descriptors of arrays: (width, height, depth, format, channels, flags), levels (0: not a mipmapped one).
ARRAYS = [
    ((*size, form, channels, flags), count)
    for size in ((16, 0, 0), (16, 16, 0), (16, 16, 6), (16, 8, 6), (16, 16, 5), (16, 16, 12), (16, 0, 5), (0, 16, 0), (16, 0, 6),
                 (200000, 0, 0), (16, 16, 3000), (16, 70000, 0))
    for form, channels in ((FLOAT, 1), (FLOAT, 3), (U8, 4))
    for flags in (0, LAYERED, SURFACE, CUBEMAP, CUBEMAP | LAYERED, GATHER, GATHER | LAYERED, GATHER | CUBEMAP, 16, 32,
                  LAYERED | SURFACE, CUBEMAP | SURFACE, CUBEMAP | SURFACE | LAYERED)
    for count in (0, 1, 99)
]  # fmt: skip
