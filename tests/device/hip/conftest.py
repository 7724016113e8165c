"""Stand-ins for AMD's libraries, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.device.hip import builds


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """HIP major → a strict stand-in for its library."""
    folder = tmp_path_factory.mktemp("hip")
    return {major: builds.fake_hip(folder / str(major), major) for major in (5, 6, 7)}
