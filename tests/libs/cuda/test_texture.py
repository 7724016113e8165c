"""Array layouts and texture descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack, unpack_from

import pytest

from cuttle.abi import texture as rows
from cuttle.abi.requests import TEXTURE_REQUEST
from cuttle.runtime import results, textures
from cuttle.runtime.results import CudaError
from cuttle.runtime.textures import LINEAR, Level, Request, TextureStore, border_bits, level_steps
from tests.runtime.test_memory import Arena

BITS = {"u32": ("I", 4), "u64": ("Q", 8)}


def request(**values: int | list[int]) -> Request:
    data = b""
    for field in TEXTURE_REQUEST.fields:
        letter, size = BITS[field.type]
        data += bytes(-len(data) % size)
        value = values.pop(field.name, 0)
        items = value if isinstance(value, list) else [value] * field.count
        data += pack(f"<{field.count}{letter}", *items)
    assert not values
    return Request(data.ljust(TEXTURE_REQUEST.bytes, b"\0"))


def describe(asked: Request, is_surface: bool) -> bytes:
    """The descriptor of a texture with a single level."""
    level = Level(*(asked[name] for name in ("address", "width", "height", "depth", "row_pitch", "slice_pitch")))
    return textures.describe(asked, is_surface, [level], 0x4000)


def read(descriptor: bytes, name: str, count: int = 1) -> tuple[int, ...]:
    letter = "Q" if name in ("base", "slice_bytes", "level_table") else "I"
    return unpack_from(f"<{count}{letter}", descriptor, rows.TEXTURE_OFFSETS[name])


@pytest.fixture
def store() -> Iterator[TextureStore]:
    arena = Arena()
    yield TextureStore(arena.shared, arena.memory)
    arena.close()


def test_plain_array(store: TextureStore) -> None:
    _, memory, levels = store.create_array(100, 50, 0, 0x20, 4, 0, 1, 1)
    assert (levels[0].row_pitch, levels[0].slice_pitch) == (1600, 80000)
    assert memory.bytes >= 80000 and levels[0].address == memory.address


def test_levels_shrink_and_layers_do_not(store: TextureStore) -> None:
    _, _, levels = store.create_array(64, 32, 16, 1, 1, 0, 7, 1)
    assert [(one.width, one.height, one.depth) for one in levels] == [
        (64, 32, 16), (32, 16, 8), (16, 8, 4), (8, 4, 2), (4, 2, 1), (2, 1, 1), (1, 1, 1),
    ]  # fmt: skip
    _, _, layered = store.create_array(64, 0, 16, 1, 1, 1, 2, 1)
    assert [(one.width, one.height, one.depth) for one in layered] == [(64, 0, 16), (32, 0, 16)]


def test_unknown_formats_are_refused(store: TextureStore) -> None:
    with pytest.raises(CudaError) as refused:
        store.create_array(8, 8, 0, 0x91, 4, 0, 1, 1)
    assert refused.value.result == 801


def test_eight_bit_colours_are_normalised() -> None:
    made = describe(request(format=1, channels=4, width=8, flags=0, address_mode=[0, 1, 2], filter_mode=1), False)
    flags = read(made, "flags")[0]
    assert flags == rows.FLAG_NORMALISED_READ | rows.FLAG_LINEAR
    assert read(made, "address_modes", 3) == (1, 1, 1)  # wrap and mirror need normalised coordinates
    assert read(made, "component_bytes")[0] == 1 and read(made, "height")[0] == 1


def test_integers_stay_integers() -> None:
    border = [0x40A00000, 0, 0, 0xC0000000]
    made = describe(
        request(format=8, channels=1, flags=1 | 2, address_mode=[3, 0, 2], filter_mode=1, border_color=border), False
    )
    assert read(made, "flags")[0] == rows.FLAG_NORMALISED_COORDINATES | rows.FLAG_LINEAR  # integers are filtered, too
    assert read(made, "address_modes", 3) == (3, 0, 2)
    assert read(made, "border", 4) == (0, 0, 0, 0)  # the low bytes of the floats, as an H200 has it
    assert read(made, "kind")[0] == rows.KIND_SIGNED


def test_linear_memory_reads_zero_outside() -> None:
    made = describe(
        request(resource_kind=LINEAR, format=0x20, channels=2, width=77, address=0x1000, filter_mode=1), False
    )
    assert read(made, "base")[0] == 0x1000 and read(made, "width")[0] == 77
    assert read(made, "address_modes", 3) == (3, 3, 3) and read(made, "border", 4) == (0, 0, 0, 0)
    assert read(made, "flags")[0] == rows.FLAG_BUFFER


def made(store: TextureStore, **values: int | list[int]) -> tuple[bytes, list[bytes]]:
    """The descriptor of a new texture, and its levels."""
    handle = store.create(request(**values).data, False, 1)
    descriptor = store._shared.read(handle, rows.TEXTURE_BYTES)
    count, table = read(descriptor, "levels")[0], read(descriptor, "level_table")[0]
    return descriptor, [store._shared.read(table + rows.LEVEL.bytes * i, rows.LEVEL.bytes) for i in range(count)]


def test_view_of_layers(store: TextureStore) -> None:
    descriptor, levels = made(
        store, format=3, channels=1, address=0x1000, slice_pitch=64, array_flags=1, width=16, depth=8, has_view=1,
        view_format=22, view_first_layer=2, view_last_layer=4, view_width=16, view_depth=8,
    )  # fmt: skip
    assert read(descriptor, "base")[0] == 0x1000 + 128 and read(descriptor, "depth")[0] == 3
    assert read(descriptor, "kind")[0] == rows.KIND_FLOAT and read(descriptor, "channels")[0] == 1
    assert unpack_from("<QQ4I", levels[0]) == (0x1000 + 128, 64, 0, 16, 1, 3)


def test_view_of_levels(store: TextureStore) -> None:
    number, _, all_levels = store.create_array(64, 32, 0, 0x20, 1, 0, 7, 1)
    fields = {"resource_kind": 1, "array": number, "format": 0x20, "channels": 1, "width": 64, "height": 32}
    _, levels = made(store, **fields)
    assert [unpack_from("<Q", level)[0] for level in levels] == [level.address for level in all_levels]
    view = {
        "has_view": 1,
        "view_format": 22,
        "view_width": 64,
        "view_height": 32,
        "view_first_level": 2,
        "view_last_level": 3,
    }
    descriptor, levels = made(store, **fields, **view)
    assert [unpack_from("<4I", level, 16)[1:3] for level in levels] == [(16, 8), (8, 4)]
    assert read(descriptor, "width")[0] == 16
    for wrong in ({"view_width": 16}, {"view_format": 1}, {"view_format": 0}, {"view_first_level": 5}):
        with pytest.raises(CudaError) as refused:
            made(store, **{**fields, **view, **wrong})
        assert refused.value.result == results.INVALID_VALUE
    with pytest.raises(CudaError) as refused:
        made(store, **{**fields, **view, "view_format": 0x19})
    assert refused.value.result == results.NOT_SUPPORTED


def test_srgb_is_for_unsigned_bytes() -> None:
    fields = {"address": 4096, "width": 4, "row_pitch": 16, "channels": 4}
    for flags, form, decoded in ((16, 1, True), (17, 1, False), (16, 0x20, False), (16, 8, False), (16, 2, False)):
        descriptor = describe(request(format=form, flags=flags, **fields), False)
        assert bool(read(descriptor, "flags")[0] & rows.FLAG_SRGB) == decoded


def test_levels_and_borders_in_their_bits() -> None:
    def bits(value: float) -> int:
        return unpack_from("<I", pack("<f", value))[0]  # type: ignore[no-any-return]

    assert [level_steps(bits(value), -15, 15) for value in (0.3, -0.7, 99.0, float("nan"))] == [76, -179, 3840, 3840]
    read_as_number = rows.FLAG_NORMALISED_READ
    assert [border_bits(bits(value), 1, read_as_number, True) for value in (0.3, 0.9, 2.0, -1.0)] == [76, 229, 255, 0]
    assert border_bits(bits(-0.7), 8, read_as_number, True) == 0xFFFFFFA7
    assert border_bits(bits(0.5), 1, read_as_number | rows.FLAG_SRGB, True) == 188
    assert border_bits(bits(0.3), 0x10, 0, True) == 0x34CC  # cut, not rounded
    assert border_bits(bits(3.7), 9, 0, True) == 0xFFFFCCCD


def test_extents_that_kernels_ask_for() -> None:
    """As an H200 answers txq.height and txq.depth."""
    shapes = {  # resource kind, flags of the array, height, depth: what is answered
        (0, 0, 0, 0): (1, 0), (0, 0, 7, 0): (7, 0), (0, 0, 7, 5): (7, 5), (0, 1, 0, 5): (5, 0), (0, 1, 7, 5): (7, 5),
        (0, 4, 8, 6): (8, 0), (0, 5, 8, 18): (8, 3), (2, 0, 0, 0): (0, 0), (3, 0, 7, 0): (7, 0),
    }  # fmt: skip
    for (kind, flags, height, depth), answer in shapes.items():
        asked = request(
            resource_kind=kind, array_flags=flags, width=8, height=height, depth=depth, format=0x20, channels=1
        )
        descriptor = describe(asked, False)
        assert (read(descriptor, "asked_height")[0], read(descriptor, "asked_depth")[0]) == answer
