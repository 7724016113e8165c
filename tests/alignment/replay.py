"""Asks the device behind `libcuda.so.1` what an H200 was asked: `cuttle run -- python -m tests.alignment.replay [CASE ...]`.

Prints the answers as JSON, in the form of the record.
"""

from __future__ import annotations

import json
import sys

from cuttle.sweep.driver import Driver, DriverFailure
from tests.alignment.cases import OFFSETS, Case, answer, cases


def ask(driver: Driver, case: Case) -> list[int] | str:
    results: list[int] = []
    try:
        for offset in OFFSETS:
            results.append(answer(driver, case, offset))
            if results[-1]:
                driver.reset()
                break
    except DriverFailure as failure:
        return str(failure)
    return results


def main() -> None:
    driver = Driver()
    asked = [case for case in cases() if case.name in sys.argv[1:] or not sys.argv[1:]]
    json.dump({case.name: ask(driver, case) for case in asked}, sys.stdout)


if __name__ == "__main__":
    main()
