"""Kernels that cannot be translated: the launch itself says so, and nothing else suffers."""

from __future__ import annotations

import ctypes

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64, size_t, void_p = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
PTX = b"""
.version 8.6
.target sm_100a
.address_size 64
.func helper()
{
    tcgen05.wait::ld.sync.aligned;
    ret;
}
.visible .entry direct()
{
    wgmma.fence.sync.aligned;
    ret;
}
.visible .entry by_call()
{
    call helper, ();
    ret;
}
.visible .entry stub() { trap; }
.visible .entry good(.param .u64 out)
{
    .reg .b64 %a;
    ld.param.u64 %a, [out];
    st.global.u32 [%a], 77;
    ret;
}
\0"""


@pytest.mark.parametrize("name", ["direct", "by_call", "stub"])
def test_the_launch_says_it(driver: Driver, name: str) -> None:
    module = void_p(driver.get("cuModuleLoadData", void_p, PTX))
    bad = void_p(driver.get("cuModuleGetFunction", void_p, module, name.encode()))
    good = void_p(driver.get("cuModuleGetFunction", void_p, module, b"good"))
    # Only launching it fails: programs look at functions that they never run.
    assert driver.get("cuFuncGetAttribute", ctypes.c_int, 0, bad) >= 32
    for _ in range(2):
        result = driver.result("cuLaunchKernel", bad, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        assert result == errors.CUDA_ERROR_INVALID_PTX
        assert driver.result("cuCtxSynchronize") == 0
    assert driver.result("cuFuncLoad", bad) == errors.CUDA_ERROR_INVALID_PTX
    word = driver.get("cuMemAlloc_v2", u64, size_t(4))
    place = u64(word)
    array = (void_p * 1)(ctypes.cast(ctypes.byref(place), void_p))
    driver.cuLaunchKernel(good, 1, 1, 1, 1, 1, 1, 0, None, array, None)
    found = (ctypes.c_uint32 * 1)()
    driver.cuMemcpyDtoH_v2(found, u64(word), size_t(4))
    assert found[0] == 77
    driver.cuMemFree_v2(u64(word))
    driver.cuModuleUnload(module)
