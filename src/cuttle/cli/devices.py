"""What programs under `cuttle run` see: the probe's report, for `info`, `doctor` and the `nvidia-smi` stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cuttle.abi.knobs import DEVICE, KnobError
from cuttle.cli import environment, probe
from cuttle.errors import CuttleError, said_error


def client_environment(**knobs: str) -> dict[str, str]:
    """The environment of a program under `cuttle run`."""
    values = {**os.environ, **knobs}
    return {**values, **environment.client_variables(values)}


def require_device_name(name: str, *more: str) -> None:
    """Raises CLI-0104 for a name that is neither a device of `cuttle run` nor one of `more`."""
    try:
        if name not in more:
            DEVICE.choice({DEVICE.name: name})
    except KnobError:
        hint = f"Devices: {', '.join((*DEVICE.choices, *more))}."
        raise CuttleError("CLI-0104", f"there is no device {name}", hint=hint) from None


def require_client() -> None:
    """Refuse on other platforms; build the client library of a source checkout."""
    problem = environment.platform_problem()
    if problem:
        raise CuttleError("CLI-0201", problem)
    if not Path(environment.CLIENT_LIBRARY).exists():
        sys.stderr.write("cuttle: building the client library (once)\n")
        done = subprocess.run(
            [sys.executable, "-m", "cuttle.client.build"], capture_output=True, text=True, check=False
        )
        if done.returncode or not Path(environment.CLIENT_LIBRARY).exists():
            raise CuttleError("CLI-0202", "the client library is missing and could not be built")


def devices(**knobs: str) -> dict[str, Any]:
    """The probe's report; raises the device's own error if none answered, CLI-0401 where it said none."""
    require_client()
    report = probe.ask(environment=client_environment(**knobs))
    if report["error"]:
        said = said_error(report["talk"])
        raise said or CuttleError("CLI-0401", f"the device did not start: {report['error']}")
    return report
