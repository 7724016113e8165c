"""Texture accesses as cases: an array with contents, a texture description, an instruction, coordinates.

`tools/record_textures.py` runs those of `texture_cases.py` on an NVIDIA GPU, `tests/textures` through Cuttle's client
library; both go through the driver API. Standard library only, so that a recorder needs nothing but Python and `libcuda.so.1`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuttle.sweep.driver import Driver, DriverFailure

MASK = 0xFFFF_FFFF
# CUarray_format.
U8, U16, U32, S8, S16, S32, HALF, FLOAT = 1, 2, 3, 8, 9, 10, 0x10, 0x20
COMPONENT_BYTES = {U8: 1, U16: 2, U32: 4, S8: 1, S16: 2, S32: 4, HALF: 2, FLOAT: 4}
# CUDA_ARRAY3D_ flags.
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
# CUaddress_mode, CUfilter_mode, CU_TRSF_ flags.
WRAP, CLAMP, MIRROR, BORDER = 0, 1, 2, 3
POINT, LINEAR = 0, 1
INTEGERS, NORMALISED, SRGB, NO_TRILINEAR, SEAMLESS = 1, 2, 0x10, 0x20, 0x40
# Where the data of an array comes from.
RESOURCE_ARRAY, RESOURCE_MIPMAP, RESOURCE_LINEAR, RESOURCE_PITCH = range(4)


class ArrayDescriptor(ctypes.Structure):
    """`CUDA_ARRAY3D_DESCRIPTOR`."""

    _fields_ = (
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t), ("format", ctypes.c_int),
        ("channels", ctypes.c_uint), ("flags", ctypes.c_uint),
    )  # fmt: skip


class ResourceDescriptor(ctypes.Structure):
    """`CUDA_RESOURCE_DESC`; `body` is its union, as 64-bit words."""

    _fields_ = (("kind", ctypes.c_int), ("body", ctypes.c_uint64 * 16), ("flags", ctypes.c_uint))


class TextureDescriptor(ctypes.Structure):
    """`CUDA_TEXTURE_DESC`."""

    _fields_ = (
        ("address", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint), ("anisotropy", ctypes.c_uint),
        ("mipmap_filter", ctypes.c_int), ("bias", ctypes.c_float), ("least", ctypes.c_float), ("most", ctypes.c_float),
        ("border", ctypes.c_float * 4), ("reserved", ctypes.c_int * 12),
    )  # fmt: skip


class ViewDescriptor(ctypes.Structure):
    """`CUDA_RESOURCE_VIEW_DESC`."""

    _fields_ = (
        ("format", ctypes.c_int), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t),
        ("first_level", ctypes.c_uint), ("last_level", ctypes.c_uint), ("first_layer", ctypes.c_uint),
        ("last_layer", ctypes.c_uint), ("reserved", ctypes.c_uint * 16),
    )  # fmt: skip


class Copy3D(ctypes.Structure):
    """`CUDA_MEMCPY3D`."""

    _fields_ = tuple(
        (f"{side}_{name}", kind)
        for side in ("source", "destination")
        for name, kind in (
            ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("lod", ctypes.c_size_t),
            ("kind", ctypes.c_int), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p),
            ("reserved", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t),
        )
    ) + (("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t))  # fmt: skip


class Numbers:
    """A reproducible stream of 32-bit numbers."""

    def __init__(self, seed: int) -> None:
        self.state = (seed * 2654435761 + 12345) & MASK or 1

    def word(self) -> int:
        x = self.state
        x ^= x << 13 & MASK
        x ^= x >> 17
        x ^= x << 5 & MASK
        self.state = x
        return x

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * (self.word() >> 8) / (1 << 24)


def bits_of(value: float) -> int:
    """The bits of the nearest float."""
    return int.from_bytes(struct.pack("<f", value), "little")


@dataclass(frozen=True, slots=True)
class Image:
    """An array and what it holds. `fill` names a function of `contents`."""

    width: int
    height: int = 0
    depth: int = 0
    format: int = FLOAT
    channels: int = 1
    flags: int = 0
    levels: int = 0  # 0: no mipmapped array
    fill: str = "random"
    resource: int = RESOURCE_ARRAY

    @property
    def element_bytes(self) -> int:
        return COMPONENT_BYTES[self.format] * self.channels

    def level_size(self, level: int) -> tuple[int, int, int]:
        """Extents of a level, 1 where a dimension is missing."""
        layers = self.flags & (LAYERED | CUBEMAP)
        return (
            max(self.width >> level, 1),
            max(self.height >> level, 1),
            max(self.depth, 1) if layers else max(self.depth >> level, 1),
        )


# Floats and halves with something special about them.
_SPECIAL = {
    FLOAT: (0x7FC00000, 0x7F800000, 0xFF800000, 0x3F800000, 0x40000000, 1, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3E99999A),
    HALF: (0x7E00, 0x7C00, 0xFC00, 0x3C00, 0x4000, 1, 0x8000, 0x7BFF, 0xFBFF, 0x34CD),
}  # fmt: skip


def contents(image: Image, level: int) -> bytes:
    """The texels of one level, slice by slice, row by row."""
    width, height, depth = image.level_size(level)
    count = width * height * depth * image.channels
    size = COMPONENT_BYTES[image.format]
    letter = "<f" if image.format == FLOAT else "<e"
    if image.fill == "level":
        return (bits_of(float(level)) if image.format == FLOAT else level).to_bytes(size, "little") * count
    if image.fill == "index" and image.format == FLOAT:
        return b"".join(struct.pack("<f", 4096.0 * level + i) for i in range(count))
    if image.fill == "index":
        return b"".join((i & (1 << 8 * size) - 1).to_bytes(size, "little") for i in range(count))
    if image.fill == "pairs":  # every number and a smaller one
        return b"".join(bytes((i // 2 if i % 2 == 0 else (i * 37 + 11) % (i // 2 + 1),)) for i in range(count))
    numbers = Numbers(width * 7 + height * 31 + depth * 101 + level * 1009 + image.format + image.channels * 13)
    if image.fill == "special":
        values = _SPECIAL[image.format]
        return b"".join(values[numbers.word() % len(values)].to_bytes(size, "little") for _ in range(count))
    if image.fill == "bits" or image.format not in (FLOAT, HALF):
        return b"".join((numbers.word() >> 32 - 8 * size).to_bytes(size, "little") for _ in range(count))
    if image.fill == "wide":  # magnitudes far apart, both signs
        return b"".join(
            struct.pack(letter, numbers.uniform(-2, 2) * 2.0 ** (numbers.word() % 24 - 12)) for _ in range(count)
        )
    return b"".join(struct.pack(letter, numbers.uniform(-1, 1)) for _ in range(count))


@dataclass(frozen=True, slots=True)
class Sampling:
    """A `CUDA_TEXTURE_DESC`."""

    address: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    filter: int = POINT
    flags: int = 0
    anisotropy: int = 0
    mipmap_filter: int = POINT
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One launch. `columns` are the words that each thread gets: coordinates, then level, gradients, offsets, depth."""

    name: str
    image: Image
    sampling: Sampling
    instruction: str
    columns: tuple[tuple[int, ...], ...]
    view: tuple[int, ...] = ()  # fields of ViewDescriptor
    inexact: bool = False  # the level that is chosen may be another one, by a few 1/256

    @property
    def threads(self) -> int:
        return len(self.columns[0])


COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3, "cube": 3, "acube": 4}
_GRADIENTS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 3, "cube": 3, "acube": 3}


def words_of(instruction: str) -> int:
    """Words that a thread reads for an instruction such as `tex.level.2d.v4.f32.f32 offset depth`."""
    spelling, *options = instruction.split()
    parts = spelling.split(".")
    geometry = next(part for part in parts if part in COORDINATES)
    count = COORDINATES[geometry]
    count += 1 if "level" in parts else 2 * _GRADIENTS[geometry] if "grad" in parts else 0
    if "offset" in options:
        count += _GRADIENTS[geometry]
    return count + ("depth" in options)


def kernel(instruction: str, name: str) -> str:
    """A kernel that executes the instruction on the words of its thread and stores four words of results."""
    spelling, *options = instruction.split()
    parts = spelling.split(".")
    geometry = next(part for part in parts if part in COORDINATES)
    count = words_of(instruction)
    names = [f"%w{i}" for i in range(count)]
    at = COORDINATES[geometry]
    coordinates = names[:at]
    if len(coordinates) == 3:
        coordinates.append(coordinates[-1])
    place = f"[%object, {{{', '.join(coordinates)}}}]"
    extra = []
    if "level" in parts:
        extra.append(names[at])
        at += 1
    elif "grad" in parts:
        axes = _GRADIENTS[geometry]
        for _ in range(2):
            group = names[at : at + axes]
            at += axes
            if axes == 3:
                group.append(group[-1])
            extra.append("{" + ", ".join(group) + "}")
    if "offset" in options:
        axes = _GRADIENTS[geometry]
        group = names[at : at + axes]
        at += axes
        if axes == 3:
            group.append(group[-1])
        extra.append("{" + ", ".join(group) + "}" if axes > 1 else "{" + group[0] + "}")
    if "depth" in options:
        extra.append(names[at])
    predicate = "|%resident" if "resident" in options else ""
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 object, .param .u32 count)", "{",
        ".reg .pred %p, %resident;", f".reg .b32 %i, %count, %r<4>, %w<{count}>;", ".reg .b16 %h<4>;",
        ".reg .b64 %in, %out, %object, %step, %at;",
        "mov.u32 %i, %ctaid.x;", "mov.u32 %count, %ntid.x;", "mad.lo.u32 %i, %i, %count, 0;",
        "mov.u32 %r0, %tid.x;", "add.u32 %i, %i, %r0;", "ld.param.u32 %count, [count];", "setp.ge.u32 %p, %i, %count;",
        "@%p ret;", "ld.param.u64 %in, [in];", "ld.param.u64 %out, [out];", "ld.param.u64 %object, [object];",
        "mul.wide.u32 %at, %i, 4;", "mul.wide.u32 %step, %count, 4;", "add.u64 %in, %in, %at;", "add.u64 %out, %out, %at;",
    ]  # fmt: skip
    for i in range(count):
        lines += [f"ld.global.u32 %w{i}, [%in];", "add.u64 %in, %in, %step;"]
    tail = "".join(f", {item}" for item in extra)
    half = parts[-2] == "f16"
    results = "{%h0, %h1, %h2, %h3}" if half else "{%r0, %r1}" if "f16x2" in parts else "{%r0, %r1, %r2, %r3}"
    lines += ["mov.u32 %r0, 0;", "mov.u32 %r1, 0;", "mov.u32 %r2, 0;", "mov.u32 %r3, 0;"]
    lines.append(f"{spelling} {results}{predicate}, {place}{tail};")
    if half:
        lines += [f"cvt.u32.u16 %r{i}, %h{i};" for i in range(4)]
    if predicate:
        lines.append("selp.u32 %r3, 1, 0, %resident;")
    for i in range(4):
        lines += [f"st.global.u32 [%out], %r{i};", "add.u64 %out, %out, %step;"]
    return "\n".join([*lines, "ret;", "}"])


HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


class Textures:
    """Makes the objects of cases on a device, and runs them."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.images: dict[Image, tuple[int, int]] = {}
        self.kernels: dict[str, ctypes.c_void_p] = {}
        self.input, self.output = driver.allocate(1 << 22), driver.allocate(1 << 22)

    def image(self, image: Image) -> tuple[int, int]:
        """(handle or address, pitch) of an image with its contents."""
        if image not in self.images:
            self.images[image] = self._make(image)
        return self.images[image]

    def _make(self, image: Image) -> tuple[int, int]:
        call = self.driver.call
        if image.resource in (RESOURCE_LINEAR, RESOURCE_PITCH):
            row = image.width * image.element_bytes
            pitch = -(-row // 512) * 512 if image.resource == RESOURCE_PITCH else row
            data = contents(image, 0)
            memory = self.driver.allocate(pitch * max(image.height, 1))
            for y in range(max(image.height, 1)):
                self.driver.write(ctypes.c_uint64(memory.value + y * pitch), data[y * row : (y + 1) * row])
            return memory.value, pitch
        handle = ctypes.c_void_p()
        descriptor = ArrayDescriptor(image.width, image.height, image.depth, image.format, image.channels, image.flags)
        if not image.levels:
            call("cuArray3DCreate_v2", ctypes.byref(handle), ctypes.byref(descriptor))
            self._fill(image, handle, 0)
            return handle.value or 0, 0
        call("cuMipmappedArrayCreate", ctypes.byref(handle), ctypes.byref(descriptor), image.levels)
        for level in range(image.levels):
            array = ctypes.c_void_p()
            call("cuMipmappedArrayGetLevel", ctypes.byref(array), handle, level)
            self._fill(image, array, level)
        return handle.value or 0, 0

    def _fill(self, image: Image, array: ctypes.c_void_p, level: int) -> None:
        data = contents(image, level)
        width, height, depth = image.level_size(level)
        row = width * image.element_bytes
        copy = Copy3D(
            source_kind=1, source_pitch=row, source_height=height, destination_kind=3, destination_array=array, width=row,
            height=height, depth=depth,
        )  # fmt: skip
        buffer = ctypes.create_string_buffer(data, len(data))
        copy.source_host = ctypes.addressof(buffer)
        self.driver.call("cuMemcpy3D_v2", ctypes.byref(copy))

    def texture(self, case: Case) -> ctypes.c_uint64:
        """A texture object. Raises DriverFailure."""
        image, sampling = case.image, case.sampling
        handle, pitch = self.image(image)
        kind = RESOURCE_MIPMAP if image.levels else image.resource
        resource = ResourceDescriptor(kind)
        resource.body[0] = handle
        if kind in (RESOURCE_LINEAR, RESOURCE_PITCH):
            resource.body[1] = image.format | image.channels << 32
            resource.body[2] = image.width * (image.element_bytes if kind == RESOURCE_LINEAR else 1)
            resource.body[3], resource.body[4] = image.height, pitch
        description = TextureDescriptor(
            sampling.address, sampling.filter, sampling.flags, sampling.anisotropy, sampling.mipmap_filter,
            sampling.bias, sampling.least, sampling.most, sampling.border,
        )  # fmt: skip
        view = ctypes.byref(ViewDescriptor(*case.view)) if case.view else None
        made = ctypes.c_uint64()
        self.driver.call(
            "cuTexObjectCreate", ctypes.byref(made), ctypes.byref(resource), ctypes.byref(description), view
        )
        return made

    def compile(self, instructions: Sequence[str]) -> dict[str, str]:
        """Compile kernels, each in a module of its own; answers the errors of those that failed."""
        failures = {}
        for instruction in instructions:
            if instruction in self.kernels:
                continue
            try:
                self.kernels[instruction] = self.driver.load((HEADER + kernel(instruction, "test")).encode())
            except DriverFailure as failure:
                failures[instruction] = failure.text
        return failures

    def run(self, case: Case) -> bytes:
        """Four words of results for each thread, word by word. Raises DriverFailure."""
        made = self.texture(case)
        threads = case.threads
        driver = self.driver
        data = b"".join(struct.pack(f"<{threads}I", *column) for column in case.columns)
        driver.write(self.input, data)
        arguments: list[Any] = [self.input, self.output, made, ctypes.c_uint32(threads)]
        driver.launch(self.kernels[case.instruction], "test", arguments, threads)
        driver.synchronize()
        result = driver.read(self.output, 16 * threads)
        driver.call("cuTexObjectDestroy", made)
        return result


def array_result(driver: Driver, descriptor: tuple[int, ...], levels: int) -> int:
    """The CUresult of making an array (`levels` 0) or a mipmapped array; it is destroyed again."""
    handle = ctypes.c_void_p()
    described = ctypes.byref(ArrayDescriptor(*descriptor))
    if levels:
        result: int = driver.cuda.cuMipmappedArrayCreate(ctypes.byref(handle), described, levels)
    else:
        result = driver.cuda.cuArray3DCreate_v2(ctypes.byref(handle), described)
    if result == 0:
        driver.call("cuMipmappedArrayDestroy" if levels else "cuArrayDestroy", handle)
    return result
