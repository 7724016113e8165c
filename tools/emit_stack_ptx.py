"""Compiles the kernels of the workloads and capability tests from C to PTX, with LLVM's NVPTX back end in Zig's clang.

python tools/emit_stack_ptx.py           writes src/cuttle/stack/kernels/*.ptx
python tools/emit_stack_ptx.py --check   exit code 1 if one of them is not what its source gives
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "src" / "cuttle" / "stack" / "kernels"
FLAGS = [
    "-target", "nvptx64-cuda", "-mcpu=sm_52", "-std=c11", "-O3", "-ffp-contract=fast", "-fno-unroll-loops", "-nostdlib",
    "-Wall", "-Wextra", "-Wno-unused-command-line-argument",
]  # fmt: skip
HEADER = "// From {source}, by tools/emit_stack_ptx.py; do not edit.\n"


def emit(source: Path) -> str:
    """PTX of one C file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kernels.ptx"
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-S", "-o", str(out), source.name]
        subprocess.run(command, cwd=source.parent, check=True)
        return HEADER.format(source=source.name) + out.read_text()


def main() -> int:
    check, stale = "--check" in sys.argv[1:], []
    for source in sorted(KERNELS.glob("*.c")):
        text, path = emit(source), source.with_suffix(".ptx")
        if check and (not path.exists() or path.read_text() != text):
            stale.append(path.name)
        elif not check:
            path.write_text(text)
    for name in stale:
        print(f"{name} is not what its source gives: run python tools/emit_stack_ptx.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
