"""Instructions between lanes, of control flow, modes and barriers, on hand-made registers."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.decode import DataParallelPrimitive
from cuttle.device.rdna.errors import IllegalInstruction, Trap
from cuttle.device.rdna.operands import dpp_lanes
from cuttle.device.rdna.program_control import STOP
from cuttle.device.rdna.schedule import open_barriers
from cuttle.device.rdna.waves import AT_BARRIER, ENDED, READY
from tests.device.rdna.encode import V, Wave, ds, sop, vop3, vop3p

LANES = list(range(32))


def numbered(**options: Any) -> Wave:
    """v10 holds 100 + lane."""
    wave = Wave(**options)
    wave.set_vector(10, [100 + n for n in LANES])
    return wave


def vop1(mnemonic: str, destination: int, source: int) -> bytes:
    row = OPCODES["VOP1"][mnemonic]
    op = row[0] if row[0] is not None else row[1]
    assert op is not None
    return struct.pack("<I", 0b0111111 << 25 | (destination & 255) << 17 | op << 9 | source)


def test_read_and_write_lane() -> None:
    wave = numbered()
    wave.run(*vop3("v_readlane_b32", 40, [V + 10, 128 + 5]))
    assert wave.scalar(40) == 105
    wave.set_scalar(126, 0xFFFFFF00)
    wave.run("gfx11", vop1("v_readfirstlane_b32", 41, V + 10))
    assert wave.scalar(41) == 108
    wave.set_scalar(126, 0)
    wave.run("gfx11", vop1("v_readfirstlane_b32", 41, V + 10))
    assert wave.scalar(41) == 100
    wave.run(*vop3("v_writelane_b32", 10, [128 + 7, 128 + 3]))  # inactive lanes, too
    assert wave.vector(10)[2:5] == [102, 7, 104]


def test_permute_rows() -> None:
    wave = numbered()
    wave.set_scalar(20, 0x76543210)
    wave.set_scalar(21, 0x01234567)
    wave.run(*vop3("v_permlane16_b32", 30, [V + 10, 20, 21]))
    row = [0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0]
    assert wave.vector(30) == [100 + n for n in row] + [116 + n for n in row]
    wave.run(*vop3("v_permlanex16_b32", 30, [V + 10, 20, 21]))
    assert wave.vector(30) == [116 + n for n in row] + [100 + n for n in row]
    wave.set_vector(12, [15 - n % 16 for n in LANES])
    wave.run(*vop3("v_permlane16_var_b32", 30, [V + 10, V + 12]))
    assert wave.vector(30)[:2] == [115, 114] and wave.vector(30)[16] == 131
    wave.run(*vop3("v_permlanex16_var_b32", 30, [V + 10, V + 12]))
    assert wave.vector(30)[:2] == [131, 130] and wave.vector(30)[16] == 115


@pytest.mark.parametrize(("op_sel", "expected"), [(0, 7), (1, 101), (2, 0)])
def test_permute_from_inactive_lanes(op_sel: int, expected: int) -> None:
    """Lane 0 reads lane 1, which is inactive: kept, fetched all the same, or 0."""
    wave = numbered()
    wave.set_scalar(126, 0xFFFFFFFD)
    wave.set_vector(30, 7)
    wave.run(*vop3("v_permlane16_b32", 30, [V + 10, 129, 128], op_sel=op_sel))
    assert wave.vector(30)[0] == expected


def test_permlane64_does_nothing_in_small_waves() -> None:
    wave = numbered()
    wave.set_vector(30, 7)
    wave.run("gfx11", vop1("v_permlane64_b32", 30, V + 10))
    assert set(wave.vector(30)) == {7}


def test_bpermute_and_permute() -> None:
    wave = numbered()
    wave.set_vector(12, [4 * (31 - n) for n in LANES])
    wave.run(*ds("ds_bpermute_b32", 30, 12, 10))
    assert wave.vector(30) == [131 - n for n in LANES]
    wave.run(*ds("ds_permute_b32", 30, 12, 10))
    assert wave.vector(30) == [131 - n for n in LANES]
    wave.set_vector(12, [0] * 32)
    wave.run(*ds("ds_permute_b32", 30, 12, 10))
    assert wave.vector(30) == [131] + [0] * 31
    wave.set_vector(12, [4] * 32)
    wave.set_scalar(126, 0xFFFFFFFD)
    wave.run(*ds("ds_bpermute_b32", 30, 12, 10))
    assert wave.vector(30)[0] == 0  # from an inactive lane
    wave.run(*ds("ds_bpermute_fi_b32", 30, 12, 10))
    assert wave.vector(30)[0] == 101


@pytest.mark.parametrize(
    ("offset", "lanes"),
    [
        (0x8000 | 0b00011011, [3, 2, 1, 0, 7, 6, 5, 4]),  # quads reversed
        (0x1F | 1 << 10, [1, 0, 3, 2, 5, 4, 7, 6]),  # xor 1
        (0x1E, [0, 0, 2, 2, 4, 4, 6, 6]),  # and 30
        (0x1F | 4 << 5, [4, 5, 6, 7, 4, 5, 6, 7]),  # or 4
        (0xC000 | 1 << 5, [1, 2, 3, 4, 5, 6, 7, 8]),  # rotate by 1
    ],
)
def test_swizzle(offset: int, lanes: list[int]) -> None:
    wave = numbered()
    wave.run(*ds("ds_swizzle_b32", 30, 10, offset=offset & 255, offset1=offset >> 8))
    assert wave.vector(30)[:8] == [100 + n for n in lanes]


def test_masked_counts() -> None:
    wave = Wave()
    wave.set_vector(12, 5)
    wave.run(*vop3("v_mbcnt_lo_u32_b32", 30, [193, V + 12]))
    assert wave.vector(30) == [5 + n for n in LANES]
    wave.run(*vop3("v_mbcnt_hi_u32_b32", 30, [193, V + 12]))
    assert set(wave.vector(30)) == {5}


def test_swaps() -> None:
    wave = numbered()
    wave.set_vector(12, 7)
    wave.run("gfx11", vop1("v_swap_b32", 12, V + 10))
    assert wave.vector(12)[1] == 101 and wave.vector(10)[1] == 7
    wave.set_vector(12, 0x11112222)
    wave.set_vector(14, 0x33334444)
    wave.run("gfx11", vop1("v_swap_b16", 12 | 128, V + 14))  # v12.h and v14.l
    assert wave.vector(12)[0] == 0x44442222 and wave.vector(14)[0] == 0x33331111


def test_relative_moves() -> None:
    for mnemonic, m0, changed, value in (
        ("v_movreld_b32", 3, 33, 110), ("v_movrels_b32", 3, 30, 113), ("v_movrelsd_b32", 3, 33, 113),
        ("v_movrelsd_2_b32", 5 << 16 | 3, 35, 113),
    ):  # fmt: skip
        wave = Wave()
        for register in range(64):
            wave.set_vector(register, 100 + register)
        wave.set_scalar(125, m0)
        wave.run("gfx11", vop1(mnemonic, 30, V + 10))
        assert wave.vector(changed)[0] == value, mnemonic
    wave = Wave()
    for register in range(64):
        wave.set_vector(register, 100 + register)
    wave.set_scalar(125, 5 << 16 | 3)
    wave.run("gfx11", vop1("v_swaprel_b32", 30, V + 10))
    assert wave.vector(35)[0] == 113 and wave.vector(13)[0] == 135
    wave.set_scalar(125, 1000)
    with pytest.raises(IllegalInstruction, match="not allocated"):
        wave.run("gfx11", vop1("v_movrels_b32", 30, V + 10))
    for mnemonic, destination, value in (("s_movrels_b32", 30, 13), ("s_movreld_b32", 33, 10)):
        wave = Wave()
        for register in range(100):
            wave.set_scalar(register, register)
        wave.set_scalar(125, 3)
        wave.run(*sop(mnemonic, 30, [10]))
        assert wave.scalar(destination) == value
    for mnemonic, destination, value in (("s_movrels_b64", 30, 13 << 32 | 12), ("s_movreld_b64", 32, 11 << 32 | 10)):
        wave = Wave()
        for register in range(100):
            wave.set_scalar(register, register)
        wave.set_scalar(125, 2)
        wave.run(*sop(mnemonic, 30, [10]))
        assert wave.scalar(destination, 64) == value


@pytest.mark.parametrize(
    ("control", "lanes"),
    [
        (0x1B, [3, 2, 1, 0, 7, 6]),  # quad_perm 3 2 1 0
        (0x101, [1, 2, 3, 4, 5, 6]),  # row_shl 1
        (0x111, [-1, 0, 1, 2, 3, 4]),  # row_shr 1
        (0x121, [15, 0, 1, 2, 3, 4]),  # row_ror 1
        (0x140, [15, 14, 13, 12, 11, 10]),  # row_mirror
        (0x141, [7, 6, 5, 4, 3, 2]),  # row_half_mirror
        (0x153, [3, 3, 3, 3, 3, 3]),  # row_share 3
        (0x161, [1, 0, 3, 2, 5, 4]),  # row_xmask 1
    ],
)
def test_dpp_lanes(control: int, lanes: list[int]) -> None:
    source, inside = dpp_lanes(DataParallelPrimitive(control=control))
    assert [int(s) if i else -1 for s, i in zip(source, inside, strict=True)][:6] == lanes
    second = [lane + 16 if lane >= 0 else lane for lane in lanes]
    assert [int(s) if i else -1 for s, i in zip(source, inside, strict=True)][16:22] == second


def _dpp16(
    control: int, *, bound: bool = False, fetch_inactive: bool = False, row_mask: int = 15, bank_mask: int = 15
) -> bytes:
    """v_mov_b32 v30, v10 with DPP."""
    word = 0b0111111 << 25 | 30 << 17 | 1 << 9 | 250
    second = 10 | control << 8 | int(fetch_inactive) << 18 | int(bound) << 19 | bank_mask << 24 | row_mask << 28
    return struct.pack("<2I", word, second)


def test_dpp_moves() -> None:
    wave = numbered()
    wave.set_vector(30, 7)
    wave.run("gfx11", _dpp16(0x111))
    assert wave.vector(30)[:3] == [7, 100, 101]  # lane 0 cannot read and keeps its value
    wave.run("gfx11", _dpp16(0x111, bound=True))
    assert wave.vector(30)[:3] == [0, 100, 101]
    wave.set_vector(30, 7)
    wave.run("gfx11", _dpp16(0x1B, row_mask=1, bank_mask=2))
    assert wave.vector(30)[:9] == [7, 7, 7, 7, 107, 106, 105, 104, 7] and wave.vector(30)[20] == 7
    wave.set_vector(30, 7)
    wave.set_scalar(126, 0xFFFFFFFE)
    wave.run("gfx11", _dpp16(0xB1))
    assert wave.vector(30)[:3] == [7, 7, 103]  # lane 1 reads the inactive lane 0
    wave.run("gfx11", _dpp16(0xB1, fetch_inactive=True))
    assert wave.vector(30)[1] == 100
    wave = numbered()
    lanes = sum((7 - n) << 3 * n for n in range(8))
    wave.run("gfx11", struct.pack("<2I", 0b0111111 << 25 | 30 << 17 | 1 << 9 | 233, lanes << 8 | 10))
    assert wave.vector(30)[:9] == [107, 106, 105, 104, 103, 102, 101, 100, 115]


# -- EXEC --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mnemonic", "result"),
    [("and", 0b1000), ("or", 0b1110), ("xor", 0b0110), ("nand", ~0b1000), ("nor", ~0b1110), ("xnor", ~0b0110),
     ("and_not0", 0b0010), ("or_not0", ~0b0100), ("and_not1", 0b0100), ("or_not1", ~0b0010)],
)  # fmt: skip
def test_saveexec(mnemonic: str, result: int) -> None:
    """EXEC 1010, source 1100."""
    wave = Wave()
    wave.set_scalar(126, 0b1010)
    wave.set_scalar(10, 0b1100)
    wave.run(*sop(f"s_{mnemonic}_saveexec_b32", 30, [10]))
    assert (wave.scalar(30), wave.scalar(126), wave.scc) == (0b1010, result & 0xFFFFFFFF, 1)
    if mnemonic in ("and_not0", "and_not1"):
        wave.set_scalar(126, 0b1010)
        wave.run(*sop(f"s_{mnemonic}_wrexec_b32", 30, [10]))
        assert wave.scalar(30) == wave.scalar(126) == result


# -- control -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mnemonic", "set_up", "taken"),
    [("s_branch", {}, True), ("s_cbranch_scc0", {"scc": 0}, True), ("s_cbranch_scc1", {"scc": 0}, False),
     ("s_cbranch_vccz", {"vcc": 0}, True), ("s_cbranch_vccnz", {"vcc": 0}, False), ("s_cbranch_execz", {"exec": 1}, False),
     ("s_cbranch_execnz", {"exec": 1}, True)],
)  # fmt: skip
def test_branches(mnemonic: str, set_up: dict[str, int], taken: bool) -> None:
    wave = Wave()
    wave.waves.condition[:] = set_up.get("scc", 1)
    wave.set_scalar(106, set_up.get("vcc", 1))
    wave.set_scalar(126, set_up.get("exec", 0xFFFFFFFF))
    assert wave.run(*sop(mnemonic, 0, [], immediate=-3)) == (0x1000 + 4 - 12 if taken else None)


def test_waves_part_at_branches() -> None:
    wave = Wave(2)
    wave.waves.condition[:] = [0, 1]
    assert wave.run(*sop("s_cbranch_scc1", 0, [], immediate=4)).tolist() == [0x1004, 0x1014]


def test_calls_and_jumps() -> None:
    wave = Wave()
    assert wave.run(*sop("s_getpc_b64", 30, [])) is None and wave.scalar(30, 64) == 0x1004
    assert wave.run(*sop("s_call_b64", 30, [], immediate=8)) == 0x1024 and wave.scalar(30, 64) == 0x1004
    wave.set_scalar(10, 0x123456789A0, 64)
    assert wave.run(*sop("s_setpc_b64", 0, [10])) == 0x123456789A0
    assert wave.run(*sop("s_swappc_b64", 10, [10])) == 0x123456789A0 and wave.scalar(10, 64) == 0x1004
    with pytest.raises(IllegalInstruction):
        wave.run(*sop("s_rfe_b64", 0, [10]))


def test_ends_and_traps() -> None:
    for mnemonic in ("s_endpgm", "s_endpgm_saved"):
        wave = Wave()
        assert wave.run(*sop(mnemonic, 0, [])) is STOP and wave.waves.state[0] == ENDED
    with pytest.raises(Trap, match="s_trap 3"):
        Wave().run(*sop("s_trap", 0, [], immediate=3))


def test_barriers() -> None:
    wave = Wave(2)
    wave.waves.state[1] = READY
    wave.run(*sop("s_barrier", 0, []))
    assert (wave.waves.state == AT_BARRIER).all() and open_barriers(wave.waves) and (wave.waves.state == READY).all()
    wave = Wave(2)
    wave.run(*sop("s_barrier_signal", 0, [193]))
    assert wave.waves.signals.tolist() == [1, 1]
    wave.run(*sop("s_barrier_wait", 0, [], immediate=0xFFFF))
    assert open_barriers(wave.waves)
    wave.run(*sop("s_barrier_signal_isfirst", 0, [193]))
    assert wave.waves.condition.tolist() == [1, 0]
    wave.waves.signals[:] = [3, 2]
    wave.waves.waits[:] = [3, 2]
    wave.waves.state[:] = [AT_BARRIER, READY]
    assert not open_barriers(wave.waves)
    wave.waves.state[1] = ENDED
    assert open_barriers(wave.waves)
    with pytest.raises(IllegalInstruction, match="only -1"):
        wave.run(*sop("s_barrier_signal", 0, [129]))
    with pytest.raises(IllegalInstruction, match="only -1"):
        wave.run(*sop("s_barrier_wait", 0, [], immediate=1))


def test_sleep_gives_way() -> None:
    for mnemonic, sources in (("s_sleep", []), ("s_sleep_var", [10])):
        wave = Wave()
        assert (
            wave.run(*sop(mnemonic, 0, sources, immediate=1)) is STOP
            and wave.waves.resting[0]
            and wave.waves.pc[0] == 0x1004
        )


NOTHING = (
    "s_nop s_clause s_delay_alu s_set_inst_prefetch_distance s_setprio s_icache_inv s_wakeup s_version s_ttracedata s_ttracedata_imm "
    "s_incperflevel s_decperflevel s_wait_idle s_wait_event s_waitcnt s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt "
    "s_waitcnt_lgkmcnt s_waitcnt_depctr s_wait_alu s_wait_loadcnt s_wait_storecnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt "
    "s_wait_dscnt s_wait_kmcnt s_wait_loadcnt_dscnt s_wait_storecnt_dscnt"
)


@pytest.mark.parametrize("mnemonic", NOTHING.split())
def test_hints_change_nothing(mnemonic: str) -> None:
    wave = numbered()
    before = wave.waves.scalars.copy(), wave.waves.vectors.copy(), wave.waves.state.copy()
    assert wave.run(*sop(mnemonic, 124, [])) is None
    assert (
        (wave.waves.scalars == before[0]).all()
        and (wave.waves.vectors == before[1]).all()
        and (wave.waves.state == before[2]).all()
    )


def test_modes_and_clocks() -> None:
    wave = Wave(mode=0x3F0)
    wave.run(*sop("s_round_mode", 0, [], immediate=0b0110))
    assert wave.waves.mode[0] == 0x3F6
    wave.run(*sop("s_denorm_mode", 0, [], immediate=0b0011))
    assert wave.waves.mode[0] == 0x336
    wave.run(*sop("s_getreg_b32", 30, [], immediate=1 | 4 << 6 | 3 << 11))
    assert wave.scalar(30) == 3
    wave.set_scalar(10, 0xF)
    wave.run(*sop("s_setreg_b32", 10, [], immediate=1 | 4 << 6 | 3 << 11))
    assert wave.waves.mode[0] == 0x3F6
    wave.run(*sop("s_setreg_imm32_b32", 0, [], immediate=1 | 0 << 6 | 1 << 11, literal=1))
    assert wave.waves.mode[0] == 0x3F5
    wave.run(*sop("s_sendmsg_rtn_b64", 30, [131]))
    first = wave.scalar(30, 64)
    wave.run(*sop("s_sendmsg_rtn_b64", 30, [131]))
    assert 0 <= wave.scalar(30, 64) - first < 10**9
    wave.run(*sop("s_sendmsg_rtn_b32", 30, [131]))
    assert wave.run(*sop("s_sendmsg", 0, [], immediate=3)) is None
    for refused in (sop("s_sendmsg", 0, [], immediate=1), sop("s_sendmsg_rtn_b32", 30, [128]), sop("s_getreg_b32", 30, [], immediate=5),
                    sop("s_setreg_b32", 10, [], immediate=5)):  # fmt: skip
        with pytest.raises(IllegalInstruction):
            wave.run(*refused)


# -- matrices ----------------------------------------------------------------------------------------------------------


def _matrix_registers(family: str, matrix: Any, bits: int) -> list[list[int]]:
    """Registers of A (rows) or B (as columns, transposed): per register the 32 lanes."""
    k = matrix.shape[1]
    per_word = 32 // bits
    registers: list[list[int]] = []
    words = k // per_word if family == "gfx11" else k // per_word // 2
    for r in range(words):
        lanes = []
        for lane in range(32):
            first = r * per_word + (0 if family == "gfx11" else lane // 16 * (k // 2))
            values = [int(matrix[lane % 16, first + n]) & (1 << bits) - 1 for n in range(per_word)]
            lanes.append(sum(v << bits * n for n, v in enumerate(values)))
        registers.append(lanes)
    return registers


def _row(family: str, element: int, lane: int) -> int:
    return 2 * element + lane // 16 if family == "gfx11" else element + 8 * (lane // 16)


@pytest.mark.parametrize("family", ["gfx11", "gfx12"])
@pytest.mark.parametrize(
    "mnemonic",
    ["v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16", "v_wmma_f16_16x16x16_f16", "v_wmma_bf16_16x16x16_bf16",
     "v_wmma_i32_16x16x16_iu8", "v_wmma_i32_16x16x16_iu4", "v_wmma_i32_16x16x32_iu4"],
)  # fmt: skip
def test_matrix_product(mnemonic: str, family: str) -> None:
    if OPCODES["VOP3P"][mnemonic][0 if family == "gfx11" else 1] is None:
        pytest.skip(f"{family} has no {mnemonic}")
    result, shape, kind = mnemonic.split("_")[2:]
    depth = int(shape.split("x")[2])
    random = np.random.default_rng(1)
    a, b = random.integers(-4, 4, (16, depth)), random.integers(-4, 4, (depth, 16))
    c = random.integers(-4, 4, (16, 16))
    bits = {"f16": 16, "bf16": 16, "iu8": 8, "iu4": 4}[kind]

    def encoded(x: Any, form: str) -> Any:
        if form == "f16":
            return x.astype(np.float16).view(np.uint16)
        if form == "bf16":
            return x.astype(np.float32).view(np.uint32) >> 16
        return x.astype(np.float32).view(np.uint32) if form == "f32" else x

    wave = Wave()
    for at, matrix in ((8, a), (20, b.T)):
        for n, lanes in enumerate(_matrix_registers(family, encoded(matrix, kind), bits)):
            wave.set_vector(at + n, lanes)
    narrow = result in ("f16", "bf16")
    packed = narrow and family == "gfx12"
    coded = encoded(c, result).astype(np.int64) & (0xFFFF if narrow else 0xFFFFFFFF)
    for n in range(4 if packed else 8):
        if packed:
            wave.set_vector(
                40 + n,
                [
                    int(coded[_row(family, 2 * n, x), x % 16] | coded[_row(family, 2 * n + 1, x), x % 16] << 16)
                    for x in LANES
                ],
            )
        else:
            wave.set_vector(40 + n, [int(coded[_row(family, n, x), x % 16]) for x in LANES])
    _, code = vop3p(mnemonic, 50, [V + 8, V + 20, V + 40], neg=3 if kind[0] == "i" else 0)
    wave.run(family, code)
    wanted = encoded(a @ b + c, result).astype(np.int64) & (0xFFFF if narrow else 0xFFFFFFFF)
    for n in range(8):
        words = wave.vector(50 + (n // 2 if packed else n))
        for x in LANES:
            got = words[x] >> (16 * (n % 2) if packed else 0) & (0xFFFF if narrow else 0xFFFFFFFF)
            assert got == wanted[_row(family, n, x), x % 16], (n, x)
