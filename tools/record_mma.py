"""Records what an NVIDIA GPU answers for every form of mma, mma.sp and wmma, bit by bit.

    python3 tools/record_mma.py --out FOLDER                # needs libcuda and ptxas (PATH or --ptxas), nothing else
    python3 tools/record_mma.py --seed 2 --out FOLDER       # the same forms with other operands
    python3 tools/record_mma.py --check --out FOLDER        # PTX through ptxas, no GPU: which forms does it take?
    python3 tools/record_mma.py --calls 64 --raw --out FOLDER  # a larger record for studies, not compressed

Forms, inputs and kernels are those of `sweep/matrix.py`. The file `golden_mma.xz` (or `second_mma.xz`) holds a JSON line
(device, forms, what ptxas refused) and the results: for each form, for each call, for each register the 32 lanes.
`tests/ops/test_matrix.py` replays it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import os
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuttle.sweep.driver import Driver  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
from cuttle.sweep.matrix import (  # noqa: E402
    Recorded,
    all_forms,
    calls_of,
    inputs_of,
    kernel,
    load_forms,
    load_kernel,
    load_shape,
    plane,
    planes,
)
from tools.recording import assemble, options_parser  # noqa: E402


def record(
    forms: list[Recorded], loads: list[str], cubins: list[tuple[Path, set[int], list[int]]], options: argparse.Namespace
) -> None:
    """Run all accepted kernels and write the golden file."""
    gpu = Driver()
    device_in, device_out = gpu.allocate(1 << 24), gpu.allocate(1 << 24)
    kept: list[dict[str, object]] = []
    blobs: list[bytes] = []
    for cubin, refused, numbers in cubins:
        module = gpu.load(cubin.read_bytes())
        for number in numbers:
            if number in refused:
                continue
            if number < len(forms):
                item = forms[number]
                calls = calls_of(item, options.calls)
                packed, size, name = (
                    b"".join(inputs_of(item, i, options.seed) for i in range(calls)),
                    item.result_bytes,
                    item.name,
                )
            else:
                name = loads[number - len(forms)]
                calls = planes(name)
                packed = b"".join(plane(name, i) for i in range(calls))
                size = load_shape(name)[-1] * (256 if name.endswith("f64") else 128)
            gpu.write(device_in, packed)
            gpu.launch(module, f"k{number}", [device_in, device_out, ctypes.c_uint32(calls)], calls * 32)
            blobs.append(gpu.read(device_out, size * calls))
            kept.append({"form": name, "calls": calls, "bytes": size * calls})
    names = [item.name for item in forms] + loads
    rejected = [names[n] for _, refused, _ in cubins for n in sorted(refused)]
    header = {"device": gpu.name, "target": options.target, "seed": options.seed, "forms": kept, "refused": rejected}
    text = json.dumps(header, separators=(",", ":")).encode() + b"\n"
    data = text + b"".join(blobs)
    if options.raw:
        for part in range(0, len(data), 15 << 20):
            (options.out / f"raw_mma.{part // (15 << 20)}").write_bytes(data[part : part + (15 << 20)])
    else:
        (options.out / f"{'golden' if options.seed == 1 else 'second'}_mma.xz").write_bytes(
            lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
        )
    print(f"{len(data)} bytes of results, {len(kept)} forms")


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=2, help="rounds of the input modes per form")
    parser.add_argument("--raw", action="store_true", help="write the results as they are, in parts of 15 MiB")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave the cubins in this folder")
    options = parser.parse_args()
    begin = time.monotonic()
    forms = [item for item in all_forms() if re.search(options.only, item.name)]
    loads = [spelling for spelling in load_forms() if re.search(options.only, spelling)]
    kernels = [kernel(item, f"k{n}") for n, item in enumerate(forms)]
    kernels += [load_kernel(spelling, f"k{n}") for n, spelling in enumerate(loads, len(forms))]
    jobs = os.cpu_count() or 1
    parts = max(2 * jobs, 8)
    groups = [list(range(first, len(kernels), parts)) for first in range(min(parts, len(kernels)))]
    work = options.keep or Path(f"/tmp/record_mma.{os.getpid()}")
    work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as threads:
        done = list(
            threads.map(
                lambda item: assemble([(n, kernels[n]) for n in item[1]], work, item[0], options.ptxas, options.target),
                enumerate(groups),
            )
        )
    cubins = [(cubin, refused, numbers) for (cubin, refused), numbers in zip(done, groups, strict=True)]
    names = [item.name for item in forms] + loads
    refused = sorted(names[n] for _, numbers, _ in cubins for n in numbers)
    print(f"{len(names)} forms, {len(refused)} refused by ptxas, {time.monotonic() - begin:.1f} s")
    if options.check:
        print("\n".join(refused))
    else:
        record(forms, loads, cubins, options)
        print(f"{time.monotonic() - begin:.1f} s")
    if not options.keep:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
