"""Records what an NVIDIA GPU answers for generated programs: whole kernels with control flow, warp operations and memory.

    python3 tools/record_generated.py --out FOLDER [--count 520]     # needs libcuda, ptxas (PATH or --ptxas) and NumPy

The programs come from `tests/lower/cpu/random_recorded.py` by their numbers. Each is assembled twice, with and without
optimisation, and run twice each way; only programs whose runs agree are kept, all others are named: their results are not
determined, or ptxas failed. `recorded_programs.xz` gets the texts, and for each program one check sum for each slot of its
results without optimisation; `folded` are the slots that come out otherwise with it, because ptxas computes some
approximations of constants itself, and not as the GPU does.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from cuttle.sweep.driver import Driver  # noqa: E402
from tests.lower.cpu.random_recorded import make_recorded  # noqa: E402

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
LEVELS = (3, 0)
CHUNK = 20
PATIENCE_S = 40


def assemble(number: int, work: Path, ptxas: str) -> str:
    """Writes the program's cubins; what went wrong, or nothing."""
    source = work / f"{number}.ptx"
    source.write_text(HEADER + make_recorded(number).text)
    for level in LEVELS:
        cubin = work / f"{number}.O{level}.cubin"
        command = [ptxas, "-arch=sm_90", f"-O{level}", "-o", str(cubin), str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            return f"ptxas -O{level} ended with {result.returncode}: {(result.stderr + result.stdout)[:300]}"
    return ""


def run(gpu: Driver, number: int, cubin: Path) -> list[Any]:
    """The arrays as the kernel leaves them."""
    kernel = make_recorded(number)
    module, function = gpu.load(cubin.read_bytes()), ctypes.c_void_p()
    gpu.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
    arrays = kernel.arrays()
    places = [gpu.allocate(array.nbytes) for array in arrays]
    for place, array in zip(places, arrays, strict=True):
        gpu.write(place, array.tobytes())
    pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(place) for place in places])
    gpu.call("cuLaunchKernel", function, kernel.blocks, 1, 1, *kernel.block, 0, None, pointers, None)
    results = []
    for place, array in zip(places, arrays, strict=True):
        results.append(np.frombuffer(gpu.read(place, array.nbytes), array.dtype).reshape(array.shape))
        gpu.free(place)
    gpu.unload(module)
    return results


def work_on(numbers: list[int], work: Path) -> None:
    """In a process of its own: runs programs, one line of JSON each."""
    gpu = Driver()
    for number in numbers:
        print(json.dumps({"begins": number}), flush=True)
        kernel, found, problem = make_recorded(number), [], ""
        for level in (*LEVELS, *LEVELS):
            _, out, counters = run(gpu, number, work / f"{number}.O{level}.cubin")
            found.append(kernel.digests(out, counters))
            np.savez_compressed(work / f"{number}.O{level}.npz", out=out, counters=counters)
        if found[:2] != found[2:]:
            problem = "two runs differ"
        folded = [slot for slot in range(len(found[0])) if found[0][slot] != found[1][slot]]
        result = {"number": number, "digests": found[1], "folded": folded, "problem": problem, "device": gpu.name}
        print(json.dumps(result), flush=True)


def run_all(numbers: list[int], work: Path) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Results by program, and what is wrong with the others. A program that hangs, or fails, costs its process only."""
    results: dict[int, dict[str, Any]] = {}
    problems: dict[int, str] = {}
    left = list(numbers)
    while left:
        chunk = left[:CHUNK]
        command = [sys.executable, __file__, "--out", str(work), "--work-on", ",".join(map(str, chunk))]
        reason = ""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
            output, reason = done.stdout, done.stderr.strip().splitlines()[-1] if done.returncode else ""
        except subprocess.TimeoutExpired as late:
            output, reason = (late.stdout or b"").decode(), "hangs"
        current = None
        for line in output.splitlines():
            item = json.loads(line)
            if "begins" in item:
                current = item["begins"]
            else:
                results[item["number"]] = item
                current = None
        if current is not None:
            problems[current] = reason
        elif reason and not any(number in results for number in chunk):
            raise RuntimeError(reason)
        left = [number for number in left if number not in results and number not in problems]
    return results, problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=520)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--keep", action="store_true", help="keep PTX and whole results")
    parser.add_argument("--work-on", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work_on:
        work_on([int(number) for number in options.work_on.split(",")], options.out)
        return
    begin = time.monotonic()
    work = options.out / "programs"
    work.mkdir(parents=True, exist_ok=True)
    numbers = list(range(options.first, options.first + options.count))
    with ThreadPoolExecutor() as pool:
        failures = dict(zip(numbers, pool.map(lambda n: assemble(n, work, options.ptxas), numbers), strict=True))
    problems = {number: text for number, text in failures.items() if text}
    print(f"{len(numbers)} programs, {len(problems)} that ptxas refused, {time.monotonic() - begin:.1f} s")
    results, failed = run_all([number for number in numbers if number not in problems], work)
    problems |= failed
    programs, texts = [], []
    for number, result in sorted(results.items()):
        if result["problem"]:
            problems[number] = result["problem"]
            continue
        kernel = make_recorded(number)
        more = {"folded": result["folded"]} if result["folded"] else {}
        programs.append({
            "number": number, "digests": result["digests"], **more, "block": kernel.block, "blocks": kernel.blocks,
        })  # fmt: skip
        texts.append(kernel.text)
    device = next(iter(results.values()))["device"]
    head = {"device": device, "programs": programs}
    text = json.dumps(head, separators=(",", ":")) + "\n" + "\0".join(texts)
    data = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    (options.out / "recorded_programs.xz").write_bytes(data)
    for number, text in sorted(problems.items()):
        print(f"{number}: {text}")
    print(f"{len(programs)} programs recorded, {len(data)} bytes, {time.monotonic() - begin:.1f} s")
    if not options.keep:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
