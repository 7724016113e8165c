"""What the library exports, and how its functions are found."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from cuttle.abi.cuda import FUNCTIONS, Function
from cuttle.abi.cuda_errors import CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_SUPPORTED, ERRORS
from tests.client.driver import Driver
from tools import generate_driver

SUCCESS, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT = 0, 1, 2
PER_THREAD = 2


def find(driver: Driver, name: str, version: int, flags: int = 0) -> tuple[int, int | None, int]:
    address, status = ctypes.c_void_p(1), ctypes.c_int(-1)
    result = driver.result(
        "cuGetProcAddress_v2",
        name.encode(),
        ctypes.byref(address),
        version,
        ctypes.c_uint64(flags),
        ctypes.byref(status),
    )
    return result, address.value, status.value


def test_rows_and_sources_agree() -> None:
    assert generate_driver.check_routes() == []


def test_exported_names(library: Path) -> None:
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        exported = {
            symbol.name
            for symbol in symbols.iter_symbols()
            if symbol.name and symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
        }
        dynamic = elf.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == ["libcuda.so.1"]
    rows = {name for row in FUNCTIONS for name in (row.name, row.name + row.per_thread)}
    assert rows - exported == set()
    assert {name for name in exported - rows if name not in {"_init", "_fini"}} == set()


@pytest.mark.parametrize("row", [row for row in FUNCTIONS if row.route != "todo"], ids=lambda row: row.name)
def test_each_function_is_found_at_its_version(unconnected: Driver, row: Function) -> None:
    assert find(unconnected, row.base, row.version) == (0, unconnected.address_of(row.name), SUCCESS)
    if row.per_thread:
        expected = unconnected.address_of(row.name + row.per_thread)
        assert find(unconnected, row.base, row.per_thread_version, PER_THREAD) == (0, expected, SUCCESS)


def test_newest_prototype_that_is_not_newer(unconnected: Driver) -> None:
    old, new = unconnected.address_of("cuCtxGetDevice"), unconnected.address_of("cuCtxGetDevice_v2")
    assert find(unconnected, "cuCtxGetDevice", 12090)[1] == old
    assert find(unconnected, "cuCtxGetDevice", 13000)[1] == new
    assert find(unconnected, "cuCtxGetDevice", 99000)[1] == new
    assert find(unconnected, "cuDevicePrimaryCtxRelease", 7000)[1] == unconnected.address_of(
        "cuDevicePrimaryCtxRelease"
    )


def test_functions_without_a_per_thread_variant_are_found_anyway(unconnected: Driver) -> None:
    assert find(unconnected, "cuInit", 2000, PER_THREAD) == (0, unconnected.address_of("cuInit"), SUCCESS)


def test_not_found(unconnected: Driver) -> None:
    assert find(unconnected, "cuNoSuchFunction", 13000) == (CUDA_ERROR_NOT_FOUND, None, SYMBOL_NOT_FOUND)
    assert find(unconnected, "", 0) == (CUDA_ERROR_NOT_FOUND, None, SYMBOL_NOT_FOUND)
    assert find(unconnected, "cuLaunchKernel", 2000) == (CUDA_ERROR_NOT_FOUND, None, VERSION_NOT_SUFFICIENT)
    todo = [row for row in FUNCTIONS if row.route == "todo"]
    newest = max(row.version for row in FUNCTIONS)
    for row in todo:
        if not any(other.base == row.base and other.version > row.version for other in FUNCTIONS):
            # Also when an older prototype is there: it must not stand in for the newer one.
            assert find(unconnected, row.base, newest) == (CUDA_ERROR_NOT_FOUND, None, SYMBOL_NOT_FOUND), row.name


def test_bad_arguments(unconnected: Driver) -> None:
    address = ctypes.c_void_p()
    assert unconnected.result("cuGetProcAddress_v2", None, ctypes.byref(address), 13000, ctypes.c_uint64(0), None) == 1
    assert find(unconnected, "cuInit", 2000, 4)[0] == CUDA_ERROR_INVALID_VALUE


def test_unsupported_functions_say_so(unconnected: Driver) -> None:
    for row in FUNCTIONS:
        if row.route == "todo":
            assert unconnected.result(row.name) == CUDA_ERROR_NOT_SUPPORTED, row.name


def test_error_names(unconnected: Driver) -> None:
    for number, name, text in ERRORS:
        found = ctypes.c_char_p()
        assert unconnected.result("cuGetErrorName", number, ctypes.byref(found)) == 0
        assert found.value == name.encode()
        assert unconnected.result("cuGetErrorString", number, ctypes.byref(found)) == 0
        assert found.value == text.encode()
    assert unconnected.result("cuGetErrorName", 12345, ctypes.byref(ctypes.c_char_p())) == CUDA_ERROR_INVALID_VALUE


def test_driver_version(unconnected: Driver) -> None:
    assert unconnected.get("cuDriverGetVersion", ctypes.c_int) == 13000


@pytest.mark.parametrize(
    ("knob", "version"),
    [("", 13000), ("13.4", 13040), ("12.9", 12090), ("14", 14000), ("new", 13000), ("13.4.1", 13000)],
)
def test_the_driver_version_can_be_chosen(
    unconnected: Driver, monkeypatch: pytest.MonkeyPatch, knob: str, version: int
) -> None:
    monkeypatch.setenv("CUTTLE_DRIVER_VERSION", knob)
    assert unconnected.get("cuDriverGetVersion", ctypes.c_int) == version
