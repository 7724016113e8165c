"""`python -m cuttle.bench`: runs the benchmarks and prints them; --write also writes docs/reference/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cuttle.bench import report
from cuttle.bench.build import REPOSITORY, BenchError
from cuttle.bench.problems import PROBLEMS
from cuttle.bench.run import CONTENDERS, Options, run

PAGE = REPOSITORY / "docs" / "reference" / "benchmarks.md"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m cuttle.bench", description=__doc__)
    made.add_argument("--rounds", type=int, default=11, help="samples per contender and kernel (default 11)")
    made.add_argument("--only", default="", help="kernels, separated by commas (default: all)")
    made.add_argument("--contenders", default=",".join(CONTENDERS), help="default: %(default)s")
    made.add_argument("--small", action="store_true", help="tiny sizes: only to see that it works")
    made.add_argument("--no-launches", action="store_true", help="leave out launches and starting")
    made.add_argument("--nvcc", type=Path, help="CUDA compiler (default: of the NVIDIA wheels, or on PATH)")
    made.add_argument("--opencl-python", default=sys.executable, help="Python that has pyopencl and intel-opencl-rt")
    made.add_argument("--folder", type=Path, help="keep what is built, logs and the kernel cache here")
    made.add_argument("--json", action="store_true", help="print JSON instead of tables")
    made.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(REPOSITORY)}")
    return made


def chosen(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names out of a list; raises BenchError for an unknown one."""
    names = tuple(name.strip() for name in text.split(",") if name.strip()) or tuple(known)
    for name in names:
        if name not in known:
            raise BenchError(f"{name} is unknown; known are {', '.join(known)}")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all of Cuttle ran with right results, however fast; 1: not; 2: the benchmark could not run."""
    given = parser().parse_args(arguments)
    try:
        options = Options(
            rounds=max(1, given.rounds),
            problems=chosen(given.only, [problem.name for problem in PROBLEMS]),
            contenders=chosen(given.contenders, CONTENDERS),
            small=given.small,
            launches=not given.no_launches,
            nvcc=given.nvcc,
            opencl_python=given.opencl_python,
            folder=given.folder,
        )
        results = run(options)
    except BenchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if given.json:
        sys.stdout.write(json.dumps(report.data(results), indent=1) + "\n")
    else:
        report.print_tables(results, Console(width=None if sys.stdout.isatty() else 200))
    if given.write:
        PAGE.write_text(report.page(results), encoding="utf-8")
    return 0 if results.sound else 1


if __name__ == "__main__":
    sys.exit(main())
