"""The profiler's functions, as an H200's driver answers them."""

from __future__ import annotations

import pytest

from tests.client.driver import Driver

NOT_SUPPORTED = 801

pytestmark = pytest.mark.device


def test_nothing_is_profiled(driver: Driver) -> None:
    """PyCUDA links to `cuProfilerInitialize`."""
    assert driver.result("cuProfilerInitialize", b"", b"", 0) == NOT_SUPPORTED
    driver.cuProfilerStart()
    driver.cuProfilerStop()
