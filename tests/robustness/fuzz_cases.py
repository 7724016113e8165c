"""What the fuzzer feeds to what: one class per target, each making case `number` again from the number alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from cuttle.abi.kernel_abi import IMAGE_MAGIC
from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.errors import CuttleError, PtxError
from cuttle.lower.cpu.compile_kernel import code_options, compile_kernel, kernel_text, plan_kernel
from cuttle.lower.cpu.image_file import ImageError, pack_image, unpack_image
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.ptx.containers import archive, choose, elf, image, pe
from cuttle.ptx.containers.fatbin import read_fatbins
from cuttle.ptx.containers.recognise import recognise
from cuttle.ptx.parser import parse_module
from cuttle.ptx.printer import print_module, without_places
from cuttle.ptx.scan import scan_bytes
from cuttle.runtime.cache import is_sound
from tests.lower.cpu.kernels import HEADER
from tests.lower.cpu.random_recorded import make_recorded
from tests.ptx_front.container_writer import Entry, write_archive, write_cubin, write_fatbin, write_pe, write_program

DATA = Path(__file__).parents[1] / "ptx_front" / "data"
FRAGMENTS = [
    b"{", b"}", b"(", b")", b"[", b"]", b";", b",", b":", b'"', b"/*", b"*/", b"//", b".reg .b32 %r<99999999>;", b".param",
    b"%", b"@", b"|", b"-", b"!", b"\0", b"\n", b" ", b"<", b"0x", b"0f", b"0d7FF0000000000000", b"9" * 40, b"{" * 70,
    b".v4", b".align 3", b"_", b"\xff", b".callprototype", b".branchtargets", b"generic(", b".loc 1 2 3\n", b"=", b"call",
    b"ret;", b"bra L1;", b"@%p0 ", b".shared .b8 x[2147483647];", b".local .b8 y[999999999999];", b"brx.idx", b".sat", b".cc",
    b"mov.u32 %r0, %tid.x;", b"bar.sync 0;", b".f64", b".pred", b"-9223372036854775808", b"4294967296", b"%laneid", b".wide",
]  # fmt: skip
NUMBERS = [b"\xff" * 4, bytes(4), b"\1\0\0\0", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\xff" * 8, b"\0\0\0\0\1\0\0\0"]


class FuzzTarget(Protocol):
    """`make(number)` is a case, `feed(case)` returns, or raises: an error that is meant for users is swallowed there."""

    def make(self, number: int) -> bytes: ...

    def feed(self, case: bytes) -> None: ...


def mutate(rng: random.Random, source: bytes, fragments: list[bytes], others: list[bytes]) -> bytes:
    """A source with some places cut, overwritten, repeated, exchanged or filled."""
    data = bytearray(source)
    for _ in range(rng.choice((1, 1, 2, 3, 6, 12))):
        if not data:
            break
        place = rng.randrange(len(data))
        match rng.randrange(8):
            case 0:
                if rng.random() < 0.2:
                    del data[place:]
            case 1:
                data[place] = rng.randrange(256)
            case 2:
                del data[place : place + rng.randrange(1, 60)]
            case 3:
                data[place:place] = rng.choice(fragments)
            case 4:
                data[place:place] = data[place : place + rng.randrange(1, 300)]
            case 5:
                data[place : place + 4] = rng.choice(NUMBERS)
            case 6:
                other = rng.choice(others)
                begin = rng.randrange(len(other))
                data[place:place] = other[begin : begin + rng.randrange(1, 200)]
            case _:
                data[place] ^= 1 << rng.randrange(8)
    return bytes(data)


def mutate_words(rng: random.Random, source: str) -> str:
    """PTX with words exchanged for other words of the same text: still looks like PTX to every stage."""
    lines = source.split("\n")
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        words, others = lines[at].split(" "), lines[other].split(" ")
        match rng.randrange(5):
            case 0:
                words[rng.randrange(len(words))] = rng.choice(others)
                lines[at] = " ".join(words)
            case 1:
                lines.insert(at, lines[other])
            case 2:
                del lines[at]
                if not lines:
                    lines = [""]
            case 3:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                word = rng.randrange(len(words))
                parts = words[word].split(".")
                parts[rng.randrange(len(parts))] = rng.choice(rng.choice(others).split("."))
                words[word] = ".".join(parts)
                lines[at] = " ".join(words)
    return "\n".join(lines)


def compile_all(data: bytes, options: CompileOptions, *, machine_code: bool) -> None:
    """Every kernel of a module by itself, as the device process does: one that is refused does not hinder the others."""
    try:
        module = parse_module(data)
    except PtxError as error:
        assert error.render()
        return
    assert without_places(parse_module(print_module(module))) == without_places(module)
    for name, function in list(module.functions.items())[:8]:
        if not function.is_entry:
            continue
        try:
            if machine_code:
                compile_kernel(module, name, options)
            else:
                kernel_text(plan_kernel(module, name, options, Target(True)), code_options(options))
        except PtxError as error:
            assert error.render()
            if error.code in ("PTX-0390", "PTX-0391"):  # LLVM refused what we wrote, or the translator failed
                raise AssertionError(error.render()) from error


class PtxBytes:
    """Bytes of real PTX, mutated, through parser and printer."""

    def __init__(self) -> None:
        self.sources = [path.read_bytes() for path in sorted(DATA.glob("*.ptx"))]

    def make(self, number: int) -> bytes:
        rng = random.Random(f"ptx {number}")
        return mutate(rng, rng.choice(self.sources), FRAGMENTS, self.sources)

    def feed(self, case: bytes) -> None:
        compile_all(case, CompileOptions(optimization=0), machine_code=False)


class PtxWords:
    """Generated kernels with words exchanged, through the whole translation; some as far as machine code."""

    def make(self, number: int) -> bytes:
        rng = random.Random(f"words {number}")
        text = HEADER + make_recorded(rng.randrange(560)).text
        return (f"// {rng.randrange(10)}\n" + mutate_words(rng, text)).encode()

    def feed(self, case: bytes) -> None:
        choice = case[3:4]
        shape = (32, 1, 1) if choice in b"0123" else (16, 5, 1) if choice in b"45" else None
        options = CompileOptions(block_shape=shape, optimization=0, plain=choice == b"9")
        compile_all(case, options, machine_code=choice in b"07")


class PtxForms:
    """Kernels of single instructions: known opcodes with any modifiers, operands of any kind and number."""

    def __init__(self) -> None:
        self.spellings = [s for row in OPCODES.values() for s in list(expand_all(row.syntax))[::7]]
        self.words = sorted({word for spelling in self.spellings for word in spelling.split(".")[1:]})
        self.roots = sorted(OPCODES)

    def make(self, number: int) -> bytes:
        rng = random.Random(f"forms {number}")
        lines = [
            HEADER,
            ".global .b32 g[8]; .shared .b32 s[8]; .func f() { ret; }",
            ".visible .entry k(.param .u64 p) {",
        ]
        lines.append(".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b128 %q<2>;")
        lines.append(".reg .f32 %f<4>; .reg .f64 %g<4>; .local .b8 l[64];")
        for _ in range(rng.choice((1, 1, 3, 8))):
            lines.append(self.statement(rng))
        lines += ["L: ret;", "}"]
        return "\n".join(lines).encode()

    def statement(self, rng: random.Random) -> str:
        spelling = rng.choice(self.spellings)
        match rng.randrange(6):
            case 0:
                parts = spelling.split(".")
                parts[rng.randrange(len(parts))] = rng.choice(self.words)
                spelling = ".".join(parts)
            case 1:
                spelling += "." + rng.choice(self.words)
            case 2:
                spelling = rng.choice(self.roots) + "." + ".".join(rng.sample(self.words, rng.randrange(3)))
            case _:
                pass
        guard = rng.choice(("", "", "", "@%p1 ", "@!%p2 ", "@%r1 "))
        operands = ", ".join(self.operand(rng, 2) for _ in range(rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 7))))
        return f"{guard}{spelling} {operands};"

    def operand(self, rng: random.Random, depth: int) -> str:
        register = rng.choice(("%p1", "%h1", "%r1", "%r2", "%r3", "%d1", "%d2", "%q1", "%f1", "%g1", "%f2", "%d3"))
        match rng.randrange(14):
            case 0:
                return str(rng.choice((0, 1, -1, 31, 32, 255, 65536, 1 << 31, 1 << 32, (1 << 64) - 1, -(1 << 63), 7)))
            case 1:
                return rng.choice(("0f3F800000", "0d7FF8000000000000", "1.5", "-0.0", "0x7fffffff", "1e400"))
            case 2 | 3:
                base = rng.choice(("%d1", "%r1", "g", "s", "l", "p", "64", "f", "nothing"))
                return f"[{base}{rng.choice(('', '+4', '-8', '+2147483647', '+-1'))}]"
            case 4 if depth:
                return (
                    "{" + ", ".join(self.operand(rng, depth - 1) for _ in range(rng.choice((1, 2, 2, 4, 4, 8)))) + "}"
                )
            case 5:
                return rng.choice(("g", "s", "l", "f", "L", "p", "_", "WARP_SZ", "generic(g)", "k"))
            case 6:
                return rng.choice(("%tid.x", "%laneid", "%clock64", "%envreg3", "%nowhere", "%ntid"))
            case 7:
                return f"{register}|%p2"
            case 8:
                return f"!{register}"
            case 9:
                return f"{register}.{rng.choice(('x', 'b0', 'h1', 'b3210', 'r'))}"
            case _:
                return register

    def feed(self, case: bytes) -> None:
        compile_all(case, CompileOptions(block_shape=(32, 1, 1), optimization=0), machine_code=True)


class Containers:
    """Fat binaries, cubins, ELF and PE files, archives and linked images."""

    def __init__(self) -> None:
        texts = [path.read_bytes() for path in sorted(DATA.glob("*.ptx"))]
        cubin = write_cubin({"k": [(0, 8)]})
        fatbin = write_fatbin(
            Entry(cubin, 2), Entry(texts[0], compression="lz4"), Entry(texts[1], compression="zstd"), Entry(texts[2])
        )
        self.fatbin = fatbin
        self.sources = [
            fatbin, cubin, write_program(fatbin, ("libcudart.so.12",)), write_program(fatbin, ("libc.so.6",), 32),
            write_pe(fatbin, ("cudart64_12.dll",)), write_archive({"a.o": write_program(fatbin)}),
            image.pack_image(texts[0].decode()),
        ]  # fmt: skip

    def make(self, number: int) -> bytes:
        rng = random.Random(f"containers {number}")
        source = rng.choice(self.sources)
        if rng.random() < 0.5:  # in the head, where sizes and offsets are
            cut = rng.randrange(16, 400)
            return mutate(rng, source[:cut], NUMBERS, self.sources) + source[cut:]
        return mutate(
            rng, source, [b"\x7fELF", b"MZ", b"PE\0\0", self.fatbin[:16], b"\0" * 64, b"\xff" * 64], self.sources
        )

    def feed(self, case: bytes) -> None:
        recognise(case)
        scan_bytes(case, "fuzz", lambda root, modifiers: None)
        readers: tuple[Callable[[bytes], object], ...] = (
            self.payloads, elf.read_elf, elf.elf_bytes, lambda data: elf.cubin_kernels(data, elf.read_elf(data)),
            pe.read_pe, lambda data: list(archive.members(data)), image.unpack_image,
        )  # fmt: skip
        for reader in readers:
            try:
                reader(case)
            except CuttleError as error:
                assert error.render()

    @staticmethod
    def payloads(data: bytes) -> None:
        for part in read_fatbins(data):
            choose.choose_ptx(part.entries, (8, 0))
            for entry in part.entries:
                entry.payload()


class Images:
    """Image files, as they lie in the kernel cache."""

    def __init__(self) -> None:
        metadata = {
            "name": "k",
            "blocks": 0,
            "step": 64,
            "fixups": [8],
            "imports": [[16, "memcpy"]],
            "blob_bytes": 5000,
        }
        self.sources = [pack_image(metadata, bytes(range(250)) * 20), pack_image({}, b"")]

    def make(self, number: int) -> bytes:
        rng = random.Random(f"images {number}")
        source = rng.choice(self.sources)
        cut = rng.choice((48, 200, len(source)))
        return mutate(rng, source[:cut], [IMAGE_MAGIC, b"\xff" * 8, b"[" * 3000, b'"'], self.sources) + source[cut:]

    def feed(self, case: bytes) -> None:
        sound = is_sound(case)
        try:
            unpack_image(case)
        except ImageError as error:
            assert str(error)
        else:
            assert sound
