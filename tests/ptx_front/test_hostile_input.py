"""Mutated input: only CuttleError may come out, and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuttle.errors import CuttleError, PtxError
from cuttle.ptx.containers import archive, elf, pe
from cuttle.ptx.containers.fatbin import read_fatbins
from cuttle.ptx.parser import parse_module
from cuttle.ptx.printer import print_module, without_places
from cuttle.ptx.scan import scan_bytes
from tests.ptx_front.container_writer import Entry, write_archive, write_cubin, write_fatbin, write_pe, write_program

DATA = Path(__file__).parent / "data"
TEXTS = [path.read_bytes() for path in sorted(DATA.glob("*.ptx"))]
CUBIN = write_cubin({"k": [(0, 8)]})
FATBIN = write_fatbin(
    Entry(CUBIN, 2), Entry(TEXTS[0], compression="lz4"), Entry(TEXTS[1], compression="zstd"), Entry(TEXTS[2])
)
CONTAINERS = [
    FATBIN, CUBIN, write_program(FATBIN, ("libcudart.so.12",)), write_program(FATBIN, ("libc.so.6",), 32),
    write_pe(FATBIN, ("cudart64_12.dll",)), write_archive({"a.o": write_program(FATBIN)}),
]  # fmt: skip
FRAGMENTS = [
    b"{", b"}", b"(", b")", b"[", b"]", b";", b",", b":", b"\"", b"/*", b"*/", b"//", b".reg", b".param", b"%", b"@", b"|",
    b"-", b"!", b"\0", b"\n", b" ", b"<", b"0x", b"0f", b"9" * 40, b"{" * 70, b"(" * 70, b".v4", b".align", b"_", b"\xff",
    b".callprototype", b".branchtargets", b"generic(", b".loc 1 2 3\n", b"=", b"call", b"ret",
]  # fmt: skip

FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@st.composite
def mutated(draw: st.DrawFn, sources: list[bytes], fragments: list[bytes]) -> bytes:
    """A source with up to six places cut, overwritten, repeated or filled."""
    data = bytearray(draw(st.sampled_from(sources)))
    for _ in range(draw(st.integers(1, 6))):
        if not data:
            break
        place = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 5)):
            case 0:
                del data[place:]
            case 1:
                data[place] = draw(st.integers(0, 255))
            case 2:
                del data[place : place + draw(st.integers(1, 40))]
            case 3:
                data[place:place] = draw(st.sampled_from(fragments))
            case 4:
                data[place:place] = data[place : place + draw(st.integers(1, 200))]
            case _:
                data[place : place + 4] = draw(st.sampled_from([b"\xff" * 4, bytes(4), b"\1\0\0\0", b"\0\0\0\x80"]))
    return bytes(data)


@FUZZ
@given(mutated(TEXTS, FRAGMENTS))
def test_mutated_ptx(data: bytes) -> None:
    try:
        module = parse_module(data)
    except PtxError as error:
        assert error.render()
    else:
        assert without_places(parse_module(print_module(module))) == without_places(module)


@FUZZ
@given(mutated(CONTAINERS, [b"\x7fELF", b"MZ", b"PE\0\0", FATBIN[:16], b"\0" * 64, b"\xff" * 64]))
def test_mutated_containers(data: bytes) -> None:
    found = scan_bytes(data, "fuzz", lambda root, modifiers: None)
    assert found is None or isinstance(found.verdict, str)
    for reader in (_all_payloads, elf.read_elf, elf.elf_bytes, _kernels, pe.read_pe, _members):
        try:
            reader(data)
        except CuttleError as error:
            assert error.render()


def _all_payloads(data: bytes) -> None:
    for part in read_fatbins(data):
        for entry in part.entries:
            entry.payload()


def _kernels(data: bytes) -> None:
    elf.cubin_kernels(data, elf.read_elf(data))


def _members(data: bytes) -> None:
    list(archive.members(data))


HEAD = ".version 8.0\n.target sm_80\n"


@pytest.mark.parametrize(
    "text",
    [
        "/*" * 200_000,
        '"' * 200_000,
        HEAD + " " * 400_000,
        HEAD + "{" * 400_000,
        HEAD + ".entry f() {" + " " * 400_000 + "}",
        HEAD + ".entry f() {" + "{" * 200_000,
        HEAD + ".entry f() {" + "a" * 400_000 + "}",
        HEAD + ".entry f() {" + "a." * 200_000 + ";}",
        HEAD + ".entry f() {" + "@" * 400_000 + "}",
        HEAD + ".entry f() {" + "@%p" * 100_000 + ";}",
        HEAD + ".entry f() {" + "L" * 400_000 + "}",
        HEAD + ".entry f() {" + "L: " * 100_000 + "}",
        HEAD + ".entry f() { call " + "(" * 400_000 + ";}",
        HEAD + ".entry f() { mov.b32 a, " + "-" * 400_000 + ";}",
        HEAD + ".entry f() { mov.b32 a, " + "9" * 400_000 + ";}",
        HEAD + ".entry f() { mov.b32 a, " + "1." * 200_000 + ";}",
        HEAD + ".entry f() { mov.b32 a, " + "[" * 400_000 + ";}",
        HEAD + ".entry f() { mov.b32 a, {" + "a," * 200_000 + "};}",
        HEAD + ".entry f() { .reg .b32 " + "x," * 200_000 + ";}",
        HEAD + ".entry f(" + ".param .b32 a," * 80_000 + ") {}",
        HEAD + ".global .b8 x[] = {" + "0," * 300_000 + "};",
        HEAD + ".global .b8 x[] = {" + "((" * 100_000 + "};",
        HEAD + ".global .b8 x" + "[2]" * 100_000 + ";",
        HEAD + ".global .b8 x = " + "a(" * 100_000 + ";",
        HEAD + ".global .b8 x[4] = {" + "f(" * 3000 + ")" * 3000 + "};",
    ],
    ids=lambda text: text[len(HEAD) : len(HEAD) + 40].replace("\n", " "),
)
def test_pathological_text_is_refused_quickly(text: str) -> None:
    start = time.process_time()
    try:
        parse_module(text)
    except PtxError as error:
        assert len(error.render()) < 2000
    # Quadratic behaviour would take minutes on these; a slow machine takes seconds at worst.
    assert time.process_time() - start < 20
