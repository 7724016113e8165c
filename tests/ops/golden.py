"""Reads what `tools/record_ptx.py` recorded on an NVIDIA GPU and compares our op functions with it.

python tests/ops/golden.py [FILE] [REGULAR-EXPRESSION]    # prints mismatches per form
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import harness

from cuttle.abi.ptx_isa import OPCODES
from cuttle.errors import PtxError
from cuttle.lower.emit import Emitter
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.forms import Form
from cuttle.sweep.golden import PTX, Record, dense, distance, mismatches, records


def run(chosen: list[Record], emitter: Callable[[], Emitter] = Emitter) -> list[list[list[int]]]:
    return harness.run_forms([r.form for r in chosen], [r.columns for r in chosen], lanes=16, emitter=emitter)


def bound(form: Form) -> int:
    """The ulp the opcode's row allows: 0 if its status is `exact`."""
    found = re.fullmatch(r"ulp\((\d+)\)", OPCODES[form.instruction.opcode].status)
    return int(found[1]) if found else 0


def supported(record: Record) -> bool:
    try:
        dispatch.find(record.form.instruction.opcode)
        harness.add_function(harness.Module(), record.form, "probe", 8)
    except PtxError:
        return False
    return True


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PTX
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    source = dense if "sweep" in path.name else records
    chosen = [record for record in source(path, pattern) if supported(record)]
    bad = 0
    for start in range(0, len(chosen), 200):
        part = chosen[start : start + 200]
        for record, answers in zip(part, run(part), strict=True):
            found = mismatches(record, answers)
            if not found:
                continue
            bad += 1
            kind = record.form.destinations[0][0]
            far = max(distance(kind, ours[0], theirs[0]) for _, ours, theirs in found)
            print(f"{record.form.name}: {len(found)} of {len(record.results[0])} differ, by up to {far}")
            for operands, ours, theirs in found[:4]:
                left, right = " ".join(map(hex, ours)), " ".join(map(hex, theirs))
                print(f"    ({', '.join(map(hex, operands))}): ours {left}, GPU {right}")
    print(f"{len(chosen)} forms, {bad} with differences")


if __name__ == "__main__":
    main()
