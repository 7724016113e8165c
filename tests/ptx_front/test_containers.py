"""Fat binaries, ELF, PE, archives, images: reading, choosing, refusing."""

from __future__ import annotations

import struct

import pytest

from cuttle.errors import ContainerError
from cuttle.ptx.containers import archive, compression, elf, image, pe
from cuttle.ptx.containers.choose import choose_ptx
from cuttle.ptx.containers.fatbin import (
    FLAG_ARCHITECTURE_SPECIFIC,
    FLAG_FAMILY_SPECIFIC,
    FLAG_ZSTD,
    FatbinEntry,
    fatbin_bytes,
    read_fatbin,
    read_fatbins,
)
from cuttle.ptx.containers.recognise import Kind, recognise
from tests.ptx_front.container_writer import (
    Entry,
    write_archive,
    write_cubin,
    write_elf,
    write_fatbin,
    write_pe,
    write_program,
)

PTX = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n" * 3


@pytest.mark.parametrize("method", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("header_bytes", [64, 80, 112])
def test_entries_are_read_back(method: str, header_bytes: int) -> None:
    cubin = write_cubin({"k": []})
    data = write_fatbin(
        Entry(cubin, 2, 75, method, header_bytes=header_bytes), Entry(PTX, 1, 86, method, version=(8, 3)),
        Entry(b"\1\2\3", 8),
    )  # fmt: skip
    found = read_fatbin(data + b"what follows does not count")
    assert found.size_bytes == fatbin_bytes(data) == len(data)
    assert [e.kind for e in found.entries] == ["cubin", "ptx", "kind-8"]
    assert found.entries[0].payload()[: len(cubin)] == cubin
    assert found.entries[1].payload() == PTX
    assert (found.entries[1].target, found.entries[1].version) == ("compute_86", (8, 3))
    assert found.entries[1].compression == method


@pytest.mark.parametrize("method", ["lz4", "zstd"])
def test_unknown_uncompressed_size(method: str) -> None:
    big = b"".join(b"add.s32 %%r%d, %%r1, 3;\n" % n for n in range(20_000))
    assert read_fatbin(write_fatbin(Entry(big, compression=method, says_uncompressed=0))).entries[0].payload() == big


def test_section_with_padding_between() -> None:
    one, two = write_fatbin(Entry(PTX)), write_fatbin(Entry(PTX, architecture=90))
    found = read_fatbins(one + bytes(-len(one) % 8) + bytes(9000 - 9000 % 8) + two + bytes(100))
    assert [f.entries[0].architecture for f in found] == [80, 90]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("CON-0102", lambda d: d[:-1]),
        ("CON-0102", lambda d: d[:10]),
        ("CON-0101", lambda d: b"\0" + d[1:]),
        ("CON-0103", lambda d: d[:4] + b"\7\0" + d[6:]),
        ("CON-0103", lambda d: d[:6] + b"\2\0" + d[8:]),
        ("CON-0102", lambda d: d[:8] + b"\xff" * 8 + d[16:]),
        ("CON-0103", lambda d: d[:20] + struct.pack("<I", 8) + d[24:]),
        ("CON-0102", lambda d: d[:24] + struct.pack("<Q", 1 << 63) + d[32:]),
    ],
)
def test_broken_headers(code: str, change: object) -> None:
    assert callable(change)
    with pytest.raises(ContainerError) as raised:
        read_fatbin(change(write_fatbin(Entry(PTX))))
    assert raised.value.code == code


def test_damaged_and_bloated_payloads() -> None:
    for method in ("lz4", "zstd"):
        stored = bytes(read_fatbin(write_fatbin(Entry(PTX, compression=method))).entries[0].stored)
        size = len(PTX) + 1
        for bad, says, code in (
            (stored[:-5], size, "CON-0104"), (b"\xff" * 40, size, "CON-0104"), (stored, size + 1, "CON-0104"),
            (stored, 1 << 60, "CON-0105"), (stored, 200 << 20, "CON-0105"),
        ):  # fmt: skip
            with pytest.raises(ContainerError) as raised:
                compression.decompress(method, bad, says)
            assert raised.value.code == code, (method, says)
    bomb = read_fatbin(write_fatbin(Entry(bytes(40 << 20), 2, compression="zstd", says_uncompressed=0))).entries[0]
    with pytest.raises(ContainerError, match="CON-0105"):
        bomb.payload()


def entries(*targets: str) -> list[FatbinEntry]:
    """`80`, `90a`, `100f` are PTX entries, `sm75` is a cubin."""
    result = []
    for target in targets:
        digits = target.strip("smaf")
        flags = FLAG_ARCHITECTURE_SPECIFIC * target.endswith("a") + FLAG_FAMILY_SPECIFIC * target.endswith("f")
        entry = Entry(PTX, 2 if target.startswith("sm") else 1, int(digits), flags=flags)
        result.extend(read_fatbin(write_fatbin(entry)).entries)
    return result


@pytest.mark.parametrize(
    ("held", "capability", "chosen", "exceeds"),
    [
        (("50", "70", "90"), (8, 0), "compute_70", False),
        (("70", "80", "90"), (8, 0), "compute_80", False),
        (("90", "120"), (8, 0), "compute_90", True),
        (("80", "90a"), (9, 0), "compute_90a", False),
        (("90", "90a"), (9, 0), "compute_90", False),
        (("80", "90a"), (12, 0), "compute_80", False),
        (("90a",), (12, 0), "compute_90a", False),
        (("sm75", "100f"), (8, 6), "compute_100f", True),
    ],
)
def test_choice(held: tuple[str, ...], capability: tuple[int, int], chosen: str, exceeds: bool) -> None:
    choice = choose_ptx(entries(*held), capability)
    assert (choice.entry.target, choice.exceeds_device) == (chosen, exceeds)


def test_no_ptx_names_what_is_there() -> None:
    with pytest.raises(ContainerError, match="sm_75, sm_86") as raised:
        choose_ptx(entries("sm86", "sm75"), (8, 0))
    assert raised.value.code == "CON-0201" and "code=compute_80" in raised.value.hint


def test_cubin_kernels() -> None:
    data = write_cubin({"alpha": [(0, 8), (8, 1), (16, 16)], "beta": []}, 120)
    headers = elf.read_elf(data)
    assert headers.is_cubin and headers.architecture == 120
    alpha, beta = elf.cubin_kernels(data, headers)
    assert [(p.ordinal, p.offset, p.size_bytes) for p in alpha.parameters] == [(0, 0, 8), (1, 8, 1), (2, 16, 16)]
    assert (alpha.name, alpha.parameter_bytes, beta.parameters) == ("alpha", 32, ())
    assert elf.elf_bytes(data + b"tail") == len(data)


@pytest.mark.parametrize("bits", [32, 64])
def test_host_elf(bits: int) -> None:
    data = write_program(write_fatbin(Entry(PTX)), ("libcudart.so.12", "libc.so.6"), bits)
    headers = elf.read_elf(data)
    assert elf.needed_libraries(data, headers) == ("libcudart.so.12", "libc.so.6")
    assert read_fatbins(elf.fatbin_sections(data, headers)[0])[0].entries[0].payload() == PTX


def test_elf_with_impossible_tables() -> None:
    good = write_elf({".text": b"abc"})
    for place, value, code in ((40, b"\xff" * 8, "CON-0102"), (58, b"\1\0", "CON-0103"), (60, b"\xff\xff", "CON-0102")):
        with pytest.raises(ContainerError) as raised:
            elf.read_elf(good[:place] + value + good[place + len(value) :])
        assert raised.value.code == code


def test_pe() -> None:
    data = write_pe(write_fatbin(Entry(PTX)), ("cudart64_12.dll", "KERNEL32.dll"))
    headers = pe.read_pe(data)
    assert headers.bits == 64
    assert pe.imported_libraries(data, headers) == ("cudart64_12.dll", "KERNEL32.dll")
    assert read_fatbins(pe.fatbin_sections(data, headers)[0])[0].entries[0].payload() == PTX


def test_archive() -> None:
    data = write_archive({"a.o": b"abc", "b.o": b"defg"})
    assert [(m.name, bytes(m.data)) for m in archive.members(data)] == [("a.o", b"abc"), ("b.o", b"defg")]
    with pytest.raises(ContainerError, match="CON-0103"):
        list(archive.members(data[:8] + bytes(200)))


def test_image() -> None:
    data = image.pack_image(PTX.decode())
    assert image.image_bytes(data) == len(data) and image.unpack_image(data + b"tail") == PTX
    with pytest.raises(ContainerError, match="CON-0102"):
        image.unpack_image(data[:-1])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (write_fatbin(Entry(PTX)), Kind.FATBIN),
        (struct.pack("<II", 0x466243B1, 1), Kind.FATBIN_WRAPPER),
        (struct.pack("<II", 0x1EE55A01, 1), Kind.OLD_FATBIN),
        (write_cubin({}), Kind.CUBIN),
        (write_program(b""), Kind.HOST_ELF),
        (write_pe(b"x"), Kind.PE),
        (PTX, Kind.PTX),
        (b"//\n// Generated\n/* x */ \n\t.version 7.0\n", Kind.PTX),
        (b" " * 60_000, Kind.UNKNOWN),
        (b"/*" * 30_000, Kind.UNKNOWN),
        (image.pack_image(""), Kind.IMAGE),
        (write_archive({}), Kind.ARCHIVE),
        (b"", Kind.UNKNOWN),
        (b"#!/bin/sh\n.version 8.0", Kind.UNKNOWN),
    ],
)
def test_recognise(data: bytes, kind: Kind) -> None:
    assert recognise(data) is kind


def test_flags_are_those_of_the_facts() -> None:
    entry = read_fatbin(write_fatbin(Entry(PTX, compression="zstd"))).entries[0]
    assert entry.flags & FLAG_ZSTD and entry.flags & 0x8000
