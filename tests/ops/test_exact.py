"""Forms of the exact pure opcodes against the references, as scalar and as lane vectors."""

from __future__ import annotations

import random
import struct

import checks
import harness
import pytest
import reference
import reference_convert

from cuttle.lower.ops.forms import inputs, synthesise

INTEGER = """addc subc madc sad rem mul24 mad24 popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a""".split()
MIXED = "add sub mul mad fma div abs neg min max".split()
LOGIC = "and or xor not cnot lop3 shf shl shr prmt".split()
FLOATING = "testp copysign rcp sqrt".split()
COMPARISON = "setp selp slct".split()


@pytest.mark.parametrize("opcode", [*MIXED, *INTEGER, *LOGIC, *FLOATING, *COMPARISON])
@pytest.mark.parametrize("lanes", [1, 8])
def test_matches_the_manual(opcode: str, lanes: int) -> None:
    forms = checks.forms_of(opcode)
    forms = forms[:: 1 + len(forms) // (60 if lanes == 8 else 20)]
    problems = checks.check(forms, reference.expect, lanes, 128 if lanes == 8 else 48, seed=lanes)
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize("lanes", [1, 8])
def test_set(lanes: int) -> None:
    """`set` has 894 forms that differ in few things: a twelfth of them each."""
    forms = checks.forms_of("set")[lanes % 12 :: 12]
    assert not checks.check(forms, reference.expect, lanes, 96)


@pytest.mark.parametrize("opcode", ["cvt", "cvt.pack"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_conversions(opcode: str, lanes: int) -> None:
    forms = checks.forms_of(opcode)[lanes % 3 :: 3]
    problems = checks.check(forms, reference_convert.expect_convert, lanes, 128 if lanes == 8 else 48, seed=lanes)
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize("opcode", ["add", "fma", "min", "cvt", "rcp"])
def test_survives_optimisation(opcode: str) -> None:
    """LLVM's -O2 must not fold away NaN, flushing and rounding steps."""
    expect = reference_convert.expect_convert if opcode == "cvt" else reference.expect
    problems = checks.check(checks.forms_of(opcode)[:: 9 if opcode == "cvt" else 3], expect, 16, 64, seed=5, optimise=2)
    assert not problems, "\n".join(problems[:20])


def bits_of(value: float) -> int:
    number: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return number


def at_the_least_normal_number(opcode: str, count: int) -> list[list[int]]:
    """Operands whose result lies within a few units of the last place of 2**-126 or -2**-126."""
    stream = random.Random(7)
    rows: list[tuple[int, ...]] = []
    while len(rows) < count:
        result = stream.choice((1, -1)) * 2.0**-126 * (1 + stream.choice((0, 1, -1, 2, -2, 0.5, -0.5)) * 2.0**-24)
        other = struct.unpack(
            "<f",
            struct.pack(
                "<I", stream.getrandbits(23) | stream.randrange(*((128, 164) if opcode == "div" else (90, 126))) << 23
            ),
        )[0]
        off = stream.choice((0, 0, 1, -1))
        match opcode:
            case "rcp":
                rows.append((bits_of(1 / result) + stream.randrange(-3, 4),))
            case "div":
                rows.append((bits_of(result * other) + off, bits_of(other)))
            case "mul":
                rows.append((bits_of(result / other) + off, bits_of(other)))
            case "fma":
                addend = stream.choice((0, 1 << 31, 0x00800000, 0x80800000, 0x01000000, 0x81000000))
                rows.append((bits_of(result / other) + off, bits_of(other), addend))
            case "cvt":
                rows.append((struct.unpack("<Q", struct.pack("<d", result))[0] + off,))
            case _:
                rows.append(tuple(stream.choice((0x00800000, 0x01000000, 0x80800000, 0x81000000)) + stream.getrandbits(7)
                                  for _ in range(2)))  # fmt: skip
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma", "div", "rcp", "cvt"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_flushing_at_the_least_normal_number(opcode: str, mode: str) -> None:
    """`.ftz` flushes what is too small after rounding as if exponents had no lower end: these differed from the H200."""
    form = synthesise(f"{opcode}.{mode}.ftz.f32" + (".f64" if opcode == "cvt" else ""))
    columns = at_the_least_normal_number(opcode, 400)
    expect = reference_convert.expect_convert if opcode == "cvt" else reference.expect
    answers = harness.run_forms([form], [columns], 8)[0][0]
    zeros = 0
    for operands, answer in zip(zip(*columns, strict=True), answers, strict=True):
        wanted = expect(form, operands, 0)
        assert answer == wanted, f"{form.name} {[hex(operand) for operand in operands]}"
        zeros += answer & 0x7FFFFFFF == 0
    assert 0 < zeros < 400


MOVES = (
    ("mov.b32", 2, (0x1234, 0xFEDC), (0xFEDC1234,)),
    ("mov.b64", 2, (0x89ABCDEF, 0x01234567), (0x0123456789ABCDEF,)),
    ("mov.b64", 4, (1, 2, 3, 0x8004), (0x8004000300020001,)),
    ("mov.b128", 2, (5, 1 << 63), (1 << 127 | 5,)),
    ("mov.b32", -2, (0xFEDC1234,), (0x1234, 0xFEDC)),
    ("mov.b64", -2, (0x0123456789ABCDEF,), (0x89ABCDEF, 0x01234567)),
    ("mov.b64", -4, (0x8004000300020001,), (1, 2, 3, 0x8004)),
    ("mov.b128", -2, (1 << 127 | 5,), (5, 1 << 63)),
    ("mov.f32", 0, (0xFFC12345,), (0xFFC12345,)),
    ("mov.pred", 0, (1,), (1,)),
)


@pytest.mark.parametrize(("spelling", "brace", "operands", "wanted"), MOVES)
def test_mov(spelling: str, brace: int, operands: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    form = synthesise(spelling, brace=brace)
    for lanes in (1, 8):
        answer = harness.run_forms([form], [[[value] * 8 for value in operands]], lanes)[0]
        assert [column[0] for column in answer] == list(wanted)


@pytest.mark.parametrize("spelling", ["add.f32", "shl.b32", "fma.rm.f32", "cvt.rzi.s32.f32", "setp.lt.s32", "selp.b32"])
def test_uniform_operands_mix_with_lanes(spelling: str) -> None:
    """A scalar operand beside vectors gives the same as the vector that repeats it."""
    form = synthesise(spelling)
    types = [t for t, _ in form.sources]
    table = inputs(types, 8, 3)
    for index in range(len(types)):
        module = harness.Module()
        harness.add_function(module, form, "mixed", 8, frozenset([index]))
        harness.add_function(module, form, "plain", 8)
        harness.add_function(module, form, "scalar", 8, frozenset(range(len(types))))
        compiled = harness.Compiled(module)
        columns = [[c[0]] * 8 if k == index else c for k, c in enumerate(table)]
        assert compiled.run(form, "mixed", columns) == compiled.run(form, "plain", columns)
        same = [[c[1]] * 8 for c in table]
        assert compiled.run(form, "scalar", same) == compiled.run(form, "plain", same)
