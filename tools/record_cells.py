"""Records what an NVIDIA GPU answers for loads, stores, atomics and reductions on memory cells.

    python3 tools/record_cells.py [--seed 2] --out FOLDER    # needs libcuda, ptxas (PATH or --ptxas), no other packages

Forms, inputs and kernels are those of `sweep/cells.py`; the file is `cells_ptx.xz` (or `second_cells.xz`).
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuttle.sweep.cells import COUNT, cell_forms, cell_kernel, packed_inputs, result_bytes  # noqa: E402  (see the path)
from cuttle.sweep.driver import Driver  # noqa: E402
from cuttle.sweep.exhaustive import pack  # noqa: E402
from tools.recording import assemble_all, options_parser  # noqa: E402


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    forms = [form for form in cell_forms() if re.search(options.only, form.name)]
    jobs = os.cpu_count() or 1
    kept: list[dict[str, object]] = []
    blobs: list[bytes] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        texts = [cell_kernel(form, f"k{number}") for number, form in enumerate(forms)]
        cubins = assemble_all(texts, 2 * jobs, Path(folder), options.ptxas, options.target, pool)
        gpu = Driver()
        source, target = gpu.allocate(1 << 20), gpu.allocate(1 << 20)
        for cubin, refused, numbers in cubins:
            missing += [forms[number].name for number in sorted(refused)]
            module = gpu.load(cubin.read_bytes())
            for number in numbers:
                if number in refused:
                    continue
                form = forms[number]
                gpu.write(source, packed_inputs(form, options.seed))
                gpu.write(target, bytes(result_bytes(form)))
                gpu.launch(module, f"k{number}", [source, target], COUNT)
                blobs.append(gpu.read(target, result_bytes(form)))
                kept.append({"form": form.name, "count": COUNT, "bytes": len(blobs[-1])})
    header = {
        "device": gpu.name, "target": options.target, "seed": options.seed, "forms": kept, "refused": missing
    }  # fmt: skip
    data = pack(json.dumps(header, separators=(",", ":")).encode(), blobs)
    name = "cells_ptx.xz" if options.seed == 1 else "second_cells.xz"
    (options.out / name).write_bytes(data)
    print(f"{len(kept)} of {len(forms)} forms, {len(data)} bytes; ptxas refused: {' '.join(missing)}")


if __name__ == "__main__":
    main()
