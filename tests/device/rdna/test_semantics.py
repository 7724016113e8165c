"""Every executed instruction on values computed by hand: decoded from words, executed, compared. No case, no instruction."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.semantics import OPERATIONS
from tests.device.rdna import scalar_cases, vector_cases
from tests.device.rdna.encode import MODE, V, Wave, sop, vop2_literal, vop3, vop3p, vopd

_FORMS = {"f16": "<e", "f32": "<f", "f64": "<d"}
_BITS = {"f16": "<H", "f32": "<I", "f64": "<Q"}


def width(kind: str) -> int:
    return int(kind.lstrip("+")[1:])


def pattern(text: str, kind: str) -> int:
    """The bits of a written value."""
    kind = {"k": "i32", "ku": "u32", "literal": "f32"}.get(kind, kind.lstrip("+"))
    if text.lower().startswith("0x"):
        return int(text, 16)
    if kind in ("m", "vcc", "scc"):
        return int(text)
    if kind in _FORMS:
        with np.errstate(over="ignore"):
            value = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind](float(text))
        return int(struct.unpack(_BITS[kind], value.tobytes())[0])
    return int(text) & (1 << width(kind)) - 1


def is_nan(bits: int, kind: str) -> bool:
    limits = {"f16": 0x7C00, "f32": 0x7F800000, "f64": 0x7FF << 52}
    return kind in limits and bits & ((1 << width(kind) - 1) - 1) > limits[kind]


def cases(text: str) -> list[tuple[str, list[str], list[str]]]:
    rows = []
    for line in text.strip().splitlines():
        left, _, right = line.partition(" = ")
        mnemonic, *sources = left.split()
        rows.append((mnemonic, sources, right.split()))
    return rows


def names(rows: list[tuple[str, list[str], list[str]]]) -> list[str]:
    return [f"{mnemonic}({','.join(sources)})" for mnemonic, sources, _ in rows]


VECTOR_ROWS = cases(vector_cases.FLOAT) + cases(vector_cases.CONVERT) + cases(vector_cases.INTEGER)
DUAL_ROWS = cases(vector_cases.DUAL)
PACKED_ROWS = cases(vector_cases.PACKED)
SCALAR_ROWS = cases(scalar_cases.CASES)


def check(got: int, text: str, kind: str) -> None:
    if text == "nan":
        assert is_nan(got, kind), hex(got)
        return
    wanted = pattern(text, kind)
    assert got == wanted, f"{got:#x} instead of {wanted:#x}"


def run_vector(mnemonic: str, sources: list[str], dual: bool) -> tuple[Wave, int, list[str]]:
    """Sources in v10, v12, v14 (masks in s20 or VCC), destination v31 (or v30) and s40."""
    operation = OPERATIONS[mnemonic]
    wave = Wave()
    destination, codes, literal = (31 if dual else 30), [], 0
    for index, (text, kind) in enumerate(zip(sources, operation.sources, strict=True)):
        bits = pattern(text, kind)
        register = 10 + 2 * index
        if kind == "vcc" or (kind == "m" and dual):
            wave.set_scalar(106, bits * 0xFFFFFFFF)
        elif kind == "m":
            wave.set_scalar(20, bits * 0xFFFFFFFF)
            codes.append(20)
        elif kind[0] == "+":
            wave.set_vector(destination, bits, width(kind))
        elif "fmaak" in mnemonic and index == 2 or "fmamk" in mnemonic and index == 1:
            literal = bits
        elif mnemonic.startswith("v_s_"):
            wave.set_scalar(register, bits)
            codes.append(register)
        else:
            if width(kind) == 16:
                bits |= 0xABCD0000  # the other half must not matter
            wave.set_vector(register, bits, width(kind))
            codes.append(V + register)
    if dual:
        family, code = vopd(mnemonic, destination, codes[0], codes[1] if len(codes) > 1 else 0, literal)
    elif "fmaak" in mnemonic or "fmamk" in mnemonic:
        family, code = vop2_literal(mnemonic, destination, codes[0], codes[1], literal)
    else:
        only_mask = operation.results == ("m",)
        family, code = vop3(
            mnemonic,
            40 if only_mask else destination,
            codes,
            scalar_destination=40 if "m" in operation.results[1:] else 0,
        )
    wave.run(family, code)
    return wave, destination, list(operation.results)


@pytest.mark.parametrize(("mnemonic", "sources", "expected"), VECTOR_ROWS, ids=names(VECTOR_ROWS))
def test_vector_instruction(mnemonic: str, sources: list[str], expected: list[str]) -> None:
    wave, destination, results = run_vector(mnemonic, sources, False)
    for text, kind in zip(expected, results, strict=True):
        if kind == "m":
            assert wave.scalar(40) == int(text) * 0xFFFFFFFF
        elif mnemonic.startswith("v_s_"):
            check(wave.scalar(destination), text, kind)
        else:
            mask = (1 << width(kind)) - 1
            for got in set(wave.vector(destination, width(kind))):
                check(got & mask, text, kind)
                if width(kind) == 16 and not any(k[0] == "+" for k in OPERATIONS[mnemonic].sources):
                    assert got >> 16 == 0xBAD0  # 16-bit results leave the other half alone


@pytest.mark.parametrize(("mnemonic", "sources", "expected"), DUAL_ROWS, ids=names(DUAL_ROWS))
def test_dual_instruction(mnemonic: str, sources: list[str], expected: list[str]) -> None:
    wave, destination, results = run_vector(mnemonic, sources, True)
    for got in set(wave.vector(destination)):
        check(got, expected[0], results[0])


@pytest.mark.parametrize(("mnemonic", "sources", "expected"), PACKED_ROWS, ids=names(PACKED_ROWS))
def test_packed_instruction(mnemonic: str, sources: list[str], expected: list[str]) -> None:
    wave = Wave()
    for index, text in enumerate(sources):
        wave.set_vector(10 + 2 * index, int(text, 16) if text.startswith("0x") else int(text))
    wave.run(*vop3p(mnemonic, 30, [V + 10 + 2 * n for n in range(len(sources))]))
    assert set(wave.vector(30)) == {int(expected[0], 16) if expected[0].startswith("0x") else int(expected[0])}


@pytest.mark.parametrize(("mnemonic", "sources", "expected"), SCALAR_ROWS, ids=names(SCALAR_ROWS))
def test_scalar_instruction(mnemonic: str, sources: list[str], expected: list[str]) -> None:
    """Sources in s10, s12; destination s30; SCC set to the opposite of what is expected."""
    operation = OPERATIONS[mnemonic]
    wave, codes, immediate, literal = Wave(), [], 0, None
    if expected[1] != "-":
        wave.waves.condition[:] = 1 - int(expected[1])
    for text, kind in zip(sources, operation.sources, strict=True):
        bits = pattern(text, kind)
        if kind in ("k", "ku"):
            immediate = bits & 0xFFFF
        elif kind == "scc":
            wave.waves.condition[:] = bits
        elif kind == "literal":
            literal = bits
        elif kind[0] == "+":
            wave.set_scalar(30, bits, width(kind))
        else:
            register = 10 + 2 * len(codes)
            wave.set_scalar(register, bits, width(kind))
            codes.append(register)
    before = wave.scc
    wave.run(*sop(mnemonic, 30, codes, immediate=immediate, literal=literal))
    if expected[0] != "-":
        kind = operation.results[0]
        check(wave.scalar(30, max(32, width(kind))), expected[0], kind)
    assert wave.scc == (before if expected[1] == "-" else int(expected[1]))


# -- comparisons: what each answers for (1, 2), (2, 1), (2, 2), (nan, 1) ------------------------------------------------

TRUTH = {
    "f": "0000", "lt": "1000", "eq": "0010", "le": "1010", "gt": "0100", "lg": "1100", "ge": "0110", "o": "1110", "u": "0001",
    "nge": "1001", "nlg": "0011", "ngt": "1011", "nle": "0101", "neq": "1101", "nlt": "0111", "ne": "1100", "t": "1111",
}  # fmt: skip
COMPARISONS = [
    name
    for e in ("VOPC", "SOPC")
    for name in OPCODES[e]
    if re.match(r"[vs]_cmpx?_\w+_[fiu]\d+$", name) and "class" not in name
]


@pytest.mark.parametrize("mnemonic", COMPARISONS)
def test_comparison(mnemonic: str) -> None:
    _, prefix, name, kind = mnemonic.split("_")
    truth = TRUTH["ne" if name == "lg" and kind[0] != "f" else name]
    pairs = [("1", "2"), ("2", "1"), ("2", "2"), ("nan", "1")]
    for (left, right), answer in zip(pairs[: 4 if kind[0] == "f" else 3], truth, strict=False):
        wave = Wave()
        a, b = pattern(left, kind), pattern(right, kind)
        if mnemonic.startswith("s_"):
            wave.set_scalar(10, a, width(kind))
            wave.set_scalar(12, b, width(kind))
            wave.run(*sop(mnemonic, 0, [10, 12]))
            assert wave.scc == int(answer), (left, right)
            continue
        wave.set_scalar(126, 0x0000FFFF)
        wave.set_vector(10, a, width(kind))
        wave.set_vector(12, b, width(kind))
        wave.run(*vop3(mnemonic, 126 if prefix == "cmpx" else 40, [V + 10, V + 12]))
        assert wave.scalar(126 if prefix == "cmpx" else 40) == int(answer) * 0xFFFF, (left, right)


@pytest.mark.parametrize("kind", ["i32", "u32", "i64", "u64", "i16", "u16"])
def test_comparisons_know_signs(kind: str) -> None:
    wave = Wave()
    wave.set_vector(10, pattern("-1", kind), width(kind))
    wave.set_vector(12, 1, width(kind))
    wave.run(*vop3(f"v_cmp_lt_{kind}", 40, [V + 10, V + 12]))
    assert wave.scalar(40) == (0xFFFFFFFF if kind[0] == "i" else 0)


CLASSES = {"f16": (0x7C01, 0x7E00, 0xFC00, 0xBC00, 0x8001, 0x8000, 0, 1, 0x3C00, 0x7C00),
           "f32": (0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 1 << 31, 0, 1, 0x3F800000, 0x7F800000),
           "f64": (0x7FF0000000000001, 0x7FF8 << 48, 0xFFF0 << 48, 0xBFF0 << 48, 1 << 63 | 1, 1 << 63, 0, 1, 0x3FF0 << 48, 0x7FF0 << 48)}  # fmt: skip


@pytest.mark.parametrize("mnemonic", [f"v_cmp{x}_class_{kind}" for x in ("", "x") for kind in CLASSES])
def test_class(mnemonic: str) -> None:
    kind = mnemonic.rpartition("_")[2]
    for number, bits in enumerate(CLASSES[kind]):
        for mask in (1 << number, 0x3FF & ~(1 << number)):
            wave = Wave()
            wave.set_vector(10, bits, width(kind))
            wave.set_vector(12, mask)
            target = 126 if "cmpx" in mnemonic else 40
            wave.run(*vop3(mnemonic, target, [V + 10, V + 12]))
            assert wave.scalar(target) == (0xFFFFFFFF if mask >> number & 1 else 0)


# -- modifiers, modes, constants ---------------------------------------------------------------------------------------


def _float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def test_negation_comes_after_the_absolute_value() -> None:
    wave = Wave()
    wave.set_vector(10, pattern("-3", "f32"))
    wave.set_vector(12, pattern("1", "f32"))
    wave.run(*vop3("v_add_f32", 30, [V + 10, V + 12], abs_=1, neg=1))
    assert _float(wave.vector(30)[0]) == -2


def test_clamp_limits_floats_to_one_and_nan_to_zero() -> None:
    wave = Wave()
    wave.set_vector(10, [pattern(x, "f32") for x in ("-1", "0.5", "3", "nan")] * 8)
    wave.run(*vop3("v_add_f32", 30, [V + 10, 128], clamp=1))
    assert [_float(x) for x in wave.vector(30)[:4]] == [0, 0.5, 1, 0]


def test_clamp_saturates_integers() -> None:
    for mnemonic, a, b, wanted in (("v_add_nc_u32", 0xFFFFFFFF, 2, 0xFFFFFFFF), ("v_sub_nc_u32", 1, 2, 0), ("v_add_nc_i32", 0x7FFFFFFF, 1, 0x7FFFFFFF),
                                   ("v_sub_nc_i32", 0x80000000, 1, 0x80000000), ("v_mad_u32_u24", 0xFFFFFF, 0xFFFFFF, 0xFFFFFFFF)):  # fmt: skip
        wave = Wave()
        wave.set_vector(10, a)
        wave.set_vector(12, b)
        wave.run(*vop3(mnemonic, 30, [V + 10, V + 12, V + 12], clamp=1))
        assert wave.vector(30)[0] == wanted, mnemonic


def test_output_modifier_works_only_without_denormals_and_ieee() -> None:
    for mode, wanted in ((MODE, 3), (0x1C0, 6)):
        wave = Wave(mode=mode)
        wave.set_vector(10, pattern("1", "f32"))
        wave.set_vector(12, pattern("2", "f32"))
        wave.run(*vop3("v_add_f32", 30, [V + 10, V + 12], omod=1))
        assert _float(wave.vector(30)[0]) == wanted


def test_op_sel_takes_and_writes_upper_halves() -> None:
    wave = Wave()
    wave.set_vector(10, 0x00050001)
    wave.set_vector(12, 0x00060002)
    wave.set_vector(30, 0x11112222)
    wave.run(*vop3("v_add_nc_u16", 30, [V + 10, V + 12], op_sel=0b1001))
    assert wave.vector(30)[0] == 0x00072222


@pytest.mark.parametrize(("rounding", "third"), [(0, 0x3EAAAAAB), (1, 0x3EAAAAAB), (2, 0x3EAAAAAA), (3, 0x3EAAAAAA)])
def test_rounding_modes(rounding: int, third: int) -> None:
    """1/3 from f64 to f32, and 1 + 2**-30 in f32."""
    wave = Wave(mode=MODE & ~15 | rounding)
    wave.set_vector(10, pattern("0.3333333333333333333", "f64"), 64)
    wave.run(*vop3("v_cvt_f32_f64", 30, [V + 10]))
    assert wave.vector(30)[0] == third
    wave.set_vector(10, pattern("1", "f32"))
    wave.set_vector(12, pattern("9.31322574615478515625e-10", "f32"))
    wave.run(*vop3("v_add_f32", 30, [V + 10, V + 12]))
    assert wave.vector(30)[0] == (0x3F800001 if rounding == 1 else 0x3F800000)


def test_denormals_are_flushed_as_the_mode_says() -> None:
    for mode, wanted in ((MODE, 2), (MODE & ~0x30, 0), (MODE & ~0x20, 0), (MODE & ~0x10, 0)):
        wave = Wave(mode=mode)
        wave.set_vector(10, 1)
        wave.run(*vop3("v_add_f32", 30, [V + 10, V + 10]))
        assert wave.vector(30)[0] == wanted, hex(mode)


def test_inline_constants() -> None:
    for code, wanted in (
        (128, 0),
        (192, 64),
        (193, 0xFFFFFFFF),
        (208, 0xFFFFFFF0),
        (240, 0x3F000000),
        (247, 0xC0800000),
        (248, 0x3E22F983),
    ):
        wave = Wave()
        wave.run(*vop3("v_mov_b32", 30, [code]))
        assert wave.vector(30)[0] == wanted
    wave = Wave()
    wave.run(*vop3("v_add_f64", 30, [242, 240]))
    assert wave.vector(30, 64)[0] == pattern("1.5", "f64")
    wave.run(*vop3("v_add_f16", 30, [242, 240]))
    assert wave.vector(30)[0] & 0xFFFF == 0x3E00


def test_inactive_lanes_keep_their_registers() -> None:
    wave = Wave()
    wave.set_scalar(126, 0x5)
    wave.set_vector(30, 7)
    wave.run(*vop3("v_mov_b32", 30, [129]))
    assert wave.vector(30)[:4] == [1, 7, 1, 7]


def test_mixed_precision() -> None:
    for mnemonic, wanted in (
        ("v_fma_mix_f32", pattern("7", "f32")),
        ("v_fma_mixlo_f16", 0x11114700),
        ("v_fma_mixhi_f16", 0x47001111),
    ):
        wave = Wave()
        wave.set_vector(10, 0x40003C00)  # f16: 2, 1
        wave.set_vector(12, pattern("3", "f32"))
        wave.set_vector(14, pattern("-1", "f32"))
        wave.set_vector(30, 0x11111111)
        wave.run(*vop3p(mnemonic, 30, [V + 10, V + 12, V + 14], op_sel=1, op_sel_hi=1, neg_hi=4))  # 2 * 3 + |-1|
        assert wave.vector(30)[0] == wanted


def test_packed_selections_and_signs() -> None:
    wave = Wave()
    wave.set_vector(10, 0x40003C00)
    wave.set_vector(12, 0x40003C00)
    wave.run(*vop3p("v_pk_add_f16", 30, [V + 10, V + 12], op_sel=2, op_sel_hi=1, neg_hi=2))  # lo: 1 + 2, hi: 2 - 1
    assert wave.vector(30)[0] == 0x3C004200
    wave.run(*vop3p("v_dot4_i32_iu8", 30, [V + 16, V + 18, 128], neg=1))
    for neg, wanted in ((0, 255 * 255), (1, -255), (2, -255), (3, 1)):
        wave.set_vector(16, 0xFF)
        wave.set_vector(18, 0xFF)
        wave.run(*vop3p("v_dot4_i32_iu8", 30, [V + 16, V + 18, 128], neg=neg))
        assert wave.vector(30)[0] == wanted & 0xFFFFFFFF


def test_v_pk_fmac_f16() -> None:
    wave = Wave()
    wave.set_vector(10, 0x40003C00)
    wave.set_vector(12, 0x42004200)
    wave.set_vector(30, 0x3C003C00)
    wave.run("gfx11", struct.pack("<I", OPCODES["VOP2"]["v_pk_fmac_f16"][0] << 25 | 30 << 17 | 12 << 9 | V + 10))  # type: ignore[operator]
    assert wave.vector(30)[0] == 0x47004400


# -- the list is complete, and the widths are LLVM's -------------------------------------------------------------------

_LETTERS = {16: "H", 32: "1", 64: "2"}


def test_every_pure_operation_has_a_case() -> None:
    tested = {row[0] for rows in (VECTOR_ROWS, DUAL_ROWS, PACKED_ROWS, SCALAR_ROWS) for row in rows} | set(COMPARISONS)
    missing = [
        o.mnemonic
        for o in OPERATIONS.values()
        if o.kind != "special" and o.mnemonic not in tested and "_class_" not in o.mnemonic
    ]
    assert not missing


def test_operand_widths_agree_with_the_recorded_ones() -> None:
    wrong = []
    for encoding in ("VOP1", "VOP2", "VOP3", "VOPC", "VOPDX", "VOPDY"):
        for mnemonic, row in OPCODES[encoding].items():
            operation = OPERATIONS.get(mnemonic)
            if operation is None or operation.kind != "vector":
                continue
            kinds = [k for k in (*operation.results, *operation.sources) if k[0] != "+" and k != "vcc"]
            if mnemonic.startswith("v_cmpx"):
                kinds = kinds[1:]
            if mnemonic == "v_dual_cndmask_b32":
                kinds = kinds[:3]  # VCC is not written
            if mnemonic.startswith("v_s_"):
                kinds = [k.replace("16", "32") for k in kinds]  # whole scalar registers
            wanted = "".join("1" if k == "m" else _LETTERS[width(k)] for k in kinds)
            for shape in filter(None, row[2:]):
                if len(shape) != len(wanted) or any(a not in (".", b) for a, b in zip(str(shape), wanted, strict=True)):
                    wrong.append((mnemonic, shape, wanted))
    assert not wrong
