"""Records what an NVIDIA GPU answers for every form of every pure PTX opcode.

    python3 tools/record_ptx.py --out FOLDER            # needs libcuda, ptxas (PATH or --ptxas), no other packages
    python3 tools/record_ptx.py --seed 2 --out FOLDER   # the same forms with other operands
    python3 tools/record_ptx.py --seed 3 --operands 4096 --out FOLDER   # more of them; `cuttle sweep --golden FOLDER`
    python3 tools/record_ptx.py --dry-run --out FOLDER  # writes the PTX only
    python3 tools/record_ptx.py --check --out FOLDER    # PTX through ptxas, no GPU: which forms does it take?

One kernel per form reads its operands from columns (`sweep.forms.Operands` makes them again from the seed), executes the
one instruction, and writes the results. The file `golden_ptx.xz` (or `second_ptx.xz`) holds a JSON line (forms, counts,
what ptxas refused) and the result columns. `sweeps_ptx.xz` holds dense sweeps of the approximate functions (`SWEEPS`).
"""

from __future__ import annotations

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

from cuttle.lower.ops.forms import Form  # noqa: E402
from cuttle.sweep.driver import Driver  # noqa: E402
from cuttle.sweep.forms import Operands, all_forms, result_operands, source_operands, storage_bytes  # noqa: E402
from cuttle.sweep.kernels import HEADER, kernel  # noqa: E402
from tools.recording import assemble_all, options_parser  # noqa: E402

# Opcode text, list of (first bit pattern, step, count): runs over the operand's bits, 16-bit types over all of them.
_ALL_16 = [(0, 1, 65536)]
_BINADE = [(0x3F800000, 64, 131072), (0x3F812345, 1, 8192), (0x3FD00000, 1, 8192)]
_TWO = [*_BINADE, (0x40000000, 64, 131072)]
_ANY = [(12345, 2654435761, 4096)]  # all kinds of operands: the step wraps around many times
_ANY_64 = [(987654321, 11400714819323198485, 2048)]
_OCTAVES = [(field << 23, 1024, 8192) for field in range(118, 124)]
_HIGH_WORDS = [(0x3FF << 52, 1 << 37, 32768)]
SWEEPS: tuple[tuple[str, list[tuple[int, int, int]]], ...] = (
    ("rcp.approx.ftz.f32", [*_BINADE, (0x7E000000, 1024, 24576), (0x00000000, 4096, 8192)]),
    ("rcp.approx.f32", [(0x3F800000, 1024, 8192), (0x7E000000, 1024, 24576), (0x00000000, 1024, 32768)]),
    ("rsqrt.approx.ftz.f32", _TWO),
    ("rsqrt.approx.f32", [(0x3F800000, 1024, 16384), (0x00000000, 1024, 32768)]),
    ("sqrt.approx.ftz.f32", _TWO),
    ("sqrt.approx.f32", [(0x3F800000, 1024, 16384), (0x00000000, 1024, 32768)]),
    ("lg2.approx.ftz.f32", [*_TWO, (0x3F000000, 64, 131072), (0x3F700000, 16, 65536)]),
    ("lg2.approx.f32", [(0x3F000000, 1024, 16384), (0x00000000, 1024, 32768)]),
    ("ex2.approx.ftz.f32", [*_BINADE, (0xBF800000, 64, 131072), (0x3C000000, 2048, 32768), (0xC2F00000, 64, 49152)]),
    ("ex2.approx.f32", [(0x3F800000, 1024, 8192), (0xC2F00000, 64, 65536), (0x42F80000, 64, 16384)]),
    ("sin.approx.ftz.f32", [*_TWO, (0x40800000, 128, 65536), (0x3C000000, 1024, 32768), (0x41000000, 8192, 16384)]),
    ("cos.approx.ftz.f32", [*_TWO, (0x40800000, 128, 65536), (0x3C000000, 1024, 32768), (0x41000000, 8192, 16384)]),
    ("sin.approx.f32", [(0x3C000000, 8192, 8192)]),
    ("cos.approx.f32", [(0x3C000000, 8192, 8192)]),
    *((f"{name}.approx{ftz}.f32", _ANY) for name in "rcp rsqrt sqrt lg2 ex2 sin cos".split() for ftz in ("", ".ftz")),
    (
        "ex2.approx.ftz.f32",
        [(sign | field << 23, 488, 4096) for field in (120, 115, 110, 104, 102) for sign in (0, 1 << 31)],
    ),
    ("tanh.approx.f32", [*_OCTAVES, *((field << 23, 976, 8192) for field in range(123, 131)), (777, 2654435761, 4096)]),
    ("rcp.approx.ftz.f64", [*_HIGH_WORDS, *_ANY_64]),
    ("rsqrt.approx.ftz.f64", [*_HIGH_WORDS, (0x400 << 52, 1 << 37, 32768), *_ANY_64]),
    ("rsqrt.approx.f64", _ANY_64),
    ("tanh.approx.f32", [(0x3D800000, 512, 131072), (0x3F800000, 1, 8192), (0x38000000, 8192, 8192)]),
    ("ex2.approx.f16", _ALL_16),
    ("ex2.approx.ftz.bf16", _ALL_16),
    ("tanh.approx.f16", _ALL_16),
    ("tanh.approx.bf16", _ALL_16),
    ("cvt.rn.f16x2.e4m3x2", _ALL_16),
    ("cvt.rn.f16x2.e5m2x2", _ALL_16),
    ("cvt.f32.bf16", _ALL_16),
    ("cvt.f32.f16", _ALL_16),
    ("cvt.f64.f16", _ALL_16),
)


def record(
    forms: list[Form], cubins: list[tuple[Path, set[int], list[int]]], out: Path, target: str, operands: Operands
) -> None:
    """Run all accepted kernels and write the golden file."""
    seed = operands.seed
    gpu = Driver()
    device_in, device_out = gpu.allocate(1 << 22), gpu.allocate(1 << 22)
    kept: list[dict[str, object]] = []
    blobs: list[bytes] = []
    sweeps: list[dict[str, object]] = []
    sweep_blobs: list[bytes] = []
    by_name: dict[str, list[tuple[int, int, int]]] = {}
    for name, runs in SWEEPS if seed == 1 else ():
        by_name.setdefault(name, []).extend(runs)

    for cubin, refused, numbers in cubins:
        module = gpu.load(cubin.read_bytes())
        for number in numbers:
            if number in refused:
                continue
            form, name = forms[number], f"k{number}"
            columns, count = operands.columns(form), operands.elements(form)
            widths = [width for _, width in source_operands(form)]
            packed = b"".join(
                value.to_bytes(storage_bytes(width), "little")
                for column, width in zip(columns, widths, strict=True)
                for value in column
            )
            gpu.write(device_in, packed)
            size = sum(storage_bytes(width) for _, width in result_operands(form))
            u64 = ctypes.c_uint64
            gpu.launch(module, name, [device_in, device_out, ctypes.c_uint32(count), u64(0), u64(0)], count)
            blobs.append(gpu.read(device_out, size * count))
            kept.append({"form": form.name, "count": count, "bytes": size * count})
            for first, step, length in by_name.get(form.name, ()):
                gpu.launch(
                    module, name, [device_in, device_out, ctypes.c_uint32(length), u64(first), u64(step)], length
                )
                raw = gpu.read(device_out, size * length)
                sweeps.append({"form": form.name, "first": first, "step": step, "count": length, "bytes": len(raw)})
                sweep_blobs.append(differences(raw, size))
    rejected = [forms[n].name for _, refused, _ in cubins for n in sorted(refused)]
    header = {"device": gpu.name, "target": target, "seed": seed, "forms": kept, "refused": rejected}
    if operands.count:
        header["operands"] = operands.count
    main_file = "golden_ptx.xz" if seed == 1 else "second_ptx.xz"
    for name, head, parts in ((main_file, header, blobs), ("sweeps_ptx.xz", {"sweeps": sweeps}, sweep_blobs)):
        if not parts:
            continue
        text = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        data = lzma.compress(text + b"".join(parts), preset=0 if operands.count else 9 | lzma.PRESET_EXTREME)
        (out / name).write_bytes(data)
        print(f"{name}: {len(data)} bytes, {len(parts)} parts")


def differences(raw: bytes, size: int) -> bytes:
    """Second differences of a column of little-endian integers: smooth functions become small numbers."""
    mask = (1 << 8 * size) - 1
    values = [int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)]
    result = bytearray()
    before = slope = 0
    for value in values:
        step = value - before & mask
        # Zigzag keeps small negatives small.
        change = step - slope & mask
        change = (change << 1 ^ (mask if change >> (8 * size - 1) else 0)) & mask
        result += change.to_bytes(size, "little")
        before, slope = value, step
    # Byte planes compress better than interleaved bytes.
    return b"".join(bytes(result[plane::size]) for plane in range(size))


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--operands", type=int, default=0, help="so many for each form, up to 65536: to use at once, not to keep"
    )
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    begin = time.monotonic()
    forms = [form for form in all_forms() if re.search(options.only, form.name)]
    jobs = os.cpu_count() or 1
    parts = max(4 * jobs, 8)
    texts = [kernel(form, f"k{number}") for number, form in enumerate(forms)]
    work = Path(options.out if options.dry_run else f"/tmp/record_ptx.{os.getpid()}")
    work.mkdir(parents=True, exist_ok=True)
    if options.dry_run:
        for part in range(min(parts, len(texts))):
            text = "\n".join(texts[part::parts])
            (work / f"part{part}.ptx").write_text(HEADER.format(target=options.target) + text + "\n")
        print(f"{len(forms)} forms in {min(parts, len(texts))} files")
        return
    with ThreadPoolExecutor(jobs) as pool:
        cubins = assemble_all(texts, parts, work, options.ptxas, options.target, pool)
    refused = sorted(forms[n].name for _, names, _ in cubins for n in names)
    print(f"{len(forms)} forms, {len(refused)} refused by ptxas, {time.monotonic() - begin:.1f} s")
    if options.check:
        print("\n".join(refused))
    else:
        record(forms, cubins, options.out, options.target, Operands(options.seed, options.operands))
        print(f"{time.monotonic() - begin:.1f} s")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
