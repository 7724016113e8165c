"""What is compared: an engine, perhaps a device of it, and variables. `cuttle:cpu,CUTTLE_FAST_MATH=1`."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from cuttle.abi import knobs
from cuttle.errors import StackError

ENGINES = ("cuttle", "zluda", "system")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a program is started. `system` is whatever driver library the machine has."""

    name: str
    engine: str
    device: str = ""
    variables: tuple[tuple[str, str], ...] = ()

    def command(self, program: list[str]) -> list[str]:
        """The command line that starts `program` on this engine."""
        cuttle = [sys.executable, "-m", "cuttle"]
        if self.engine == "cuttle":
            device = ["--device", self.device] if self.device else []
            return [*cuttle, "run", *device, "--", *program]
        if self.engine == "zluda":
            return [*cuttle, "stack", "run", "--engine", "zluda", "--", *program]
        return program

    def environment(self) -> dict[str, str]:
        """This process's variables and those of the configuration."""
        return {**os.environ, **dict(self.variables)}


def require_device_name(name: str) -> None:
    """Raises StackError STK-1101 for a name that is no device of the engine cuttle."""
    try:
        knobs.DEVICE.choice({knobs.DEVICE.name: name})
    except knobs.KnobError:
        raise StackError(
            "STK-1101", f"there is no device {name}", hint=f"Devices: {', '.join(knobs.DEVICE.choices)}."
        ) from None


def parse_configuration(text: str) -> Configuration:
    """`ENGINE[:DEVICE][,NAME=VALUE]...`; raises STK-1101."""
    head, *settings = text.split(",")
    engine, colon, device = head.strip().partition(":")
    if engine not in ENGINES:
        raise StackError("STK-1101", f"there is no engine {engine!r} (engines: {', '.join(ENGINES)})")
    if colon and (engine != "cuttle" or not device):
        raise StackError("STK-1101", f"{head}: a device can be named for the engine cuttle only: cuttle:cpu")
    if device:
        require_device_name(device)
    variables = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not _VARIABLE.fullmatch(name.strip()):
            raise StackError("STK-1101", f"{setting!r} is no NAME=VALUE")
        variables.append((name.strip(), value))
    return Configuration(text, engine, device, tuple(variables))
