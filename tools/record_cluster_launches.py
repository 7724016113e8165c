"""Records what NVIDIA's driver answers to launches with clusters: errors, occupancy, function attributes.

    python3 tools/record_cluster_launches.py --out FOLDER     # needs libcuda.so.1 of a card with clusters, nothing else

The cases are those of `tests/client/cluster_launches.py`; `cluster_launches.json` is for `tests/client/`, where
`test_cluster_launches.py` compares Cuttle's answers with it. Cases run in processes of 100; when one of these crashes or
does not end, each of its cases runs alone, and the one that is to blame has the answer `["crash"]`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.client import cluster_launches  # noqa: E402

TIMEOUT_S = 20


def run(library: str, cases: list[str]) -> dict[str, list[Any]]:
    """The answers to the cases."""
    command = [sys.executable, cluster_launches.__file__, library, *cases]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{len(cases)} cases, {cases[0]}: {error}\n{error.stderr!r}", file=sys.stderr)
        if len(cases) == 1:
            return {cases[0]: ["crash"]}
        return {case: answer for each in cases for case, answer in run(library, [each]).items()}
    answers: dict[str, list[Any]] = json.loads(result.stdout)
    return answers


def gpu_facts() -> dict[str, str]:
    """Name and driver version of the first GPU."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    name, driver = text.splitlines()[0].split(",")
    return {"gpu": name.strip(), "driver": driver.strip()}


def main() -> int:
    """Records all cases into one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--library", default="libcuda.so.1")
    options = parser.parse_args()
    cases, answers = cluster_launches.CASES, {}
    for start in range(0, len(cases), 100):
        answers.update(run(options.library, cases[start : start + 100]))
    lines = [f" {json.dumps(case)}: {json.dumps(answer)}" for case, answer in answers.items()]
    head = f'{{"origin": {json.dumps(gpu_facts())}, "answers": {{\n'
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "cluster_launches.json").write_text(head + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    print(f"{len(answers)} cases, {sum(answer == ['crash'] for answer in answers.values())} crashed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
