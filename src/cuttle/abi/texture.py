"""The descriptor behind a texture or surface handle: 128 bytes of device memory, as frozen rows.

A `CUtexObject` or `CUsurfObject` (and the address of a `.texref`, `.samplerref` or `.surfref` variable) is the device
address of one descriptor. `libs/cuda` fills it in; the code of `lower/ops/texture.py` reads it.
"""

from __future__ import annotations

from cuttle.abi.wire import Field, Struct

TEXTURE_BYTES = 128

# Values of `kind`: how a component is read.
KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT = 0, 1, 2

# Values of `address_modes`, as CUaddress_mode.
ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER = 0, 1, 2, 3

# Bits of `flags`.
FLAG_NORMALISED_COORDINATES = 1  # coordinates in [0, 1), else in texels
FLAG_LINEAR = 2  # linear filtering, else the nearest texel
FLAG_NORMALISED_READ = 4  # integers are read as floats in [0, 1] or [-1, 1]

TEXTURE = Struct(
    "cuttle_texture",
    TEXTURE_BYTES,
    (
        Field("base", "u64", 1, "device address of texel (0, 0, 0)"),
        Field("slice_bytes", "u64", 1, "distance of two depth slices, or of two layers"),
        Field("pitch_bytes", "u32", 1, "distance of two rows"),
        Field("width", "u32", 1, "in texels"),
        Field("height", "u32", 1, "in texels; 1 for one-dimensional ones"),
        Field("depth", "u32", 1, "slices of a 3D one, layers of a layered one, else 1"),
        Field("component_bytes", "u32", 1, "1, 2 or 4"),
        Field("channels", "u32", 1, "1, 2 or 4"),
        Field("kind", "u32", 1, "KIND_*"),
        Field("flags", "u32", 1, "FLAG_*"),
        Field(
            "address_modes", "u32", 3, "ADDRESS_* of x, y, z. Linear memory reads 0 outside: border with a zero border"
        ),
        Field("channel_order", "u32", 1, "what txq.channel_order answers"),
        Field(
            "border", "u32", 4, "border colour: bits of four floats, or four integers for unnormalised integer reads"
        ),
        Field("data_type", "u32", 1, "what txq.channel_data_type answers"),
        Field("levels", "u32", 1, "mipmap levels; only level 0 is read"),
        Field("samples", "u32"),
        Field("pad", "u32", 5),
        Field("sink", "u32", 4, "stores of lanes outside the surface land here"),
    ),
    "one per texture or surface object",
)


def _offsets() -> dict[str, int]:
    sizes = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8}
    at = 0
    result: dict[str, int] = {}
    for field in TEXTURE.fields:
        result[field.name] = at
        at += sizes[field.type] * field.count
    return result


TEXTURE_OFFSETS = _offsets()
