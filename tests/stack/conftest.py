"""A release server for each test that asks for one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cli.conftest import cuttle as cuttle
from tests.cli.conftest import script as script
from tests.stack.release_server import ReleaseServer, release_zip


@pytest.fixture
def server() -> Iterator[ReleaseServer]:
    pytest.importorskip("httpx2", reason="extra `stack` is not installed")
    pytest.importorskip("stamina", reason="extra `stack` is not installed")
    served = ReleaseServer(
        release_zip(
            {"zluda/nvcuda.dll": os.urandom(400_000), "zluda/nvml.dll": b"nvml", "zluda/libcuda.so.1": b"linux"}
        )
    )
    yield served
    served.close()


@pytest.fixture
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of folders go into one of the test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
