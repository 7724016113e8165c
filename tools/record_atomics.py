"""Records how an NVIDIA GPU computes floating-point atomics: NaNs, subnormal numbers, rounding, by state space.

    python3 tools/record_atomics.py --out FOLDER        # needs libcuda and ptxas (PATH or --ptxas), nothing else

Every special value of a type as the old content of memory against every other as the operand, each on a location of its own.
`recorded_atomics.xz` holds a JSON line (device, forms) and the new contents; `tests/lower/cpu/test_recorded_atomics.py`
replays it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT))

from cuttle.lower.ops.forms import specials  # noqa: E402
from cuttle.sweep.driver import Driver  # noqa: E402

FORMS = (
    "atom.global.add.f32", "red.global.add.f32", "atom.shared.add.f32", "atom.global.add.f64", "red.global.add.f64",
    "atom.shared.add.f64", "atom.global.add.noftz.f16", "red.global.add.noftz.f16", "atom.shared.add.noftz.f16",
    "atom.global.add.noftz.f16x2", "red.global.add.noftz.f16x2", "atom.shared.add.noftz.f16x2",
    "atom.global.add.noftz.bf16", "red.global.add.noftz.bf16", "atom.shared.add.noftz.bf16",
    "atom.global.add.noftz.bf16x2", "red.global.add.noftz.bf16x2", "atom.shared.add.noftz.bf16x2",
    "atom.add.f32", "atom.add.f64", "atom.global.add.v2.f32", "red.global.add.v2.f32", "atom.global.add.noftz.v2.f16",
    "red.global.add.noftz.v2.f16x2", "red.global.min.noftz.v2.f16", "red.global.max.noftz.v2.f16",
    "red.global.min.noftz.v2.bf16", "red.global.max.noftz.v2.bf16", "red.global.min.noftz.v2.f16x2",
    "red.global.max.noftz.v2.bf16x2", "red.global.add.noftz.v2.bf16x2",
)  # fmt: skip
HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
MORE = {
    "f32": (0x00400000, 0x80400000, 0x00800000, 0x00FFFFFF, 0x7FA00001, 0x34000001, 0x3F800001, 0x4B800001, 0xFF7FFFFE),
    "f64": (0x0008000000000001, 0x7FF4000000000001, 0xFFFC000000000003, 0x3FF0000000000001, 0x4340000000000001),
    "f16": (0x03FF, 0x8001, 0x7D55, 0xFEAA, 0x3C01, 0x6801), "bf16": (0x007F, 0x8001, 0x7FA5, 0xFFEA, 0x3F81, 0x4381),
}  # fmt: skip


def element_of(form: str) -> str:
    """`f16` of a form on f16 or f16x2."""
    return form.rsplit(".", 1)[1].removesuffix("x2")


def element_bytes(form: str) -> int:
    return {"f32": 4, "f64": 8}.get(element_of(form), 2)


def group(form: str) -> int:
    """Elements that one operation covers."""
    return (2 if ".v2." in form else 1) * (2 if form.endswith("x2") else 1)


def values_of(kind: str) -> list[int]:
    """The values that are recorded; they go into the record, so that it can be replayed when `specials` has changed."""
    return sorted({*specials(kind), *MORE[kind]})


def pairs(form: str, values: list[int]) -> list[tuple[int, int]]:
    """(old content, operand) of each element."""
    made = [(old, operand) for old in values for operand in values]
    return made + made[: -len(made) % group(form)]


def kernel(form: str) -> str:
    """A kernel `k(memory, operands, count)`: one operation per thread, in place."""
    size = element_bytes(form) * group(form)
    one = size // 2 if ".v2." in form else size
    registers = [f"%v{index}" for index in range(2 if ".v2." in form else 1)]
    olds = [f"%o{index}" for index in range(len(registers))]
    shared = ".shared." in form
    listed = registers[0] if len(registers) == 1 else "{" + ", ".join(registers) + "}"
    dropped = olds[0] if len(olds) == 1 else "{" + ", ".join(olds) + "}"
    bits = 8 * one
    lines = [
        HEADER, ".visible .entry k(.param .u64 pm, .param .u64 po, .param .u32 pc) {",
        f".reg .b{bits} {', '.join([*registers, *olds])}; .reg .b32 %i, %c, %b, %n; .reg .b64 %m, %o, %w, %s; .reg .pred %p;",
        ".shared .align 16 .b8 place[4096];",
        "ld.param.u64 %m, [pm]; ld.param.u64 %o, [po]; ld.param.u32 %c, [pc];",
        "mov.u32 %i, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %b, %n, %i; setp.ge.u32 %p, %i, %c;",
        f"@%p ret; mul.wide.u32 %w, %i, {size}; add.u64 %m, %m, %w; add.u64 %o, %o, %w;",
        *(f"ld.global.b{bits} {register}, [%o+{one * index}];" for index, register in enumerate(registers)),
    ]  # fmt: skip
    place = "[%m]"
    if shared:
        lines += [f"mov.u32 %i, %tid.x; mul.wide.u32 %w, %i, {size}; mov.u64 %s, place; add.u64 %s, %s, %w;"]
        lines += [f"ld.global.b{bits} %o0, [%m]; st.shared.b{bits} [%s], %o0;"]
        place = "[%s]"
    first = "" if form.startswith("red") else f"{dropped}, "
    lines.append(f"{form} {first}{place}, {listed};")
    if shared:
        lines += [f"ld.shared.b{bits} %o0, [%s]; st.global.b{bits} [%m], %o0;"]
    return "\n".join([*lines, "ret; }"])


def columns(form: str, values: list[int]) -> tuple[bytes, bytes]:
    """The old contents and the operands."""
    size, made = element_bytes(form), pairs(form, values)
    return tuple(b"".join(pair[side].to_bytes(size, "little") for pair in made) for side in (0, 1))  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    options = parser.parse_args()
    gpu = Driver()
    options.out.mkdir(parents=True, exist_ok=True)
    kept, results = [], []
    for form in FORMS:
        source, cubin = options.out / "form.ptx", options.out / "form.cubin"
        source.write_text(kernel(form))
        command = [options.ptxas, "-arch=sm_90", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{form}: {(done.stderr + done.stdout)[:200]}")
            continue
        values = values_of(element_of(form))
        old, operands = columns(form, values)
        count = len(pairs(form, values)) // group(form)
        module, memory, other = gpu.load(cubin.read_bytes()), gpu.allocate(len(old)), gpu.allocate(len(old))
        gpu.write(memory, old)
        gpu.write(other, operands)
        gpu.launch(module, "k", [memory, other, ctypes.c_uint32(count)], count)
        kept.append({"form": form, "bytes": len(old)})
        results.append(gpu.read(memory, len(old)))
    all_values = {kind: values_of(kind) for kind in MORE}
    head = json.dumps({"device": gpu.name, "forms": kept, "values": all_values}, separators=(",", ":")).encode() + b"\n"
    data = lzma.compress(head + b"".join(results), preset=9 | lzma.PRESET_EXTREME)
    (options.out / "recorded_atomics.xz").write_bytes(data)
    print(f"{len(kept)} forms, {len(data)} bytes")


if __name__ == "__main__":
    main()
