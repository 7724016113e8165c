"""`python -m cuttle.stack.probes NAME`: runs one capability test on the driver library at hand, and prints its result as a JSON line.

`--front-end` is `own` (kernels of ours), `torch` or `cupy`. Tests of the group `driver` call the driver in any case.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

from cuttle.stack.probes.checking import Failed, NotApplicable, Refused
from cuttle.stack.probes.rows import PROBES
from cuttle.sweep.driver import DriverFailure

MARK = "CUTTLE_PROBE:"
# CUresults that say "not offered": NOT_FOUND, NOT_SUPPORTED, INVALID_PTX, UNSUPPORTED_PTX_VERSION, NO_BINARY_FOR_GPU.
REFUSALS = (500, 801, 218, 222, 209)


def outcome(name: str, front_end: str) -> tuple[str, str]:
    """(`pass`, `fail`, `refused` or `not applicable`; the reason)."""
    row = next(row for row in PROBES if row.name == name)
    room = row.group if front_end == "own" or row.group == "driver" else f"with_{front_end}"
    module = import_module(f"cuttle.stack.probes.{room}")
    test = getattr(module, f"probe_{name}", None)
    if test is None:
        return "not applicable", f"{front_end} has no such function"
    try:
        test()
    except Failed as problem:
        return "fail", str(problem)
    except NotApplicable as problem:
        return "not applicable", str(problem)
    except Refused as problem:
        return "refused", str(problem)
    except DriverFailure as problem:
        return "refused" if problem.result in REFUSALS else "fail", str(problem)
    except AttributeError as problem:
        # ctypes: the library lacks a function.
        return "refused", str(problem)
    return "pass", ""


def main() -> int:
    name, front_end = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "own"
    try:
        result, reason = outcome(name, front_end)
    except Exception as problem:  # whatever a front end raises is a result, and its text the reason
        result, reason = "fail", f"{type(problem).__name__}: {problem}"
    sys.stdout.write(MARK + json.dumps({"result": result, "reason": reason[:500]}) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
