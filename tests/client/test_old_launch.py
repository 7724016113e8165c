"""Launches as before CUDA 4: shape, shared memory and parameters are set on the function. Answers as seen on an H200."""

from __future__ import annotations

import ctypes
import struct

import pytest

from tests.client.driver import Driver

pytestmark = pytest.mark.device

INVALID_VALUE, INVALID_HANDLE = 1, 400
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 a, .param .f32 b)
{
  .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [a]; ld.param.b32 %r1, [b];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r2, %r3, %r4, %r2;
  mov.u32 %r3, %tid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r2, %r4, %r3;
  mov.u32 %r5, %dynamic_smem_size; add.u32 %r0, %r0, %r5; add.u32 %r0, %r0, %r2;
  mul.wide.u32 %d1, %r2, 8; add.u64 %d0, %d0, %d1;
  st.global.v2.u32 [%d0], {%r0, %r1};
  ret;
}
"""


def test_parameters_stay_until_they_are_set_again(driver: Driver) -> None:
    module = driver.get("cuModuleLoadData", ctypes.c_void_p, PTX)
    function = ctypes.c_void_p(driver.get("cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(module), b"k"))
    out = driver.get("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(8 * 64))
    driver.cuFuncSetBlockShape(function, 8, 1, 1)
    driver.cuFuncSetSharedSize(function, 256)
    address = ctypes.c_uint64(out)
    driver.cuParamSetv(function, 0, ctypes.byref(address), 8)
    driver.cuParamSeti(function, 8, 1000)
    driver.library.cuParamSetf.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_float]
    driver.cuParamSetf(function, 12, 1.5)
    driver.cuParamSetSize(function, 16)
    one_and_a_half = struct.unpack("<I", struct.pack("<f", 1.5))[0]

    def results(count: int) -> list[tuple[int, int]]:
        host = ctypes.create_string_buffer(8 * 64)
        driver.cuMemcpyDtoH_v2(host, address, ctypes.c_size_t(8 * 64))
        driver.cuMemsetD8_v2(address, 0, ctypes.c_size_t(8 * 64))
        found = list(struct.iter_unpack("<II", host.raw))
        assert not any(sum(pair) for pair in found[count:])
        return found[:count]

    driver.cuMemsetD8_v2(address, 0, ctypes.c_size_t(8 * 64))
    driver.cuLaunchGrid(function, 2, 3)
    assert results(48) == [(1256 + index, one_and_a_half) for index in range(48)]
    driver.cuParamSeti(function, 8, 7)
    driver.cuLaunch(function)
    assert results(8) == [(263 + index, one_and_a_half) for index in range(8)]
    driver.cuLaunchGridAsync(function, 1, 2, None)
    assert results(16) == [(263 + index, one_and_a_half) for index in range(16)]


def test_a_function_begins_with_blocks_of_one_thread(driver: Driver) -> None:
    module = driver.get("cuModuleLoadData", ctypes.c_void_p, PTX)
    function = ctypes.c_void_p(driver.get("cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(module), b"k"))
    address = ctypes.c_uint64(driver.get("cuMemAlloc_v2", ctypes.c_uint64, ctypes.c_size_t(64)))
    driver.cuMemsetD8_v2(address, 0, ctypes.c_size_t(64))
    driver.cuParamSetv(function, 0, ctypes.byref(address), 8)
    driver.cuParamSetSize(function, 4097)
    driver.cuParamSeti(function, 4093, 0)
    driver.cuLaunchGrid(function, 2, 1)
    host = ctypes.create_string_buffer(64)
    driver.cuMemcpyDtoH_v2(host, address, ctypes.c_size_t(64))
    assert struct.unpack("<16I", host.raw) == (0, 0, 1, 0, *[0] * 12)


def test_wrong_settings_are_refused(driver: Driver) -> None:
    module = driver.get("cuModuleLoadData", ctypes.c_void_p, PTX)
    function = ctypes.c_void_p(driver.get("cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(module), b"k"))
    for name, *arguments in (
        ("cuFuncSetBlockShape", 0, 1, 1), ("cuFuncSetBlockShape", 1, -1, 1), ("cuFuncSetBlockShape", 2048, 1, 1), ("cuFuncSetBlockShape", 64, 32, 1),
        ("cuParamSetSize", 32768), ("cuParamSeti", 32761, 0),
        ("cuParamSeti", -4, 0), ("cuParamSetv", 0, None, 4), ("cuParamSetv", 2147483647, b"1234", 4), ("cuLaunchGrid", 0, 1),
        ("cuLaunchGridAsync", 1, -1, None),
    ):  # fmt: skip
        assert driver.result(name, function, *arguments) == INVALID_VALUE, name
        assert driver.result(name, ctypes.c_void_p(module), *arguments) == INVALID_HANDLE, name
