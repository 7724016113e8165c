"""Whether a configuration has a device, asked before anything long: `python -m cuttle.stack.ready` names the device, or says why there is none."""

from __future__ import annotations

import subprocess
import sys

from cuttle.errors import StackError, said_error
from cuttle.stack.configurations import Configuration
from cuttle.stack.device_program import default_library
from cuttle.sweep.driver import Driver, DriverFailure

PATIENCE_SECONDS = 120.0

HINTS = {
    "cuttle": "`cuttle doctor` looks for the reason.",
    "zluda": "`cuttle stack doctor --engine zluda` looks for the reason.",
    "system": "This machine has no driver of its own. Compare others: --a cuttle --b cuttle,CUTTLE_FAST_MATH=1",
}


def require_device(configuration: Configuration, seconds: float = PATIENCE_SECONDS) -> str:
    """Name of the configuration's device. Raises STK-1107, with what the engine says itself."""
    command = configuration.command([sys.executable, "-m", "cuttle.stack.ready"])
    try:
        done = subprocess.run(
            command, env=configuration.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StackError("STK-1107", f"{configuration.name}: no device within {seconds:g} s") from None
    if done.returncode == 0:
        return done.stdout.decode(errors="replace").strip()
    errors = done.stderr.decode(errors="replace")
    said = said_error(errors)
    if said is not None:
        raise StackError("STK-1107", f"{configuration.name}: {said.message} ({said.code})", hint=said.hint)
    last = (errors.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    raise StackError("STK-1107", f"{configuration.name}: {last}", hint=HINTS[configuration.engine])


def main() -> int:
    try:
        name = Driver(default_library()).name
    except (DriverFailure, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
