"""Records what an NVIDIA GPU answers for misaligned accesses: `tests/alignment/h200.json`.

    python3 tools/record_alignment.py --out FILE    # needs libcuda, no other packages; some minutes

Cases and kernels are those of `tests/alignment/cases.py`. A wrong access costs its process the device for good (even after
`cuDevicePrimaryCtxReset`), so each case has a process of its own and ends with the first error. For a kernel that the driver
does not take, the answer is what it said.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from multiprocessing import TimeoutError as NoReply
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuttle.sweep.driver import Driver, DriverFailure  # noqa: E402  (see the path)
from tests.alignment.cases import OFFSETS, Case, answer, cases  # noqa: E402


def device_name() -> str:
    return Driver().name


def ask(case: Case) -> tuple[str, list[int] | str]:
    results: list[int] = []
    try:
        driver = Driver()
        for offset in OFFSETS:
            results.append(answer(driver, case, offset))
            if results[-1]:
                break
    except DriverFailure as failure:
        return case.name, str(failure)
    return case.name, results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--only", default="", help="regular expression on names of cases")
    parser.add_argument("--seconds", type=float, default=300, help="what was not asked by then is left out")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    found: dict[str, list[int] | str] = {}
    pool = get_context("spawn").Pool(options.processes, maxtasksperchild=1)
    name = pool.apply(device_name)
    asked = [case for case in cases() if re.search(options.only, case.name)]
    replies = pool.imap_unordered(ask, asked)
    try:
        for _ in asked:
            case, reply = replies.next(max(0.0, end - time.monotonic()))
            found[case] = reply
    except NoReply:
        print("out of time")
    pool.terminate()
    lines = [f" {json.dumps(case.name)}: {json.dumps(found[case.name])}" for case in asked if case.name in found]
    head = json.dumps({"device": name, "offsets": OFFSETS, "answers": 0})
    options.out.write_text(head.replace("0}", "{\n" + ",\n".join(lines) + "\n}}\n"))
    print(f"{len(found)} of {len(asked)} cases")


if __name__ == "__main__":
    main()
