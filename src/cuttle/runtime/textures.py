"""Arrays, textures, surfaces. An array is plain rows in device memory; a handle is the address of a descriptor."""

from __future__ import annotations

from struct import pack, pack_into

from cuttle.abi import texture as rows
from cuttle.abi.requests import TEXTURE_REQUEST
from cuttle.device.shared import SharedMemory
from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.results import CudaError

ROW_ALIGNMENT = 32
LARGEST_EXTENT = 1 << 20  # elements: what the client library lets through is smaller
# CUresourcetype numbers.
ARRAY, MIPMAPPED_ARRAY, LINEAR, PITCH_2D = range(4)
# CU_TRSF_ flags.
READ_AS_INTEGER, NORMALISED_COORDINATES, SRGB = 1, 2, 16
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
        self._arrays: dict[int, Allocation] = {}
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
        self._arrays[number] = allocation
        return number, allocation, [Level(allocation.address + place, *rest) for place, *rest in layout]

    def destroy_array(self, number: int) -> None:
        allocation = self._arrays.pop(number, None)
        if allocation is None:
            raise CudaError(results.INVALID_HANDLE, f"no array {number}")
        self._memory.free(allocation)

    def create(self, request: bytes, is_surface: bool, context: int) -> int:
        """The handle of a texture or surface, from a texture_request."""
        if len(request) < TEXTURE_REQUEST.bytes:
            raise CudaError(results.INVALID_VALUE)
        descriptor = describe(Request(request), is_surface)
        allocation = self._memory.allocate(rows.TEXTURE_BYTES, memory_kinds.INTERNAL, context)
        self._shared.write(allocation.address, descriptor)
        self._descriptors[allocation.address] = allocation
        return allocation.address

    def destroy(self, handle: int) -> None:
        allocation = self._descriptors.pop(handle, None)
        if allocation is None:
            raise CudaError(results.INVALID_VALUE, f"{handle:#x} is no texture or surface")
        self._memory.free(allocation)

    def forget_context(self, context: int) -> None:
        """The memory itself is freed with all that the context has."""
        for table in (self._arrays, self._descriptors):
            for number in [number for number, allocation in table.items() if allocation.context == context]:
                del table[number]


class Request:
    """A texture_request, its fields by name."""

    def __init__(self, data: bytes) -> None:
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


def describe(request: Request, is_surface: bool) -> bytes:
    """The descriptor that kernels read."""
    form, channels = request["format"], request["channels"]
    address, depth = request["address"], request["depth"]
    width, height = request["width"], request["height"]
    if request["has_view"]:
        form, channels = _view_format(request["view_format"], form, channels)
        width = request["view_width"] or width
        height = request["view_height"] or height
        depth = request["view_depth"] or depth
        first, last = request["view_first_layer"], request["view_last_layer"]
        if request["array_flags"] & (LAYERED | CUBEMAP) and last >= first:
            address += first * request["slice_pitch"]
            depth = last - first + 1
    if form not in _FORMATS or channels not in _CHANNEL_ORDER:
        raise CudaError(results.NOT_SUPPORTED, f"texture format {form:#x} with {channels} channels")
    component, kind, data_type = _FORMATS[form]
    as_float = kind == rows.KIND_FLOAT
    flags = 0
    modes = [min(mode, rows.ADDRESS_BORDER) for mode in request.list("address_mode")]
    border = request.list("border_color")
    if not is_surface:
        normalised = bool(request["flags"] & NORMALISED_COORDINATES)
        if not as_float and component < 4 and not request["flags"] & READ_AS_INTEGER:
            if request["flags"] & SRGB:
                raise CudaError(results.NOT_SUPPORTED, "an sRGB texture: nobody has recorded how a GPU decodes it")
            flags |= rows.FLAG_NORMALISED_READ
            as_float = True
        if normalised:
            flags |= rows.FLAG_NORMALISED_COORDINATES
        else:
            # Without normalised coordinates, wrap and mirror are clamp (CUDA C++ Programming Guide, texture memory).
            modes = [mode if mode == rows.ADDRESS_BORDER else rows.ADDRESS_CLAMP for mode in modes]
        if request["filter_mode"] and as_float:
            flags |= rows.FLAG_LINEAR
    if request["resource_kind"] == LINEAR and not is_surface:
        modes = [rows.ADDRESS_BORDER] * 3
        border = [0] * 4
        flags &= ~rows.FLAG_LINEAR
    if not as_float:
        border = [_integer_of_float_bits(bits) for bits in border]
    descriptor = bytearray(rows.TEXTURE_BYTES)

    def put(name: str, form_text: str, *values: int) -> None:
        pack_into("<" + form_text, descriptor, rows.TEXTURE_OFFSETS[name], *values)

    put("base", "Q", address)
    put("slice_bytes", "Q", request["slice_pitch"])
    put("pitch_bytes", "I", min(request["row_pitch"], 0xFFFF_FFFF))
    put("width", "I", min(width, 0xFFFF_FFFF))
    put("height", "I", max(height, 1))
    put("depth", "I", max(depth, 1))
    put("component_bytes", "I", component)
    put("channels", "I", channels)
    put("kind", "I", kind)
    put("flags", "I", flags)
    put("address_modes", "3I", *modes)
    put("channel_order", "I", _CHANNEL_ORDER[channels])
    put("border", "4I", *border)
    put("data_type", "I", data_type)
    put("levels", "I", max(request["levels"], 1))
    put("samples", "I", 1)
    return bytes(descriptor)


def _view_format(view: int, form: int, channels: int) -> tuple[int, int]:
    if view == 0:
        return form, channels
    place, which = divmod(view - 1, 3)
    if place >= len(_VIEW_FORMATS):
        raise CudaError(results.NOT_SUPPORTED, f"resource view format {view}")
    return _VIEW_FORMATS[place], (1, 2, 4)[which]


def _integer_of_float_bits(bits: int) -> int:
    from struct import unpack

    (value,) = unpack("<f", pack("<I", bits))
    return int(value) & 0xFFFF_FFFF if value == value and abs(value) < 2**32 else 0
