"""Builds the libraries once; tests that need the device share one connection per worker."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuttle.client import build
from tests.client.driver import Driver


@pytest.fixture(scope="session")
def library() -> Path:
    """The client library's path, built if it is out of date."""
    build.build()
    return build.LIB / "libcuda.so.1"


@pytest.fixture(scope="session")
def unconnected(library: Path) -> Driver:
    """The library for calls that need no device."""
    return Driver(library)


@pytest.fixture(scope="session")
def driver(unconnected: Driver) -> Iterator[Driver]:
    """Connected, with the primary context current."""
    os.environ.setdefault("CUTTLE_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(build.CLIENT.parent.parent), os.environ.get("PYTHONPATH")])
    )
    unconnected.cuInit(0)
    context = unconnected.get("cuDevicePrimaryCtxRetain", ctypes.c_void_p, 0)
    unconnected.cuCtxSetCurrent(ctypes.c_void_p(context))
    yield unconnected
    unconnected.cuDevicePrimaryCtxRelease_v2(0)
