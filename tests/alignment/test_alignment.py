"""Misaligned accesses end as on an NVIDIA H200 (`tools/record_alignment.py`), and addresses that are aligned are left in peace."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cuttle.client import build
from cuttle.lower.cpu.compile_kernel import code_options, kernel_text, plan_kernel
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.lower.ops.dispatch import load_functions
from cuttle.ptx.parser import parse_module
from tests.alignment.cases import RECORD, cases

LEGS = [{"CUTTLE_TIERS": "fast"}, {"CUTTLE_PLAIN": "1"}]
NAMES = ["warps", "plain"]

# A copy as libraries write it: by 16 bytes where the pointers allow it, by 4 where they do not.
COPY = """
.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 base, .param .u64 first, .param .u64 second, .param .u32 third)
{
.reg .pred %p;
.reg .b32 %t, %r<4>;
.reg .b64 %base, %low, %at, %four;
ld.param.u64 %base, [base];
mov.u32 %t, %tid.x;
mul.wide.u32 %at, %t, 16;
add.u64 %at, %base, %at;
and.b64 %low, %base, 15;
setp.ne.u64 %p, %low, 0;
@%p bra narrow;
st.global.v4.u32 [%at], {%t, %t, %t, %t};
ret;
narrow:
st.global.u32 [%at], %t;
st.global.u32 [%at+4], %t;
st.global.u32 [%at+8], %t;
st.global.u32 [%at+12], %t;
ret;
}
"""


def run(*arguments: str, **knobs: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, before a client library of ours."""
    build.build()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(build.LIB), "CUTTLE_PYTHON": sys.executable, **knobs}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.device
@pytest.mark.parametrize("knobs", LEGS, ids=NAMES)
def test_recorded_accesses(knobs: dict[str, str]) -> None:
    """Every memory instruction at every misalignment: the same result, which is success up to some address and 716 behind it."""
    answers = json.loads(RECORD.read_text())["answers"]
    assert list(answers) == [case.name for case in cases()]
    done = run("-m", "tests.alignment.replay", CUTTLE_COMPUTE_CAPABILITY="9.0", **knobs)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {name: found[name] for name in answers if found[name] != answers[name]} == {}
    assert "thread [5,0,0]: address 0x200000002202 is not a multiple of 4, as this access needs" in done.stderr
    assert "  --> PTX line" in done.stderr and "`ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`" in done.stderr


@pytest.mark.device
@pytest.mark.parametrize("knobs", [*LEGS, {"CUTTLE_TIERS": "optimised"}], ids=[*NAMES, "optimised"])
def test_computed_addresses(knobs: dict[str, str]) -> None:
    """Random address arithmetic: the analysis takes no access for aligned that is not, and none ends that should not."""
    done = run("-m", "tests.alignment.expressions", "20", "40", **knobs)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert 30 < found["faults"] < 90


@pytest.mark.device
def test_a_pointer_that_only_some_code_can_use() -> None:
    """The 16-byte stores count on the pointer; a launch with another one gets code that looks, and they are not reached."""
    script = (
        "from cuttle.sweep.driver import Driver\n"
        "from tests.alignment.expressions import launch\n"
        "from tests.alignment.test_alignment import COPY\n"
        "driver, given = Driver(), {'first': 0, 'second': 0, 'third': 0}\n"
        "print([launch(driver, COPY, shift, given) for shift in (0, 4, 8, 2, 0, 4)])\n"
    )
    done = run("-c", script)
    assert done.stdout == "[0, 0, 0, 716, 0, 0]\n", done.stderr
    assert "is not a multiple of 4" in done.stderr


def test_what_follows_from_the_parameters_costs_nothing() -> None:
    load_functions()
    module, options = parse_module(COPY), CompileOptions()
    plan = plan_kernel(module, "k", options, Target())
    assert "misaligned." not in kernel_text(plan, code_options(options))
    assert plan.kernel.aligned_places == {0: 16}
    checked = plan_kernel(module, "k", CompileOptions(check_alignment=True), Target())
    assert "misaligned." in kernel_text(checked, code_options(options))
    assert checked.kernel.aligned_places == {}
