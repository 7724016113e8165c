"""Records how an NVIDIA GPU computes floating-point atomics: NaNs, subnormal numbers, rounding, by state space.

    python3 tools/record_atomics.py --out FOLDER        # needs libcuda and ptxas (PATH or --ptxas), nothing else

Every special value of a type as the old content of memory against every other as the operand, each on a location of its own, without
a use of the result (which `record_cells.py` has, with fewer pairs: ptxas makes other instructions of the two).
`recorded_atomics.xz` holds a JSON line (device, forms) and the new contents; `tests/lower/cpu/test_recorded_atomics.py`
replays it.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT))

from cuttle.lower.ops.forms import specials  # noqa: E402
from cuttle.sweep.driver import Driver  # noqa: E402
from tools.recording import assemble_all, options_parser  # noqa: E402

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


def kernel(form: str, name: str = "k") -> str:
    """A kernel `name(memory, operands, count)`: one operation per thread, in place."""
    size = element_bytes(form) * group(form)
    one = size // 2 if ".v2." in form else size
    registers = [f"%v{index}" for index in range(2 if ".v2." in form else 1)]
    olds = [f"%o{index}" for index in range(len(registers))]
    shared = ".shared." in form
    listed = registers[0] if len(registers) == 1 else "{" + ", ".join(registers) + "}"
    dropped = olds[0] if len(olds) == 1 else "{" + ", ".join(olds) + "}"
    bits = 8 * one
    lines = [
        f".visible .entry {name}(.param .u64 pm, .param .u64 po, .param .u32 pc) {{",
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
    options = options_parser(__doc__).parse_args()
    forms = [form for form in FORMS if re.search(options.only, form)]
    jobs = os.cpu_count() or 1
    kept, results, missing = [], [], []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        texts = [kernel(form, f"k{number}") for number, form in enumerate(forms)]
        cubins = assemble_all(texts, 2 * jobs, Path(folder), options.ptxas, options.target, pool)
        modules = {number: cubin for cubin, refused, numbers in cubins for number in numbers if number not in refused}
        gpu = Driver()
        for number, form in enumerate(forms):
            if number not in modules:
                missing.append(form)
                continue
            values = values_of(element_of(form))
            old, operands = columns(form, values)
            count = len(pairs(form, values)) // group(form)
            module = gpu.load(modules[number].read_bytes())
            memory, other = gpu.allocate(len(old)), gpu.allocate(len(old))
            gpu.write(memory, old)
            gpu.write(other, operands)
            gpu.launch(module, f"k{number}", [memory, other, ctypes.c_uint32(count)], count)
            kept.append({"form": form, "bytes": len(old)})
            results.append(gpu.read(memory, len(old)))
    all_values = {kind: values_of(kind) for kind in MORE}
    head = json.dumps({"device": gpu.name, "forms": kept, "values": all_values}, separators=(",", ":")).encode() + b"\n"
    data = lzma.compress(head + b"".join(results), preset=9 | lzma.PRESET_EXTREME)
    (options.out / "recorded_atomics.xz").write_bytes(data)
    print(f"{len(kept)} of {len(forms)} forms, {len(data)} bytes; ptxas refused: {' '.join(missing)}")


if __name__ == "__main__":
    main()
