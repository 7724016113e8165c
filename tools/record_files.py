"""Records what an NVIDIA GPU answers for the PTX file tests (`src/cuttle/selftest/files/*/*.ptx`), into their `//: expect` lines.

    python3 src/cuttle/selftest/run_files.py --alone FILE... > results.jsonl     # on the machine with the GPU, standard library only
    python3 tools/record_files.py results.jsonl                        # here: rewrites the expectations of these files

A file whose kernel faults or does not end gets `//: expect fault ...` or `//: expect hang`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "src" / "cuttle" / "selftest" / "files"
PER_LINE = 16


def runs(values: list[int]) -> list[str]:
    """Values as words: `5*32` for repeated ones, large ones in hexadecimal."""
    words: list[str] = []
    at = 0
    while at < len(values):
        end = at
        while end < len(values) and values[end] == values[at]:
            end += 1
        text = str(values[at]) if values[at] < 100000 else hex(values[at])
        words.append(text if end - at == 1 else f"{text}*{end - at}")
        at = end
    return words


def expectation(outcome: list[int] | str) -> list[str]:
    """The `//: expect` lines of an outcome."""
    if isinstance(outcome, str):
        return [f"//: expect {outcome}"]
    words = runs(outcome)
    return [f"//: expect {' '.join(words[at : at + PER_LINE])}" for at in range(0, len(words), PER_LINE)]


def rewrite(path: Path, outcome: list[int] | str, device: str) -> None:
    """Puts the expectation behind the other `//:` lines."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith(("//: expect", "//: from"))]
    last = max(index for index, line in enumerate(lines) if line.startswith("//:"))
    lines[last + 1 : last + 1] = [*expectation(outcome), f"//: from {device}"]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    results = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    device = next(result["device"] for result in results if "device" in result)
    for result in results:
        path = TESTS / Path(result["file"]).parent.name / Path(result["file"]).name
        outcome = result["outcome"]
        if isinstance(outcome, str) and not outcome.startswith(("fault cuCtxSynchronize", "hang")):
            print(f"{path.name}: not recorded: {outcome}")
            continue
        if path.exists():
            rewrite(path, outcome, device)


if __name__ == "__main__":
    main()
