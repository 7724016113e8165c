"""The descriptor behind a texture or surface handle: 144 bytes of device memory, as frozen rows.

A `CUtexObject` or `CUsurfObject` is the device address of one descriptor; a `.texref` or `.surfref` variable holds one.
`runtime/textures.py` fills it in; the executor's `texture.c` and the code of `lower/ops/texture.py` read it.
"""

from __future__ import annotations

from cuttle.abi.wire import Field, Struct

TEXTURE_BYTES = 144

# Values of `kind`: how a component is read.
KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT = 0, 1, 2

# Values of `address_modes`, as CUaddress_mode.
ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER = 0, 1, 2, 3

# Bits of `flags`.
FLAG_NORMALISED_COORDINATES = 1  # coordinates in [0, 1), else in texels
FLAG_LINEAR = 2  # linear filtering, else the nearest texel
FLAG_NORMALISED_READ = 4  # integers are read as floats in [0, 1] or [-1, 1]
FLAG_LEVEL_LINEAR = 8  # neighbouring levels are blended, else the nearest one is read
FLAG_SRGB = 16  # red, green and blue are decoded; the only channel of one, red alone of two
FLAG_SEAMLESS = 32  # filtering of a cube map goes on behind the edges of its faces
FLAG_BUFFER = 64  # linear memory: read by number alone, 0 behind its end
FLAG_ANISOTROPIC = 128  # more than one sample may be asked for where gradients are given
FLAG_STEEPNESS = 256 | 512  # levels are blended over a part of the way only: mask of 0 (all of it) to 3 (half of it)
FLAG_STEEPNESS_SHIFT = 8

LEVEL = Struct(
    "cuttle_texture_level",
    32,
    (
        Field("base", "u64", 1, "device address of texel (0, 0, 0)"),
        Field("slice_bytes", "u64", 1, "distance of two depth slices, or of two layers or faces"),
        Field("pitch_bytes", "u32", 1, "distance of two rows"),
        Field("width", "u32", 1, "in texels"),
        Field("height", "u32", 1, "in texels; 1 for one-dimensional ones"),
        Field("depth", "u32", 1, "slices of a 3D one, layers or faces of an array of images, else 1"),
    ),
    "a level of a texture; the first one's numbers stand in the descriptor as well",
)

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
        Field("border", "u32", 4, "border colour, each channel with the bits that a texel would have"),
        Field("data_type", "u32", 1, "what txq.channel_data_type answers"),
        Field("levels", "u32", 1, "mipmap levels"),
        Field("samples", "u32"),
        Field("level_bias", "i32", 1, "in 1/256 of a level, as the next two"),
        Field("level_table", "u64", 1, "device address of a cuttle_texture_level for each level"),
        Field("least_level", "i32"),
        Field("most_level", "i32"),
        Field("sink", "u32", 4, "stores of lanes outside the surface land here"),
        Field("asked_height", "u32", 1, "what txq.height answers: layers of a row with layers, 0 of linear memory"),
        Field("asked_depth", "u32", 1, "what txq.depth answers: slices, layers of images or cubes, else 0"),
    ),
    "one per texture or surface object",
)

# An access as the service `texture` gets it: bits of its form, then columns of 32-bit words, one word for each lane.
FORM_DIMENSIONS = 3  # mask: 1 to 3; 3 for cube maps, whose coordinates come divided by the largest
FORM_LAYERED = 4
FORM_CUBE = 8
FORM_INTEGER = 16  # coordinates are texel numbers
FORM_LEVEL = 32  # a level (of the type of the coordinates) follows the coordinates
FORM_GRADIENTS = 64  # two gradients follow the coordinates
FORM_OFFSETS = 128  # offsets follow, a byte for each axis in one word
FORM_GATHER = 256  # one channel of four texels
FORM_CHANNEL_SHIFT = 9  # the channel gathered, two bits
FORM_HALF = 2048  # results are converted to f16, each in a word of its own


def _offsets(struct: Struct) -> dict[str, int]:
    sizes = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8}
    at = 0
    result: dict[str, int] = {}
    for field in struct.fields:
        result[field.name] = at
        at += sizes[field.type] * field.count
    return result


TEXTURE_OFFSETS = _offsets(TEXTURE)
LEVEL_OFFSETS = _offsets(LEVEL)
