"""Array layouts and texture descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack, unpack_from

import pytest

from cuttle.abi import texture as rows
from cuttle.abi.requests import TEXTURE_REQUEST
from cuttle.runtime import results
from cuttle.runtime.results import CudaError
from cuttle.runtime.textures import LINEAR, Request, TextureStore, describe
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


def read(descriptor: bytes, name: str, count: int = 1) -> tuple[int, ...]:
    letter = "Q" if name in ("base", "slice_bytes") else "I"
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
    assert read(made, "flags")[0] == rows.FLAG_NORMALISED_COORDINATES
    assert read(made, "address_modes", 3) == (3, 0, 2)
    assert read(made, "border", 4) == (5, 0, 0, 0xFFFFFFFE)
    assert read(made, "kind")[0] == rows.KIND_SIGNED


def test_linear_memory_reads_zero_outside() -> None:
    made = describe(
        request(resource_kind=LINEAR, format=0x20, channels=2, width=77, address=0x1000, filter_mode=1), False
    )
    assert read(made, "base")[0] == 0x1000 and read(made, "width")[0] == 77
    assert read(made, "address_modes", 3) == (3, 3, 3) and read(made, "border", 4) == (0, 0, 0, 0)
    assert read(made, "flags")[0] == 0


def test_views() -> None:
    made = describe(
        request(format=3, channels=1, address=0x1000, slice_pitch=64, array_flags=1, depth=8, has_view=1, view_format=22,
                view_first_layer=2, view_last_layer=4, view_width=16), False,
    )  # fmt: skip
    assert read(made, "base")[0] == 0x1000 + 128 and read(made, "depth")[0] == 3
    assert read(made, "kind")[0] == rows.KIND_FLOAT and read(made, "channels")[0] == 1


def test_srgb_decoding_is_refused() -> None:
    """Numbers that are not decoded would be wrong ones; where nothing is decoded the flag changes nothing."""
    fields = {
        "address": 4096,
        "width": 4,
        "row_pitch": 16,
        "channels": 4,
        "address_mode": [0, 0, 0],
        "border_color": [0] * 4,
    }
    with pytest.raises(CudaError) as refused:
        describe(request(format=1, flags=16, **fields), False)
    assert refused.value.result == results.NOT_SUPPORTED
    for flags, form in ((16, 0x20), (17, 1)):
        assert describe(request(format=form, flags=flags, **fields), False)
