"""Records what an NVIDIA GPU reads from textures: `sweep/texture_cases.py` through the driver API.

    python3 tools/record_textures.py --out FOLDER     # needs libcuda, nothing else

`golden_textures.xz` holds a JSON line (device; for each case its name and the CUresult of the call that failed, if one did;
CUresults of array descriptors) and the results: for each case that ran, word by word, its lanes. `tests/textures` replays it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from cuttle.sweep.driver import Driver, DriverFailure  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
from cuttle.sweep.texture_cases import ARRAYS, cases  # noqa: E402
from cuttle.sweep.textures import Textures, array_result  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    begin = time.monotonic()
    driver = Driver()
    textures = Textures(driver)
    chosen = cases()
    failures = textures.compile(sorted({case.instruction for case in chosen}))
    if failures:
        sys.exit(f"kernels that do not compile: {failures}")
    entries: list[tuple[str, int]] = []
    blobs = []
    for case in chosen:
        try:
            blobs.append(textures.run(case))
            entries.append((case.name, 0))
        except DriverFailure as failure:
            entries.append((case.name, failure.result))
    arrays = [array_result(driver, *array) for array in ARRAYS]
    header = {"device": driver.name, "cases": entries, "arrays": arrays}
    data = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(blobs)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "golden_textures.xz"
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(entries)} cases, {path.stat().st_size} bytes, {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()
