"""Arrays, textures, surfaces. An array is plain rows in device memory; a handle is the address of a descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, frexp
from struct import pack, pack_into, unpack

from cuttle.abi import texture as rows
from cuttle.abi.requests import TEXTURE_REQUEST
from cuttle.device.shared import SharedMemory
from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.results import CudaError

ROW_ALIGNMENT = 32
MOST_BIAS, MOST_LEVEL = 15.0, 32.0  # levels of detail
LARGEST_EXTENT = 1 << 20  # elements: what the client library lets through is smaller
# CUresourcetype numbers.
ARRAY, MIPMAPPED_ARRAY, LINEAR, PITCH_2D = range(4)
# CU_TRSF_ flags.
READ_AS_INTEGER, NORMALISED_COORDINATES, SRGB, NO_OPTIMISATION, SEAMLESS = 1, 2, 16, 32, 64
# CUDA_ARRAY3D_ flags.
LAYERED, SURFACE, CUBEMAP = 1, 2, 4

# CUarray_format → bytes, kind, code of `txq.channel_data_type` (PTX ISA, opaque types: those of OpenCL).
_FORMATS = {
    0x01: (1, rows.KIND_UNSIGNED, 0x10DA),
    0x02: (2, rows.KIND_UNSIGNED, 0x10DB),
    0x03: (4, rows.KIND_UNSIGNED, 0x10DC),
    0x08: (1, rows.KIND_SIGNED, 0x10D7),
    0x09: (2, rows.KIND_SIGNED, 0x10D8),
    0x0A: (4, rows.KIND_SIGNED, 0x10D9),
    0x10: (2, rows.KIND_FLOAT, 0x10DD),
    0x20: (4, rows.KIND_FLOAT, 0x10DE),
}
_CHANNEL_ORDER = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
# CUresourceViewFormat counts up in this order, each with 1, 2 and 4 channels.
_VIEW_FORMATS = (0x01, 0x08, 0x02, 0x09, 0x03, 0x0A, 0x10, 0x20)


class Level:
    """One level of an array. Sizes as the descriptor gives them (0 where a dimension is not there)."""

    __slots__ = ("address", "depth", "height", "row_pitch", "slice_pitch", "width")

    def __init__(self, address: int, width: int, height: int, depth: int, row_pitch: int, slice_pitch: int) -> None:
        self.address = address
        self.width = width
        self.height = height
        self.depth = depth
        self.row_pitch = row_pitch
        self.slice_pitch = slice_pitch

    def packed(self) -> bytes:
        return pack("<6Q", self.address, self.width, self.height, self.depth, self.row_pitch, self.slice_pitch)


class TextureStore:
    """Arrays and descriptors of a session."""

    def __init__(self, shared: SharedMemory, memory: DeviceMemory) -> None:
        self._shared = shared
        self._memory = memory
        self._arrays: dict[int, tuple[Allocation, list[Level]]] = {}
        self._descriptors: dict[int, Allocation] = {}
        self._next = 1

    def create_array(
        self, width: int, height: int, depth: int, form: int, channels: int, flags: int, levels: int, context: int
    ) -> tuple[int, Allocation, list[Level]]:
        """(number, memory, levels). Raises NOT_SUPPORTED for formats that are not plain numbers."""
        if form not in _FORMATS or channels not in _CHANNEL_ORDER:
            raise CudaError(results.NOT_SUPPORTED, f"array format {form:#x} with {channels} channels")
        if max(width, height, depth) > LARGEST_EXTENT:
            raise CudaError(results.INVALID_VALUE, f"an array of {width} x {height} x {depth} elements")
        # As CUDA does: no more levels than it takes to halve the largest extent down to one element.
        halved = max(width, height, 1 if flags & (LAYERED | CUBEMAP) else depth)
        levels = min(max(levels, 1), max(halved.bit_length(), 1))
        element = _FORMATS[form][0] * channels
        layout: list[tuple[int, int, int, int, int, int]] = []
        at = 0
        for level in range(levels):
            w, h = max(width >> level, 1), max(height >> level, 1) if height else 0
            d = depth if flags & (LAYERED | CUBEMAP) or not depth else max(depth >> level, 1)
            row = -(-w * element // ROW_ALIGNMENT) * ROW_ALIGNMENT
            slice_bytes = row * max(h, 1)
            layout.append((at, w, h, d, row, slice_bytes))
            at += -(-slice_bytes * max(d, 1) // 512) * 512
        # Vector loads at the end of the last row may read a little behind it.
        allocation = self._memory.allocate(at + 64, memory_kinds.ARRAY, context)
        number = self._next
        self._next += 1
        made = [Level(allocation.address + place, *rest) for place, *rest in layout]
        self._arrays[number] = allocation, made
        return number, allocation, made

    def destroy_array(self, number: int) -> None:
        found = self._arrays.pop(number, None)
        if found is None:
            raise CudaError(results.INVALID_HANDLE, f"no array {number}")
        self._memory.free(found[0])

    def create(self, request: bytes, is_surface: bool, context: int) -> int:
        """The handle of a texture or surface, from a texture_request."""
        if len(request) < TEXTURE_REQUEST.bytes:
            raise CudaError(results.INVALID_VALUE)
        asked = Request(request)
        levels = self._levels(asked)
        size = rows.TEXTURE_BYTES + rows.LEVEL.bytes * len(levels)
        allocation = self._memory.allocate(size, memory_kinds.INTERNAL, context)
        table = allocation.address + rows.TEXTURE_BYTES
        try:
            content = describe(asked, is_surface, levels, table) + b"".join(map(_packed_level, levels))
        except CudaError:
            self._memory.free(allocation)
            raise
        self._shared.write(allocation.address, content)
        self._descriptors[allocation.address] = allocation
        return allocation.address

    def _levels(self, request: Request) -> list[Level]:
        """The levels, and of each the layers, that a texture shows."""
        first = Level(
            request["address"], request["width"], request["height"], request["depth"], request["row_pitch"],
            request["slice_pitch"],
        )  # fmt: skip
        levels = [first]
        if request["resource_kind"] == MIPMAPPED_ARRAY:
            found = self._arrays.get(request["array"])
            if found is None:
                raise CudaError(results.INVALID_HANDLE, f"no array {request['array']}")
            levels = found[1]
        if not request["has_view"]:
            return levels
        _check_view(request)
        levels = levels[request["view_first_level"] : request["view_last_level"] + 1]
        begin, end = request["view_first_layer"], request["view_last_layer"]
        if not levels:
            raise CudaError(results.INVALID_VALUE, "a view of levels that are not there")
        if not request["array_flags"] & (LAYERED | CUBEMAP):
            return levels
        if not begin <= end < max(levels[0].depth, 1):
            raise CudaError(results.INVALID_VALUE, "a view of layers that are not there")
        return [
            Level(
                one.address + begin * one.slice_pitch,
                one.width,
                one.height,
                end - begin + 1,
                one.row_pitch,
                one.slice_pitch,
            )
            for one in levels
        ]

    def destroy(self, handle: int) -> None:
        allocation = self._descriptors.pop(handle, None)
        if allocation is None:
            raise CudaError(results.INVALID_VALUE, f"{handle:#x} is no texture or surface")
        self._memory.free(allocation)

    def forget_context(self, context: int) -> None:
        """The memory itself is freed with all that the context has."""
        for table in (self._arrays, self._descriptors):
            for number in [number for number, kept in table.items() if _allocation_of(kept).context == context]:
                del table[number]


class Request:
    """A texture_request, its fields by name."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._values: dict[str, list[int]] = {}
        sizes = {"u32": 4, "u64": 8}
        at = 0
        for field in TEXTURE_REQUEST.fields:
            size = sizes[field.type]
            at = -(-at // size) * size
            self._values[field.name] = [
                int.from_bytes(data[at + i * size : at + (i + 1) * size], "little") for i in range(field.count)
            ]
            at += size * field.count

    def __getitem__(self, name: str) -> int:
        return self._values[name][0]

    def list(self, name: str) -> list[int]:
        return self._values[name]


def _allocation_of(kept: Allocation | tuple[Allocation, list[Level]]) -> Allocation:
    return kept[0] if isinstance(kept, tuple) else kept


def _check_view(request: Request) -> None:
    """A view has the array's extents and the size of its texels. Raises INVALID_VALUE, as an H200 answers."""
    view = _view_format(request["view_format"])
    element = _FORMATS[request["format"]][0] * request["channels"]
    extents = [(request[f"view_{name}"], request[name]) for name in ("width", "height", "depth")]
    if _FORMATS[view[0]][0] * view[1] != element or any(ours != theirs for ours, theirs in extents):
        raise CudaError(results.INVALID_VALUE, "a view that is not of the array's size")


def _packed_level(level: Level) -> bytes:
    return pack(
        "<QQ4I", level.address, level.slice_pitch, *(min(number, 0xFFFF_FFFF) for number in (level.row_pitch, level.width)),
        max(level.height, 1), max(level.depth, 1),
    )  # fmt: skip


def describe(request: Request, is_surface: bool, levels: Sequence[Level], table: int) -> bytes:
    """The descriptor that kernels read; `table` is the device address of its levels."""
    form, channels = request["format"], request["channels"]
    if request["has_view"]:
        form, channels = _view_format(request["view_format"])
    if form not in _FORMATS or channels not in _CHANNEL_ORDER:
        raise CudaError(results.NOT_SUPPORTED, f"texture format {form:#x} with {channels} channels")
    component, kind, data_type = _FORMATS[form]
    as_float = kind == rows.KIND_FLOAT
    flags = 0
    modes = [min(mode, rows.ADDRESS_BORDER) for mode in request.list("address_mode")]
    border = request.list("border_color")
    if not is_surface:
        asked = request["flags"]
        if not as_float and component < 4 and not asked & READ_AS_INTEGER:
            flags |= rows.FLAG_NORMALISED_READ
            as_float = True
            if asked & SRGB and component == 1 and kind == rows.KIND_UNSIGNED:
                flags |= rows.FLAG_SRGB
        # Coordinates of mipmapped arrays are normalised ones, whatever the flags say.
        if asked & NORMALISED_COORDINATES or request["resource_kind"] == MIPMAPPED_ARRAY:
            flags |= rows.FLAG_NORMALISED_COORDINATES
        else:
            # Without normalised coordinates, wrap and mirror are clamp (CUDA C++ Programming Guide, texture memory).
            modes = [mode if mode == rows.ADDRESS_BORDER else rows.ADDRESS_CLAMP for mode in modes]
        if request["filter_mode"]:
            flags |= rows.FLAG_LINEAR
        if request["mipmap_filter_mode"]:
            flags |= rows.FLAG_LEVEL_LINEAR
        anisotropy = request["max_anisotropy"]
        if anisotropy > 1:
            flags |= rows.FLAG_ANISOTROPIC
            if not asked & NO_OPTIMISATION:
                flags |= (1 if anisotropy < 4 else 2 if anisotropy < 8 else 3) << rows.FLAG_STEEPNESS_SHIFT
        if asked & SEAMLESS and request["array_flags"] & CUBEMAP:
            flags |= rows.FLAG_SEAMLESS
    border = [
        border_bits(bits, form, flags, channel < (3 if channels == 4 else 1)) for channel, bits in enumerate(border)
    ]
    if request["resource_kind"] == LINEAR and not is_surface:
        modes = [rows.ADDRESS_BORDER] * 3
        border = [0] * 4
        flags = flags & ~rows.FLAG_LINEAR | rows.FLAG_BUFFER
    descriptor = bytearray(rows.TEXTURE_BYTES)
    first = levels[0]

    def put(name: str, form_text: str, *values: int) -> None:
        pack_into("<" + form_text, descriptor, rows.TEXTURE_OFFSETS[name], *values)

    put("base", "Q", first.address)
    put("slice_bytes", "Q", first.slice_pitch)
    put("pitch_bytes", "I", min(first.row_pitch, 0xFFFF_FFFF))
    put("width", "I", min(first.width, 0xFFFF_FFFF))
    put("height", "I", max(first.height, 1))
    put("depth", "I", max(first.depth, 1))
    put("component_bytes", "I", component)
    put("channels", "I", channels)
    put("kind", "I", kind)
    put("flags", "I", flags)
    put("address_modes", "3I", *modes)
    put("channel_order", "I", _CHANNEL_ORDER[channels])
    put("border", "4I", *border)
    put("data_type", "I", data_type)
    put("levels", "I", len(levels))
    put("samples", "I", 1)
    put("asked_height", "I", *asked_extents(request, first)[:1])
    put("asked_depth", "I", *asked_extents(request, first)[1:])
    put("level_table", "Q", table)
    put("level_bias", "i", level_steps(request["mipmap_level_bias"], -MOST_BIAS, MOST_BIAS))
    put("least_level", "i", level_steps(request["min_mipmap_level_clamp"], 0, MOST_LEVEL))
    put("most_level", "i", level_steps(request["max_mipmap_level_clamp"], 0, MOST_LEVEL))
    return bytes(descriptor)


def asked_extents(request: Request, level: Level) -> tuple[int, int]:
    """What `txq.height` and `txq.depth` answer, as recorded on an H200."""
    layered, cube = request["array_flags"] & LAYERED, request["array_flags"] & CUBEMAP
    if request["resource_kind"] == LINEAR:
        return 0, 0
    if cube:
        return level.height, level.depth // 6 if layered else 0
    if layered and not level.height:
        return level.depth, 0
    return max(level.height, 1), level.depth


def level_steps(bits: int, least: float, most: float) -> int:
    """A level of detail, a float by its bits, within bounds and in whole 1/256 of a level towards 0; NaN is the upper bound."""
    value = _float_of(bits)
    return int((max(min(value, most), least) if value == value else most) * 256)


def border_bits(bits: int, form: int, flags: int, is_colour: bool) -> int:
    """What a texel of the border's colour, a float by its bits, would have in memory, signs extended to 32 bits.

    As an H200 keeps it: integers that stay integers take the low bits of the float as they are; normalised ones the
    nearest number; halves are cut towards 0.
    """
    size, kind, _ = _FORMATS[form]
    value = _float_of(bits)
    if kind == rows.KIND_FLOAT:
        return bits if size == 4 else _half_towards_zero(value, bits)
    if flags & rows.FLAG_NORMALISED_READ:
        most = (1 << 8 * size - (kind == rows.KIND_SIGNED)) - 1
        least = 0.0 if kind == rows.KIND_UNSIGNED else -1.0
        value = max(min(value, 1.0), least) if value == value else 0.0
        if flags & rows.FLAG_SRGB and is_colour:
            value = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        scaled = _float_of(int.from_bytes(pack("<f", value * most), "little"))
        number = ceil(scaled - 0.5) if scaled > 0 else floor(scaled + 0.5)  # halves towards 0
    else:
        number = bits & (1 << 8 * size) - 1
        if kind == rows.KIND_SIGNED and number >> 8 * size - 1:
            number -= 1 << 8 * size
    return number & 0xFFFF_FFFF


def _half_towards_zero(value: float, bits: int) -> int:
    sign = bits >> 16 & 0x8000
    if value != value:
        return sign | 0x7FFF
    magnitude = min(abs(value), 65504.0)
    exponent = max(frexp(magnitude)[1] - 1, -14)
    steps = int(magnitude * 2.0 ** (10 - exponent))
    return sign | ((exponent + 14 << 10) + steps if magnitude else 0)


def _float_of(bits: int) -> float:
    value: float = unpack("<f", pack("<I", bits))[0]
    return value


def _view_format(view: int) -> tuple[int, int]:
    """Format and channels of a CUresourceViewFormat. Raises INVALID_VALUE for none, NOT_SUPPORTED for compressed blocks."""
    if view == 0:
        raise CudaError(results.INVALID_VALUE, "a view without a format")
    place, which = divmod(view - 1, 3)
    if place >= len(_VIEW_FORMATS):
        raise CudaError(results.NOT_SUPPORTED, f"resource view format {view}")
    return _VIEW_FORMATS[place], (1, 2, 4)[which]
