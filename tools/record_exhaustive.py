"""Records digests of what an NVIDIA GPU answers for all operands of the forms with 16 or 32 operand bits.

    python3 tools/record_exhaustive.py --out FOLDER    # needs libcuda, ptxas (PATH or --ptxas), no other packages

Forms, kernels and the layout of the blocks are those of `sweep/exhaustive.py`; the file is `digests_ptx.xz`.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from cuttle.sweep.driver import Driver  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
from cuttle.sweep.exhaustive import BLOCKS, THREADS, digest_kernel, exhaustive_forms, operand_bits, pack  # noqa: E402
from tools.recording import assemble_all, options_parser  # noqa: E402


def main() -> None:
    parser = options_parser(__doc__)
    options = parser.parse_args()
    begin = time.monotonic()
    forms = [form for form in exhaustive_forms() if re.search(options.only, form.name)]
    jobs = os.cpu_count() or 1
    kept: list[dict[str, object]] = []
    blobs: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        texts = [digest_kernel(form, f"k{number}") for number, form in enumerate(forms)]
        cubins = assemble_all(texts, 4 * jobs, Path(folder), options.ptxas, options.target, pool)
        gpu = Driver()
        out = gpu.allocate(8 * max(BLOCKS.values()))
        for cubin, refused, numbers in cubins:
            module = gpu.load(cubin.read_bytes())
            for number in numbers:
                if number in refused:
                    continue
                form = forms[number]
                blocks = BLOCKS[operand_bits(form)]
                gpu.write(out, bytes(8 * blocks))
                gpu.launch(module, f"k{number}", [out, ctypes.c_uint32(0)], blocks * THREADS)
                blobs.append(gpu.read(out, 8 * blocks))
                kept.append({"form": form.name, "bytes": 8 * blocks})
    header = {"device": gpu.name, "target": options.target, "forms": kept}
    data = pack(json.dumps(header, separators=(",", ":")).encode(), blobs)
    (options.out / "digests_ptx.xz").write_bytes(data)
    print(f"{len(kept)} of {len(forms)} forms, {len(data)} bytes, {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
