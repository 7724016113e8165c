"""What the recorders of instruction forms share: their options, and many kernels through ptxas. Standard library and ours only."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuttle.sweep.kernels import HEADER


def options_parser(about: str | None) -> argparse.ArgumentParser:
    """The options of every recorder; the folder of `--out` is made when they are read."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=made_folder, required=True, metavar="FOLDER")
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--only", default="", help="regular expression on form names")
    return parser


def made_folder(text: str) -> Path:
    path = Path(text)
    path.mkdir(parents=True, exist_ok=True)
    return path


def assemble(kernels: list[tuple[int, str]], folder: Path, part: int, ptxas: str, target: str) -> tuple[Path, set[int]]:
    """One cubin of the kernels (number and text) that ptxas takes; returns it with the numbers of those it refused."""
    refused: set[int] = set()
    source, cubin = folder / f"part{part}.ptx", folder / f"part{part}.cubin"
    while True:
        lines = HEADER.format(target=target).splitlines()
        starts: list[tuple[int, int]] = []
        for number, text in kernels:
            if number not in refused:
                starts.append((len(lines) + 1, number))
                lines.extend(text.splitlines())
        source.write_text("\n".join(lines) + "\n")
        command = [ptxas, f"-arch={target}", "-O1", "-o", str(cubin), str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            return cubin, refused
        found = {int(line) for line in re.findall(r", line (\d+);?\s*error", result.stderr + result.stdout)}
        hit = {max((s for s in starts if s[0] <= line), default=(0, -1))[1] for line in found} - {-1}
        if not hit:
            raise RuntimeError(f"ptxas failed: {(result.stderr + result.stdout)[:2000]}")
        refused |= hit


def assemble_all(
    texts: list[str], parts: int, folder: Path, ptxas: str, target: str, pool: ThreadPoolExecutor
) -> list[tuple[Path, set[int], list[int]]]:
    """Kernels, the text of number n named k{n}, spread over so many cubins: of each its path, the numbers of the kernels that
    ptxas refused, and those of all."""
    groups = [list(range(start, len(texts), parts)) for start in range(min(parts, len(texts)))]
    done = pool.map(
        lambda item: assemble([(n, texts[n]) for n in item[1]], folder, item[0], ptxas, target), enumerate(groups)
    )
    return [(cubin, refused, numbers) for (cubin, refused), numbers in zip(done, groups, strict=True)]
