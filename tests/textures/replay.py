"""Runs recorded texture accesses through whatever `libcuda.so.1` is, and says where they differ.

    python -m tests.textures.replay            # one JSON line per case: {"case", "result", "lanes", "first", "levels"}

`result` is the CUresult, `lanes` how many of them differ, `first` the first difference as text, `levels` the largest distance
of float results. Test processes start it, with the client library first in LD_LIBRARY_PATH.
"""

from __future__ import annotations

import json
import lzma
import struct
from pathlib import Path
from typing import Any

from cuttle.sweep.driver import Driver, DriverFailure
from cuttle.sweep.texture_cases import ARRAYS, cases
from cuttle.sweep.textures import Case, Textures, array_result

GOLDEN = Path(__file__).resolve().parents[2] / "src" / "cuttle" / "sweep" / "recordings" / "golden_textures.xz"


def recorded() -> tuple[dict[str, Any], dict[str, bytes | int]]:
    """The header, and for each case its results or the CUresult of the call that failed."""
    head, _, data = lzma.decompress(GOLDEN.read_bytes()).partition(b"\n")
    header: dict[str, Any] = json.loads(head)
    sizes = {case.name: 16 * case.threads for case in cases()}
    results: dict[str, bytes | int] = {}
    at = 0
    for name, result in header["cases"]:
        results[name] = result or data[at : at + sizes[name]]
        at += 0 if result else sizes[name]
    if at != len(data):
        raise ValueError("the recording is not of these cases")
    return header, results


def compare(case: Case, got: bytes, wanted: bytes) -> dict[str, Any]:
    threads = case.threads
    ours, theirs = (struct.unpack(f"<{4 * threads}I", data) for data in (got, wanted))
    differing = sorted({index % threads for index, word in enumerate(ours) if word != theirs[index]})
    first = ""
    if differing:
        index = next(index for index in range(differing[0], 4 * threads, threads) if ours[index] != theirs[index])
        lane = [f"{column[differing[0]]:#x}" for column in case.columns]
        first = f"lane {differing[0]}, word {index // threads}: {ours[index]:#x}, not {theirs[index]:#x}, of {lane}"
    floats = [struct.unpack(f"<{4 * threads}f", data) for data in (got, wanted)]
    levels = max(abs(x - y) for x, y in zip(*floats, strict=True)) if case.inexact else 0.0
    return {"case": case.name, "result": 0, "lanes": len(differing), "first": first, "levels": levels}


def main() -> None:
    header, results = recorded()
    driver = Driver()
    textures = Textures(driver)
    chosen = cases()
    failures = textures.compile(sorted({case.instruction for case in chosen}))
    print(json.dumps({"failures": failures}), flush=True)
    for case in chosen:
        wanted = results[case.name]
        try:
            got = textures.run(case)
        except DriverFailure as failure:
            print(json.dumps({"case": case.name, "result": failure.result}), flush=True)
            continue
        outcome = compare(case, got, wanted) if isinstance(wanted, bytes) else {"case": case.name, "result": 0}
        print(json.dumps(outcome), flush=True)
    different = [
        (array, result, wanted)
        for array, wanted in zip(ARRAYS, header["arrays"], strict=True)
        if (result := array_result(driver, *array)) != wanted
    ]
    print(json.dumps({"arrays": different}), flush=True)


if __name__ == "__main__":
    main()
