"""cuGetExportTable: the tables that are served have the known shape, all others are refused."""

from __future__ import annotations

import ctypes
import uuid

import pytest

from cuttle.abi.cuda_errors import CUDA_ERROR_INVALID_VALUE
from tests.client.driver import Driver

WORD = ctypes.sizeof(ctypes.c_void_p)
# Name → id (raw byte order), slots, slots that hold functions; the storage table has no size in front.
SIZED = {
    "runtime interface": ("6BD5FB6C-5BF4-E74A-8987-D93912FD9DF9", 13, (1, 2, 6, 7, 8, 12)),
    "tool storage": ("42D85A81-23F6-CB47-8298-F6E78A3AECDC", 4, ()),
    "hooks": ("A094798C-2E74-2E74-93F2-0800200C0A66", 7, (2, 6)),
    "integrity": ("D4082055-BDE6-704B-8D34-BA123C66E1F2", 3, (1,)),
    "context checks": ("263E8860-7CD2-6143-92F6-BBD5006DFA7E", 4, (2, 3)),
    "newer": ("21318C60-9714-3248-8CA6-41FF7324C8F2", 16, tuple(range(1, 16))),
}
STORAGE = "C693336E-1121-DF11-A8C3-68F355D89593"
REFUSED = (
    "DA9151D3-3AE6-CC41-A5C0-4F26D533E328",
    "F8CFF951-2146-8B4E-B9E2-FB469E7C0DD9",
    "0CA50B8C-1004-929A-89A7-D0DF10E77286",
)


def table(driver: Driver, name: str) -> ctypes.Array[ctypes.c_uint64]:
    address = ctypes.c_void_p()
    driver.cuGetExportTable(ctypes.byref(address), uuid.UUID(name).bytes)
    assert address.value is not None
    return (ctypes.c_uint64 * 16).from_address(address.value)


@pytest.mark.parametrize(("name", "slots", "functions"), SIZED.values(), ids=list(SIZED))
def test_sized_tables(unconnected: Driver, name: str, slots: int, functions: tuple[int, ...]) -> None:
    found = table(unconnected, name)
    assert found[0] == slots * WORD
    assert tuple(i for i in range(1, slots) if found[i]) == functions
    assert ctypes.addressof(table(unconnected, name)) == ctypes.addressof(found)


def test_storage_table_has_no_size(unconnected: Driver) -> None:
    found = table(unconnected, STORAGE)
    assert all(found[i] > 0x10000 for i in range(3))
    assert found[3] == 0


@pytest.mark.parametrize("name", REFUSED)
def test_other_tables_are_refused(unconnected: Driver, name: str) -> None:
    address = ctypes.c_void_p(1)
    assert (
        unconnected.result("cuGetExportTable", ctypes.byref(address), uuid.UUID(name).bytes) == CUDA_ERROR_INVALID_VALUE
    )
    assert address.value is None


def test_hook_buffers_are_zero(unconnected: Driver) -> None:
    found = table(unconnected, SIZED["hooks"][0])
    for slot, count in ((2, 1024), (6, 14)):
        buffer, size = ctypes.c_void_p(), ctypes.c_size_t()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(found[slot])(
            ctypes.addressof(buffer), ctypes.addressof(size)
        )
        assert size.value == count
        assert buffer.value is not None
        assert not any((ctypes.c_uint32 * count).from_address(buffer.value))
