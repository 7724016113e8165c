"""Every recorded form gives on the CPU what an NVIDIA H200 gave, bit for bit; approximations within their rows' ulp."""

from __future__ import annotations

import golden
import pytest

FAMILIES = ("add|sub", "mul|mad|fma", "div|rem|sad", "abs|neg", "min|max", "setp", "set[.]", "selp|slct", "cvt", "mov",
            "rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh", "lop3|and|or|xor|not|cnot|shl|shr|shf|prmt",
            "popc|clz|bfind|fns|brev|bfe|bfi|szext|bmsk|dp4a|dp2a|testp|copysign|addc|subc|v[a-z]")  # fmt: skip


@pytest.mark.skipif(not golden.FILE.exists(), reason="no golden values recorded on a GPU are there")
@pytest.mark.parametrize("names", FAMILIES)
def test_matches_the_gpu(names: str) -> None:
    chosen = [record for record in golden.records(pattern=f"^({names})") if golden.supported(record)]
    problems: list[str] = []
    for record, answers in zip(chosen, golden.run(chosen), strict=True):
        limit = golden.bound(record.form)
        for operands, ours, theirs in golden.mismatches(record, answers):
            kinds = [kind for kind, _ in record.form.destinations]
            far = max(golden.distance(kind, a, b) for kind, a, b in zip(kinds, ours, theirs, strict=False))
            if far > limit:
                problems.append(f"{record.form.name} {[hex(o) for o in operands]}: {ours[0]:#x}, GPU {theirs[0]:#x}")
                break
    assert chosen
    assert not problems, f"{len(problems)} forms differ:\n" + "\n".join(problems[:20])
