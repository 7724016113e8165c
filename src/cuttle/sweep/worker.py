"""The program that runs sweep items on a device: `python -m cuttle.sweep.worker FOLDER`, under `cuttle run`.

Reads one JSON line per batch from stdin (`{"domain": ..., "names": [...]}`) and writes JSON lines to stdout: first
`{"device": name}`, then for each batch any number of `{"progress": share}` and one `{"verdicts": [...]}`. A form that ends
the device for good ends this process; whoever reads starts another. It is a program of the driver API like any other: on a
machine with an NVIDIA GPU it runs there as well.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from cuttle.errors import CuttleError
from cuttle.sweep.device_runs import Runs
from cuttle.sweep.driver import DriverFailure


def main(arguments: list[str]) -> int:
    # Lines are for the reader alone: whatever else is printed goes to stderr.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    try:
        runs = Runs(Path(arguments[0]))
        say(device=runs.driver.name)
        for line in sys.stdin:
            batch = json.loads(line)
            runs.prepare(batch["domain"])
            say(progress=0.0)
            verdicts = runs.run(batch["domain"], batch["names"], lambda share: say(progress=share))
            say(verdicts=[dataclasses.asdict(verdict) for verdict in verdicts])
    except CuttleError as error:
        say(error=[error.code, error.message])
        return 1
    except (DriverFailure, OSError) as error:
        say(error=["SWP-0105", str(error)])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
