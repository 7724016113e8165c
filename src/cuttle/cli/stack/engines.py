"""Engines that are in place, seen from the command line: Cuttle's own lies in this package, others below the root."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cuttle import __version__
from cuttle.cli import environment
from cuttle.errors import StackError
from cuttle.stack.engine import EngineInPlace, zluda_in_place
from cuttle.stack.install import this_platform
from cuttle.stack.journal import Root


def cuttle_in_place(variables: Mapping[str, str], build: bool = False) -> EngineInPlace:
    """Cuttle's own client library. `build`: make it first in a source checkout. Raises STK-0603."""
    platform = this_platform()
    folder = Path(environment.LIBRARY_FOLDER)
    if build and platform == "linux":
        from cuttle.cli.devices import require_client

        require_client()
    if platform == "windows":
        return EngineInPlace("cuttle", __version__, platform, folder, {"CUTTLE_PYTHON": sys.executable})
    own = environment.client_variables(dict(variables))
    return EngineInPlace("cuttle", __version__, platform, folder, own)


def engine_in_place(name: str | None, root: Root, variables: Mapping[str, str], build: bool = False) -> EngineInPlace:
    """The engine of this name; without one the engine that was installed last, else Cuttle's own. Raises STK-0405, STK-0603."""
    root.settle_leftovers()
    chosen = name or root.installed().engine or "cuttle"
    engine = cuttle_in_place(variables, build) if chosen == "cuttle" else zluda_in_place(root)
    if not engine.files():
        raise StackError("STK-0603", f"the engine {engine.name} has no libraries for {engine.platform}")
    return engine


def user_variables() -> dict[str, str]:
    """The environment as the user made it."""
    if os.name == "nt":
        return dict(os.environ)
    from cuttle.cli.launch import initial_environment

    return initial_environment()
