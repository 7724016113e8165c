"""Asks ptxas and an NVIDIA GPU which instructions change their result in spite of a false guard.

    python3 tools/ask_guards.py                     # needs libcuda and ptxas (PATH or --ptxas), nothing else

`@%p add.s32 %r1, ...` with a false %p must leave %r1 alone. ptxas makes several instructions of some PTX instructions, and
where it forgets the guard of one of them, the result changes. Prints the forms that do, by opcode; the generated programs
(`tests/lower/cpu/random_recorded.py`) do not guard these opcodes, and Cuttle follows the manual.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT))

from cuttle.lower.ops.forms import Form  # noqa: E402
from cuttle.sweep.driver import Driver  # noqa: E402
from tests.lower.cpu.random_recorded import forms  # noqa: E402

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
GROUP = 40
SLOT = 8


def kernel(group: list[Form]) -> str:
    """`k(in, out)`: each form once with a false guard, its results stored from 8 bytes each."""
    lines = [
        HEADER,
        ".visible .entry k(.param .u64 pin, .param .u64 pout) {",
        ".reg .b64 %in, %out, %v; .reg .pred %p;",
    ]
    lines += ["ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; ld.global.u64 %v, [%in+248]; setp.ne.u64 %p, %v, 0;"]
    at = 0
    for form in group:
        lines.append("{ .reg .b16 %h; .reg .b32 %w;")
        for prefix, operands in (("d", form.destinations), ("s", form.sources)):
            for index, (_, width) in enumerate(operands):
                name = f"%{prefix}{index}"
                lines.append(
                    f".reg .{'pred' if width == 1 else f'b{width}'} {name}; ld.global.b64 %v, [%in+{8 * index}];"
                )
                if width == 1:
                    lines.append(f"setp.ne.u64 {name}, %v, 0;")
                elif width == 64:
                    lines.append(f"mov.b64 {name}, %v;")
                else:
                    lines.append(f"cvt.u{width}.u64 {name}, %v;")
        lines.append("@%p " + form.text)
        for index, (_, width) in enumerate(form.destinations):
            if width == 1:
                lines.append(f"selp.u64 %v, 1, 0, %d{index};")
            elif width == 64:
                lines.append(f"mov.b64 %v, %d{index};")
            else:
                lines.append(f"cvt.u64.u{width} %v, %d{index};")
            lines.append(f"st.global.b64 [%out+{at}], %v;")
            at += SLOT
        lines.append("}")
    return "\n".join([*lines, "ret; }"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    options = parser.parse_args()
    every = [form for made in forms() for form in made if not form.carry_in and not form.carry_out]
    groups = [every[at : at + GROUP] for at in range(0, len(every), GROUP)]
    # Operands that nearly every instruction makes something else of.
    values = [0x4008000000001234, 0x3FF8000040200005, 0x4011000041100003, 0x7, *([3] * 28)]
    values[31] = 0
    gpu = Driver()
    place, out = gpu.allocate(8 * len(values)), gpu.allocate(1 << 16)
    gpu.write(place, b"".join(value.to_bytes(8, "little") for value in values))
    changed: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:

        def assemble(number: int) -> bytes:
            source, cubin = Path(folder, f"{number}.ptx"), Path(folder, f"{number}.cubin")
            source.write_text(kernel(groups[number]))
            subprocess.run([options.ptxas, "-arch=sm_90", "-o", str(cubin), str(source)], check=True)
            return cubin.read_bytes()

        for group, cubin in zip(groups, pool.map(assemble, range(len(groups))), strict=True):
            gpu.write(out, bytes(1 << 16))
            gpu.launch(gpu.load(cubin), "k", [place, out], 1)
            data, at = gpu.read(out, 1 << 16), 0
            for form in group:
                for index, (_, width) in enumerate(form.destinations):
                    found = int.from_bytes(data[at : at + 8], "little")
                    wanted = int(values[index] != 0) if width == 1 else values[index] & ((1 << width) - 1)
                    if found != wanted:
                        changed.setdefault(form.instruction.opcode, []).append(form.name)
                    at += SLOT
    print(f"{gpu.name}: {len(every)} forms with a false guard")
    for opcode, names in sorted(changed.items()):
        print(f"{opcode}: {len(names)} change their result: {', '.join(names[:6])}")


if __name__ == "__main__":
    main()
