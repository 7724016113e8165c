"""Build hook: compiles the client library and the executor, so that whoever installs the wheel needs no compiler.

The wheel serves every Python 3: the libraries are no extension modules. Built with the ziglang package it also serves every
glibc from 2.17 on; built with the machine's own compiler only this machine's and newer ones.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def build_module(root: Path) -> ModuleType:
    """`cuttle.client.build`, loaded by its path: the package is not installed yet."""
    spec = importlib.util.spec_from_file_location("cuttle_client_build", root / "src/cuttle/client/build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_data["pure_python"] = False
        if sys.platform != "linux" or os.uname().machine != "x86_64":
            # Commands that only look (`scan`, `compile`) work everywhere; `run` says that it does not.
            build_data["pure_python"] = True
            return
        builder = build_module(Path(self.root))
        switch = os.environ.get("CUTTLE_HANDSHAKE")
        if switch is not None:
            builder.FLAGS = (*builder.FLAGS, f"-DCUTTLE_HANDSHAKE={int(switch)}")
        builder.build(force=switch is not None or version == "standard")
        portable = "-target" in builder.compiler()
        build_data["tag"] = f"py3-none-{'manylinux_2_17_x86_64' if portable else 'linux_x86_64'}"
