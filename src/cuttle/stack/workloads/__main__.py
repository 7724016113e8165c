"""`python -m cuttle.stack.workloads NAME`: runs a workload and prints one JSON line per iteration."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import islice

from cuttle.stack.workloads import NAMES, gemm, nbody, ppo
from cuttle.sweep.driver import DriverFailure

WORKLOADS = dict(zip(NAMES, (gemm.iterations, nbody.iterations, ppo.iterations), strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 1 if the device failed, with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m cuttle.stack.workloads", description=__doc__)
    parser.add_argument("workload", choices=NAMES)
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--library", default="", help="driver library (default: the platform's)")
    given = parser.parse_args(arguments)
    try:
        results = WORKLOADS[given.workload](given.size, given.seed, given.library)
        for number, metrics in enumerate(islice(results, given.iterations)):
            line = {"workload": given.workload, "size": given.size, "iteration": number, "metrics": metrics}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    except (DriverFailure, OSError) as failure:
        sys.stderr.write(f"{given.workload}: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
