"""Loads, stores and atomics of every width and address space, on hand-made memory."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import pytest

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.errors import IllegalAddress
from cuttle.device.rdna.semantics import OPERATIONS
from cuttle.device.rdna.waves import PRIVATE_APERTURE, SHARED_APERTURE
from tests.device.rdna.encode import Wave, ds, flat

BYTES = bytes((0x80 + 0x11 * n) & 0xFF for n in range(32))  # 80 91 a2 b3 c4 d5 e6 f7 08 19 ...
WORDS = struct.unpack("<8I", BYTES)
OLD = 0x12345678  # what destination registers held
# What a load of a kind makes of 80 91 at the address, in a register that held OLD.
NARROW = {
    "u8": 0x80, "i8": 0xFFFFFF80, "u16": 0x9180, "i16": 0xFFFF9180, "d16_u8": 0x12340080, "d16_i8": 0x1234FF80, "d16_b16": 0x12349180,
    "d16_hi_u8": 0x00805678, "d16_hi_i8": 0xFF805678, "d16_hi_b16": 0x91805678,
}  # fmt: skip
LOADS = [name for e in ("FLAT", "GLOBAL", "SCRATCH") for name in OPCODES[e] if "_load_" in name and name in OPERATIONS]
STORES = [
    name for e in ("FLAT", "GLOBAL", "SCRATCH") for name in OPCODES[e] if "_store_" in name and name in OPERATIONS
]
ATOMICS = [name for e in ("FLAT", "GLOBAL") for name in OPCODES[e] if "_atomic_" in name and name in OPERATIONS]


def families(mnemonic: str, encoding: str) -> list[str]:
    return [
        family for family, op in zip(("gfx11", "gfx12"), OPCODES[encoding][mnemonic], strict=False) if op is not None
    ]


def place(wave: Wave, encoding: str, contents: bytes) -> int:
    """Puts bytes where lane 0's address v10 leads (plus 4, the offset of the instructions here); returns the base."""
    if encoding == "SCRATCH":
        wave.set_vector(10, 12)
        wave.waves.scratch.bytes[16 : 16 + len(contents)] = np.frombuffer(contents, np.uint8)
        return 0
    base = wave.memory.allocate(256)
    wave.memory.write(base + 16, contents)
    wave.set_vector(10, base + 12, 64)
    return base


def read_back(wave: Wave, encoding: str, base: int, size: int) -> bytes:
    if encoding == "SCRATCH":
        return bytes(wave.waves.scratch.bytes[16 : 16 + size])
    return wave.memory.read(base + 16, size)


def one_lane() -> Wave:
    wave = Wave()
    wave.set_scalar(126, 1)
    for register in range(30, 40):
        wave.set_vector(register, OLD)
    return wave


@pytest.mark.parametrize("mnemonic", LOADS)
def test_load(mnemonic: str) -> None:
    encoding, kind = mnemonic.split("_")[0].upper(), mnemonic.partition("_load_")[2]
    for family in families(mnemonic, encoding):
        wave = one_lane()
        place(wave, encoding, BYTES)
        wave.run(family, flat(mnemonic, family, 30, 10, offset=4))
        count = int(kind[1:]) // 32 if kind in ("b32", "b64", "b96", "b128") else 0
        wanted = list(WORDS[:count]) if count else [NARROW[kind]]
        assert [wave.vector(30 + n)[0] for n in range(len(wanted))] == wanted
        assert wave.vector(30 + len(wanted))[0] == OLD and wave.vector(30)[1] == OLD


@pytest.mark.parametrize("mnemonic", STORES)
def test_store(mnemonic: str) -> None:
    encoding, kind = mnemonic.split("_")[0].upper(), mnemonic.partition("_store_")[2]
    for family in families(mnemonic, encoding):
        wave = one_lane()
        base = place(wave, encoding, b"\x55" * 24)
        for n in range(4):
            wave.set_vector(20 + n, WORDS[n])
        wave.run(family, flat(mnemonic, family, 0, 10, 20, offset=4))
        bits = int(re.sub(r"\D", "", kind.rpartition("_")[2]))
        source = BYTES[2:] if "hi" in kind else BYTES
        assert read_back(wave, encoding, base, 24) == source[: bits // 8] + b"\x55" * (24 - bits // 8)


def f(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def d(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


# Old value, data, compare (or second operand), new value.
RESULTS: dict[str, tuple[int, int, int, int]] = {
    "swap_b": (5, 9, 0, 9), "cmpswap_b": (5, 9, 5, 9), "add_u": (5, 9, 0, 14), "sub_u": (9, 5, 0, 4), "rsub_u": (5, 9, 0, 4),
    "min_i": (-5, 3, 0, -5), "max_i": (-5, 3, 0, 3), "min_u": (-5, 3, 0, 3), "max_u": (-5, 3, 0, -5), "and_b": (12, 10, 0, 8), "or_b": (12, 10, 0, 14),
    "xor_b": (12, 10, 0, 6), "inc_u": (9, 9, 0, 0), "dec_u": (0, 9, 0, 9), "mskor_b": (0xFF, 0x0F, 0x05, 0xF5), "csub_u": (3, 5, 0, 0),
    "sub_clamp_u": (3, 5, 0, 0), "cond_sub_u": (3, 5, 0, 3), "wrap_b": (3, 5, 10, 13),
}  # fmt: skip
FLOATS: dict[str, tuple[float, float, float, float]] = {
    "add_f": (1.5, 2.0, 0, 3.5), "min_f": (1.5, -2.0, 0, -2.0), "max_f": (1.5, -2.0, 0, 1.5), "min_num_f": (1.5, -2.0, 0, -2.0),
    "max_num_f": (1.5, 2.0, 0, 2.0), "cmpswap_f": (1.5, 2.0, 1.5, 2.0),
}  # fmt: skip
PAIRS = {"pk_add_f16": (0x40003C00, 0x3C003C00, 0, 0x42004000), "pk_add_bf16": (0x40003F80, 0x3F803F80, 0, 0x40404000)}


def atomic_case(name: str) -> tuple[int, int, int, int, int]:
    """(bytes, old, data, compare, new) of an operation such as `add_u32`."""
    if name in PAIRS:
        return 4, *PAIRS[name]
    stem, bits = name[:-2], int(name[-2:])
    if stem in FLOATS:
        convert = f if bits == 32 else d
        old, data, compare, new = (convert(x) for x in FLOATS[stem])
    else:
        old, data, compare, new = (x & (1 << bits) - 1 for x in RESULTS[stem])
    return bits // 8, old, data, compare, new


@pytest.mark.parametrize("mnemonic", ATOMICS)
def test_atomic(mnemonic: str) -> None:
    encoding, name = mnemonic.split("_")[0].upper(), mnemonic.partition("_atomic_")[2]
    size, old, data, compare, new = atomic_case(name)
    for family in families(mnemonic, encoding):
        for returns in (True, False):
            wave = one_lane()
            base = place(wave, encoding, old.to_bytes(size, "little"))
            wave.set_vector(20, data, 8 * size)
            wave.set_vector(20 + size // 4, compare, 8 * size)
            wave.run(family, flat(mnemonic, family, 30, 10, 20, offset=4, returns=returns))
            assert int.from_bytes(read_back(wave, encoding, base, size), "little") == new
            kept = OLD | OLD << 32 if size == 8 else OLD
            assert wave.vector(30, 8 * size)[0] == (old if returns else kept)


def test_global_address_with_a_scalar_base() -> None:
    for family in ("gfx11", "gfx12"):
        wave = one_lane()
        base = wave.memory.allocate(64)
        wave.memory.write(base + 20, BYTES)
        wave.set_scalar(10, base, 64)
        wave.set_vector(12, 28)
        wave.run(family, flat("global_load_b32", family, 30, 12, scalar=10, offset=-8))
        assert wave.vector(30)[0] == WORDS[0]


def test_scratch_address_forms() -> None:
    for family in ("gfx11", "gfx12"):
        for scalar, uses_vector, at in ((124, True, 12), (20, False, 20), (20, True, 28), (124, False, 4)):
            wave = one_lane()
            wave.set_vector(10, 8)
            wave.set_scalar(20, 16)
            wave.waves.scratch.bytes[at : at + 4] = list(BYTES[:4])
            wave.run(family, flat("scratch_load_b32", family, 30, 10, scalar=scalar, offset=4, uses_vector=uses_vector))
            assert wave.vector(30)[0] == WORDS[0]


def test_flat_addresses_reach_all_spaces() -> None:
    wave = Wave()
    base = wave.memory.allocate(64)
    wave.memory.write(base, struct.pack("<I", 111))
    wave.waves.lds.words[4] = 222
    wave.waves.scratch.words[wave.waves.scratch.stride // 4 * 2 + 5] = 333  # lane 2, byte 20
    addresses = [base, SHARED_APERTURE + 16, PRIVATE_APERTURE + 20] + [base] * 29
    wave.set_vector(10, addresses, 64)
    wave.run("gfx11", flat("flat_load_b32", "gfx11", 30, 10))
    assert wave.vector(30)[:4] == [111, 222, 333, 111]
    wave.set_vector(20, [7, 8, 9] + [7] * 29)
    wave.run("gfx11", flat("flat_store_b32", "gfx11", 0, 10, 20))
    assert (
        wave.memory.read(base, 1)[0],
        wave.waves.lds.words[4],
        wave.waves.scratch.words[wave.waves.scratch.stride // 4 * 2 + 5],
    ) == (7, 8, 9)
    wave.run("gfx11", flat("flat_atomic_add_u32", "gfx11", 0, 10, 20))
    assert (wave.memory.read(base, 1)[0], wave.waves.lds.words[4]) == (7 * 31 & 255, 16)


@pytest.mark.parametrize(
    "mnemonic", [name for name in OPCODES["DS"] if re.fullmatch(r"ds_(load|store)_[uib]\d+(_d16)?(_hi)?", name)]
)
def test_share_access(mnemonic: str) -> None:
    match = re.fullmatch(r"ds_(load|store)_([uib]\d+)(_d16)?(_hi)?", mnemonic)
    assert match is not None
    action, kind, d16, high = match.groups()
    bits = int(kind[1:])
    wave = one_lane()
    wave.set_vector(10, 8)
    if action == "load":
        wave.waves.lds.bytes[276:308] = list(BYTES)
        wave.run(*ds(mnemonic, 30, 10, offset=12, offset1=1))
        name = ("d16_" if d16 else "") + ("hi_" if high else "") + (kind if not (d16 and kind == "u16") else "b16")
        wanted = list(WORDS[: bits // 32]) if bits >= 32 else [NARROW[name]]
        assert [wave.vector(30 + n)[0] for n in range(len(wanted))] == wanted
        return
    for n in range(4):
        wave.set_vector(20 + n, WORDS[n])
    wave.run(*ds(mnemonic, 0, 10, 20, offset=12, offset1=1))
    source = BYTES[2:] if high else BYTES
    assert bytes(wave.waves.lds.bytes[276 : 276 + bits // 8 + 1]) == source[: bits // 8] + b"\xa5"


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("stride", ["", "_stride64"])
def test_share_pairs(bits: int, stride: str) -> None:
    size, unit = bits // 8, bits // 8 * (64 if stride else 1)
    wave = one_lane()
    wave.waves.lds.bytes[:] = 0
    wave.set_vector(10, 16)
    wave.set_vector(20, 0x1111111122222222 & (1 << bits) - 1, bits)
    wave.set_vector(22, 0x3333333344444444 & (1 << bits) - 1, bits)
    wave.run(*ds(f"ds_store_2addr{stride}_b{bits}", 0, 10, 20, 22, offset=1, offset1=0))
    at = (16 + unit, 16)
    assert [int.from_bytes(bytes(wave.waves.lds.bytes[p : p + size]), "little") for p in at] == [
        wave.vector(r, bits)[0] for r in (20, 22)
    ]
    wave.run(*ds(f"ds_load_2addr{stride}_b{bits}", 30, 10, offset=0, offset1=1))
    assert [wave.vector(30 + n * size // 4, bits)[0] for n in range(2)] == [wave.vector(r, bits)[0] for r in (22, 20)]
    wave.set_vector(24, 5, bits)
    wave.set_vector(26, 6, bits)
    wave.run(*ds(f"ds_storexchg_2addr{stride}_rtn_b{bits}", 34, 10, 24, 26, offset=0, offset1=1))
    assert [wave.vector(34 + n * size // 4, bits)[0] for n in range(2)] == [wave.vector(r, bits)[0] for r in (22, 20)]
    assert wave.waves.lds.bytes[16] == 5 and wave.waves.lds.bytes[16 + unit] == 6


def share_atomic_name(mnemonic: str) -> str:
    return mnemonic.removeprefix("ds_").replace("_rtn", "").replace("storexchg", "swap").replace("cmpstore", "cmpswap")


SHARE_ATOMICS = [
    name for name in OPCODES["DS"]
    if name in OPERATIONS and (share_atomic_name(name)[:-2] in {**RESULTS, **FLOATS} or share_atomic_name(name) in PAIRS)
]  # fmt: skip


@pytest.mark.parametrize("mnemonic", SHARE_ATOMICS)
def test_share_atomic(mnemonic: str) -> None:
    size, old, data, compare, new = atomic_case(share_atomic_name(mnemonic))
    wave = one_lane()
    wave.set_vector(10, 8)
    wave.set_vector(20, data, 8 * size)
    wave.set_vector(22, compare, 8 * size)
    wave.waves.lds.bytes[16 : 16 + size] = list(old.to_bytes(size, "little"))
    wave.run(*ds(mnemonic, 30, 10, 20, 22, offset=8))
    assert int.from_bytes(bytes(wave.waves.lds.bytes[16 : 16 + size]), "little") == new
    returns = "_rtn" in mnemonic
    assert wave.vector(30, 8 * size)[0] == (old if returns else OLD | (OLD << 32 if size == 8 else 0))


def test_share_by_lane_and_counters() -> None:
    wave = Wave()
    wave.set_scalar(125, 16)
    wave.set_vector(20, list(range(32)))
    wave.run(*ds("ds_store_addtid_b32", 0, 0, 20, offset=4))
    assert wave.waves.lds.words[5:9].tolist() == [0, 1, 2, 3]
    wave.run(*ds("ds_load_addtid_b32", 30, 0, offset=4))
    assert wave.vector(30) == list(range(32))
    wave.set_scalar(125, 16 << 16)
    wave.set_scalar(126, 0xFF)
    wave.waves.lds.words[5] = 100
    wave.run(*ds("ds_append", 30, 0, offset=4))
    assert wave.vector(30)[3] == 100 and wave.waves.lds.words[5] == 108
    wave.run(*ds("ds_consume", 30, 0, offset=4))
    assert wave.vector(30)[3] == 108 and wave.waves.lds.words[5] == 100
    wave.run(*ds("ds_nop", 0, 0))


@pytest.mark.parametrize("mnemonic", [name for name in OPCODES["SMEM"] if name in OPERATIONS])
def test_scalar_memory(mnemonic: str) -> None:
    for family in families(mnemonic, "SMEM"):
        op = OPCODES["SMEM"][mnemonic][0 if family == "gfx11" else 1]
        assert op is not None
        wave = Wave()
        base = wave.memory.allocate(256)
        wave.memory.write(base + 20, BYTES * 3)
        wave.set_scalar(10, base, 64)
        wave.set_scalar(14, 24)
        word = 0b111101 << 26 | op << (18 if family == "gfx11" else 13) | 40 << 6 | 5
        offset = -4 & (0x1FFFFF if family == "gfx11" else 0xFFFFFF)
        wave.run(family, struct.pack("<2I", word, 14 << 25 | offset))
        kind = mnemonic.removeprefix("s_load_")
        if mnemonic.startswith("s_load"):
            count = int(kind[1:]) // 32
            wanted = list((WORDS * 2)[:count]) if count else [NARROW[kind]]
            assert [wave.scalar(40 + n) for n in range(len(wanted))] == wanted


def test_cache_controls_do_nothing() -> None:
    wave = Wave()
    for number in (43, 44):  # buffer_gl0_inv, buffer_gl1_inv
        wave.run("gfx11", struct.pack("<2I", 0b111000 << 26 | number << 18, 0))
    for mnemonic in ("global_inv", "global_wb", "global_wbinv"):
        wave.run("gfx12", flat(mnemonic, "gfx12", 0, 0))


def test_bounds() -> None:
    wave = one_lane()
    base = wave.memory.allocate(10)
    wave.set_vector(10, base + 8, 64)
    for mnemonic in ("global_load_b32", "global_store_b32", "global_atomic_add_u32", "flat_load_b64"):
        with pytest.raises(IllegalAddress, match="not allocated"):
            wave.run("gfx11", flat(mnemonic, "gfx11", 30, 10, 20))
    wave.run("gfx11", flat("global_load_u16", "gfx11", 30, 10))
    wave.set_vector(10, 1021)
    with pytest.raises(IllegalAddress, match="LDS of 1024 bytes"):
        wave.run(*ds("ds_load_b32", 30, 10))
    with pytest.raises(IllegalAddress, match="scratch of 256 bytes"):
        wave.run("gfx11", flat("scratch_load_b32", "gfx11", 30, 10))
    wave.set_vector(10, base + 1, 64)
    with pytest.raises(IllegalAddress, match="no multiple of 4"):
        wave.run("gfx11", flat("global_atomic_add_u32", "gfx11", 30, 10, 20))


def test_unaligned_accesses_and_several_regions() -> None:
    wave = Wave()
    first, second = wave.memory.allocate(64, 0), wave.memory.allocate(64, 0)
    wave.memory.write(second + 1, BYTES)
    wave.set_vector(10, [second + 1, first] * 16, 64)
    wave.run("gfx12", flat("global_load_b64", "gfx12", 30, 10))
    assert wave.vector(30, 64)[:2] == [WORDS[1] << 32 | WORDS[0], 0]
    wave.set_vector(20, [1, 2] * 16)
    wave.run("gfx12", flat("global_store_b32", "gfx12", 0, 10, 20))
    assert wave.memory.read(second, 6) == b"\0\1\0\0\0" + BYTES[4:5] and wave.memory.read(first, 4) == b"\2\0\0\0"


def test_special_operations_are_all_tested() -> None:
    """Every mnemonic with a builder of its own appears in a test here or beside."""
    from pathlib import Path

    text = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    generic: set[Any] = {*LOADS, *STORES, *ATOMICS, *SHARE_ATOMICS, *(n for n in OPCODES["DS"] if re.match(r"ds_(load|store)", n)),
                         *(n for n in OPCODES["SMEM"]), *(n for n in OPERATIONS if "saveexec" in n or "wrexec" in n)}  # fmt: skip
    missing = [
        o.mnemonic
        for o in OPERATIONS.values()
        if o.kind == "special" and o.mnemonic not in generic and o.mnemonic not in text
    ]
    assert not missing
