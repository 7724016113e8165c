"""Records what an NVIDIA GPU answers for every form of every pure PTX opcode.

    python3 tools/record_ptx.py --out FOLDER            # needs libcuda, ptxas (PATH or --ptxas), no other packages
    python3 tools/record_ptx.py --dry-run --out FOLDER  # writes the PTX only
    python3 tools/record_ptx.py --check --out FOLDER    # PTX through ptxas, no GPU: which forms does it take?

One kernel per form reads its operands from columns (`forms.inputs` makes them again from the seed), executes the one
instruction, and writes the results. The file `golden_ptx.xz` holds a JSON line (forms, counts, what ptxas refused) and
the result columns. A second section holds dense sweeps of the approximate functions (`SWEEPS`).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.forms import Form, inputs, synthesise

PURE = ("arithmetic", "integer", "floating", "logic", "comparison", "conversion", "video")
SKIPPED = ("cvta", "isspacep")
COUNT = 512
FEW = 128  # for opcodes with hundreds of near-identical forms
HEADER = ".version 9.0\n.target {target}\n.address_size 64\n"

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

# Video forms with byte and half selectors of d, a, b, c.
SELECTED = (
    ("vadd.s32.s32.s32", ",b1,h1"), ("vadd.u32.u32.s32.sat", ",h0,b3"), ("vsub.s32.u32.u32.sat", "b2,b0,b1,"),
    ("vabsdiff.u32.s32.u32", "h1,h1,b2,"), ("vmin.s32.s32.u32.sat", "b0,b3,h0,"), ("vmax.u32.u32.s32", ",h1,h0"),
    ("vshl.u32.u32.u32.clamp", ",h1,b0"), ("vshr.s32.s32.u32.wrap", "h0,h1,b1,"), ("vmad.s32.s32.u32", ",b2,h1,"),
    ("vmad.s32.s32.s32.sat.shr7", ",h0,h1,"), ("vset.s32.u32.lt", "b3,b1,h0,"), ("vadd.s32.s32.s32.add", ",b1,b2,"),
    ("vadd2.s32.s32.s32.sat", "h1,h02,h31,"), ("vadd2.s32.s32.u32.add", "h0,,h20,"), ("vsub2.u32.u32.u32", "h10,h12,h30,"),
    ("vadd4.u32.u32.u32.sat", "b20,b7310,,"), ("vabsdiff4.s32.s32.s32.add", "b310,,b6420,"), ("vset4.u32.u32.gt", "b1,b0123,b4567,"),
)  # fmt: skip


# -- forms -----------------------------------------------------------------------------------------------------------


def all_forms() -> list[Form]:
    """Every form of the pure opcodes that have a syntax, with typical immediates and the brace lists of `mov`."""
    forms: list[Form] = []
    for row in OPCODES.values():
        if row.family not in PURE or row.name in SKIPPED:
            continue
        for spelling in expand_all(row.syntax):
            if row.name == "lop3":
                tables = (0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x80, 0xFE, 0x1D)
                forms.extend(synthesise(spelling, {3: table}) for table in tables)
                continue
            forms.append(synthesise(spelling))
            if row.name in ("shl", "shr"):
                forms.extend(synthesise(spelling, {1: amount}) for amount in (5, 200))
            if row.name == "prmt":
                forms.extend(synthesise(spelling, {2: value}) for value in (0x0765, 0x9CBA, 0x5410))
    moves = (("mov.b32", 2), ("mov.b64", 2), ("mov.b64", 4), ("mov.b32", -2), ("mov.b64", -2), ("mov.b64", -4))
    forms.extend(synthesise(spelling, brace=brace) for spelling, brace in moves)
    forms.extend(synthesise(spelling, selectors=tuple(text.split(","))) for spelling, text in SELECTED)
    return forms


def count_of(form: Form) -> int:
    few = form.instruction.opcode in ("set", "slct") or form.instruction.opcode.startswith("v")
    return FEW if few else COUNT


def operand_types(form: Form) -> list[str]:
    """Types of the input columns: the sources and the carry."""
    return [name for name, _ in form.sources] + (["pred"] if form.carry_in else [])


def columns_of(form: Form, cache: dict[tuple[str, ...], list[list[int]]]) -> list[list[int]]:
    """The form's operand columns; forms with the same operand types share them."""
    types = tuple(operand_types(form))
    if types not in cache:
        cache[types] = inputs(types, COUNT, zlib.crc32(",".join(types).encode()))
    return [column[: count_of(form)] for column in cache[types]]


def storage_bytes(width: int) -> int:
    return 1 if width == 1 else width // 8


# -- PTX -------------------------------------------------------------------------------------------------------------


def kernel(form: Form, name: str) -> str:
    """A kernel `name(in, out, count, first, step)`: one element per thread.

    The operand columns follow one another at `in`; with step != 0 the (only) operand is first + index * step instead.
    """
    sources = [*form.sources, *([("pred", 1)] if form.carry_in else [])]
    destinations = [*form.destinations, *([("pred", 1)] if form.carry_out else [])]
    lines = [
        f".visible .entry {name}(.param .u64 pin, .param .u64 pout, .param .u32 pcount, .param .u64 pfirst, .param .u64 pstep)",
        "{",
        ".reg .pred %stop, %sweep, %q<16>;",
        ".reg .b16 %h<16>;",
        ".reg .b32 %me, %size, %block, %count, %t<16>;",
        ".reg .b64 %in, %out, %index, %total, %a, %first, %step, %value;",
    ]
    for prefix, items in (("s", form.sources), ("d", form.destinations)):
        for index, (_, width) in enumerate(items):
            lines.append(f".reg .{'pred' if width == 1 else f'b{width}'} %{prefix}{index};")
    lines += [
        "ld.param.u64 %in, [pin];", "ld.param.u64 %out, [pout];", "ld.param.u32 %count, [pcount];",
        "ld.param.u64 %first, [pfirst];", "ld.param.u64 %step, [pstep];",
        "mov.u32 %me, %tid.x;", "mov.u32 %size, %ntid.x;", "mov.u32 %block, %ctaid.x;",
        "mad.lo.u32 %me, %block, %size, %me;", "setp.ge.u32 %stop, %me, %count;", "@%stop ret;",
        "cvt.u64.u32 %index, %me;", "cvt.u64.u32 %total, %count;", "setp.ne.u64 %sweep, %step, 0;",
        "mad.lo.u64 %value, %index, %step, %first;",
    ]  # fmt: skip
    offset = 0
    for index, (_, width) in enumerate(sources):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %a, %total, {offset}, %in;", f"mad.lo.u64 %a, %index, {size}, %a;"]
        offset += size
        target = f"%s{index}"
        if width == 1:
            flag = f"%q{index}" if index == len(form.sources) else target
            lines += [f"ld.global.u8 %h{index}, [%a];", f"setp.ne.u16 {flag}, %h{index}, 0;"]
        elif width == 128:
            lines.append(f"ld.global.b128 {target}, [%a];")
        elif len(sources) == 1:
            # Guarded: in a sweep there is no column to read.
            lines.append(f"@!%sweep ld.global.b{width} {target}, [%a];")
            lines.append(
                f"@%sweep cvt.u{width}.u64 {target}, %value;" if width < 64 else f"@%sweep mov.b64 {target}, %value;"
            )
        else:
            lines.append(f"ld.global.b{width} {target}, [%a];")
    subtract = form.instruction.opcode.startswith("sub")
    if form.carry_in:
        flag = f"%q{len(form.sources)}"
        lines.append(f"selp.u32 %t0, 1, 0, {flag};")
        lines.append("sub.cc.u32 %t1, 0, %t0;" if subtract else "add.cc.u32 %t1, %t0, 0xffffffff;")
    lines.append(form.text)
    if form.carry_out:
        lines.append("subc.u32 %t2, 0, 0;" if subtract else "addc.u32 %t2, 0, 0;")
        lines += ["and.b32 %t2, %t2, 1;", "cvt.u16.u32 %h15, %t2;"]
    offset = 0
    for index, (_, width) in enumerate(destinations):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %a, %total, {offset}, %out;", f"mad.lo.u64 %a, %index, {size}, %a;"]
        offset += size
        if width == 1:
            if index < len(form.destinations):
                lines.append(f"selp.u16 %h15, 1, 0, %d{index};")
            lines.append("st.global.u8 [%a], %h15;")
        else:
            lines.append(f"st.global.b{width} [%a], %d{index};")
    return "\n".join([*lines, "ret;", "}"])


def assemble(forms: list[tuple[int, Form]], folder: Path, part: int, ptxas: str, target: str) -> tuple[Path, set[int]]:
    """One cubin of the kernels that ptxas takes; returns it with the numbers of the forms it refused."""
    refused: set[int] = set()
    source, cubin = folder / f"part{part}.ptx", folder / f"part{part}.cubin"
    while True:
        lines = HEADER.format(target=target).splitlines()
        starts: list[tuple[int, int]] = []
        for number, form in forms:
            if number not in refused:
                starts.append((len(lines) + 1, number))
                lines.extend(kernel(form, f"k{number}").splitlines())
        source.write_text("\n".join(lines) + "\n")
        command = [ptxas, f"-arch={target}", "-O1", "-o", str(cubin), str(source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            return cubin, refused
        found = {int(line) for line in re.findall(r", line (\d+);?\s*error", result.stderr + result.stdout)}
        hit = {max((s for s in starts if s[0] <= line), default=(0, -1))[1] for line in found} - {-1}
        if not hit:
            raise RuntimeError(f"ptxas failed: {(result.stderr + result.stdout)[:2000]}")
        refused |= hit


# -- driver ----------------------------------------------------------------------------------------------------------


class Gpu:
    """The few driver functions needed, through ctypes."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.name = f"{name.value.decode()}, driver API {version.value}"

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} failed with {code}")

    def load(self, image: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(self, module: ctypes.c_void_p, name: str, arguments: list[ctypes._SimpleCData[int]], count: int) -> None:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
        self.call("cuLaunchKernel", function, (count + 127) // 128, 1, 1, 128, 1, 1, 0, None, pointers, None)


def record(forms: list[Form], cubins: list[tuple[Path, set[int], list[int]]], out: Path, target: str) -> None:
    """Run all accepted kernels and write the golden file."""
    gpu = Gpu()
    device_in, device_out = gpu.allocate(1 << 22), gpu.allocate(1 << 22)
    cache: dict[tuple[str, ...], list[list[int]]] = {}
    kept: list[dict[str, object]] = []
    blobs: list[bytes] = []
    sweeps: list[dict[str, object]] = []
    sweep_blobs: list[bytes] = []
    by_name: dict[str, list[tuple[int, int, int]]] = {}
    for name, runs in SWEEPS:
        by_name.setdefault(name, []).extend(runs)

    def fetch(size: int) -> bytes:
        host = ctypes.create_string_buffer(size)
        gpu.call("cuMemcpyDtoH_v2", host, device_out, ctypes.c_size_t(size))
        return host.raw

    for cubin, refused, numbers in cubins:
        module = gpu.load(cubin.read_bytes())
        for number in numbers:
            if number in refused:
                continue
            form, name = forms[number], f"k{number}"
            columns, count = columns_of(form, cache), count_of(form)
            widths = [w for _, w in form.sources] + ([1] if form.carry_in else [])
            packed = b"".join(
                value.to_bytes(storage_bytes(width), "little")
                for column, width in zip(columns, widths, strict=True)
                for value in column
            )
            gpu.call("cuMemcpyHtoD_v2", device_in, packed, ctypes.c_size_t(len(packed)))
            size = sum(storage_bytes(w) for _, w in form.destinations) + (1 if form.carry_out else 0)
            u64 = ctypes.c_uint64
            gpu.launch(module, name, [device_in, device_out, ctypes.c_uint32(count), u64(0), u64(0)], count)
            blobs.append(fetch(size * count))
            kept.append({"form": form.name, "count": count, "bytes": size * count})
            for first, step, length in by_name.get(form.name, ()):
                gpu.launch(
                    module, name, [device_in, device_out, ctypes.c_uint32(length), u64(first), u64(step)], length
                )
                raw = fetch(size * length)
                sweeps.append({"form": form.name, "first": first, "step": step, "count": length, "bytes": len(raw)})
                sweep_blobs.append(differences(raw, size))
    rejected = [forms[n].name for _, refused, _ in cubins for n in sorted(refused)]
    header = {"device": gpu.name, "target": target, "forms": kept, "sweeps": sweeps, "refused": rejected}
    for name, head, parts in (("golden_ptx.xz", header, blobs), ("sweeps_ptx.xz", {"sweeps": sweeps}, sweep_blobs)):
        if name == "golden_ptx.xz":
            head = {key: value for key, value in header.items() if key != "sweeps"}
        text = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        data = lzma.compress(text + b"".join(parts), preset=9 | lzma.PRESET_EXTREME)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--only", default="", help="regular expression on form names")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    begin = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    forms = [form for form in all_forms() if re.search(options.only, form.name)]
    jobs = os.cpu_count() or 1
    parts = max(4 * jobs, 8)
    groups = [list(range(start, len(forms), parts)) for start in range(min(parts, len(forms)))]
    work = Path(options.out if options.dry_run else f"/tmp/record_ptx.{os.getpid()}")
    work.mkdir(parents=True, exist_ok=True)
    if options.dry_run:
        for part, numbers in enumerate(groups):
            text = "\n".join(kernel(forms[n], f"k{n}") for n in numbers)
            (work / f"part{part}.ptx").write_text(HEADER.format(target=options.target) + text + "\n")
        print(f"{len(forms)} forms in {len(groups)} files")
        return
    with ThreadPoolExecutor(jobs) as pool:
        done = list(
            pool.map(
                lambda item: assemble([(n, forms[n]) for n in item[1]], work, item[0], options.ptxas, options.target),
                enumerate(groups),
            )
        )
    cubins = [(cubin, refused, numbers) for (cubin, refused), numbers in zip(done, groups, strict=True)]
    refused = sorted(forms[n].name for _, names, _ in cubins for n in names)
    print(f"{len(forms)} forms, {len(refused)} refused by ptxas, {time.monotonic() - begin:.1f} s")
    if options.check:
        print("\n".join(refused))
    else:
        record(forms, cubins, options.out, options.target)
        print(f"{time.monotonic() - begin:.1f} s")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
