"""How long a first launch takes: compiling a small and a large kernel, and finding one in the cache."""

from __future__ import annotations

import json
import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from cuttle.bench.build import Built
from cuttle.bench.contenders import base_environment, cuttle_run
from cuttle.bench.launches import Figure, run_checked, wait_until_gone, wall_verdict
from cuttle.bench.noise import interval
from cuttle.bench.processes import TOKEN_VARIABLE, OthersMeter, adopt_orphans

# Issue 3, point 5: milliseconds from the launch record to the first block.
SMALL_BAR_MS = 80.0
LARGE_BAR_MS = 4000.0
CACHED_BAR_MS = 2.0
SMALL_INSTRUCTIONS, LARGE_INSTRUCTIONS = 100, 5000
WORKER_START_MS = 1500  # until a compile worker is up, on a busy machine too

_HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 words)
{
    .reg .pred %p<4>;
    .reg .f32 %f<9>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [words];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r8, %tid.x;
    mul.wide.u32 %rd3, %r8, 4;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.u32 %r0, [%rd2];
    cvt.rn.f32.u32 %f0, %r0;
"""
_HEAD_INSTRUCTIONS = 7
_STEPS = (
    "add.s32 %r{a}, %r{b}, %r{c};",
    "mad.lo.s32 %r{a}, %r{b}, %r{c}, %r{d};",
    "xor.b32 %r{a}, %r{b}, %r{c};",
    "shl.b32 %r{a}, %r{b}, 3;",
    "shr.s32 %r{a}, %r{b}, 2;",
    "setp.lt.s32 %p1, %r{b}, %r{c};",
    "selp.b32 %r{a}, %r{b}, %r{c}, %p1;",
    "min.s32 %r{a}, %r{b}, %r{c};",
    "fma.rn.f32 %f{a}, %f{b}, %f{c}, %f{d};",
    "add.f32 %f{a}, %f{b}, %f{c};",
    "mul.f32 %f{a}, %f{b}, %f{c};",
    "cvt.rn.f32.s32 %f{a}, %r{b};",
    "mov.b32 %r{a}, %f{b};",
    "ld.global.u32 %r{a}, [%rd2];",
    "st.global.u32 [%rd2], %r{a};",
)
_BLOCK_INSTRUCTIONS = 25


def kernel_text(instructions: int) -> str:
    """A kernel `work(words)` of so many instructions: arithmetic, loads and stores, a divergent branch and a loop in every
    other run of 25."""
    choose = random.Random(instructions)
    lines = [_HEAD, *(f"    mov.u32 %r{i}, {i + 3};\n" for i in range(1, 8))]
    lines += [f"    mov.f32 %f{i}, 0f3F800000;\n" for i in range(1, 8)]
    done = _HEAD_INSTRUCTIONS + 14
    block = 0
    while done < instructions - 1:
        block += 1
        count = min(_BLOCK_INSTRUCTIONS, instructions - 1 - done)
        steps = [
            "    " + choose.choice(_STEPS).format(**{name: choose.randrange(8) for name in "abcd"}) + "\n"
            for _ in range(count)
        ]
        if count == _BLOCK_INSTRUCTIONS and block % 2:
            steps[0] = f"    setp.lt.u32 %p2, %r{choose.randrange(8)}, %r8;\n"
            steps[1] = f"    @%p2 bra skip{block};\n"
            steps.insert(-5, f"skip{block}:\n")
        elif count == _BLOCK_INSTRUCTIONS:
            steps[0] = "    mov.u32 %r7, 0;\n"
            steps[-3:] = [
                "    add.u32 %r7, %r7, 1;\n", "    setp.lt.u32 %p3, %r7, 3;\n", f"    @%p3 bra again{block};\n",
            ]  # fmt: skip
            steps[1:-3] = [step.replace("%r7,", "%r6,", 1) for step in steps[1:-3]]
            steps.insert(1, f"again{block}:\n")
        lines += steps
        done += count
    return "".join([*lines, "    ret;\n}\n"])


def first_launch_figures(built: Built, folder: Path, rounds: int, talk: Callable[[str], None]) -> list[Figure]:
    """First launches with nothing cached and with a warm cache, over several runs of the program."""
    token = uuid.uuid4().hex
    adopt_orphans()
    others = OthersMeter()

    def first_ms(instructions: int, tiers: str, cached: bool) -> float:
        text = folder / f"first_{instructions}.ptx"
        text.write_text(kernel_text(instructions), encoding="utf-8")
        cache = folder / "first-launch-cache"
        if not cached:
            shutil.rmtree(cache, ignore_errors=True)
        environment = {**base_environment(), TOKEN_VARIABLE: token, "CUTTLE_TIERS": tiers}
        command = cuttle_run(cache, str(built.first_launch_program), str(text), "work", str(WORKER_START_MS))
        found = float(json.loads(run_checked(command, environment))["first_launch_ms"])
        wait_until_gone(token)
        return found

    small, large, cached, optimised = [], [], [], []
    for number in range(rounds):
        talk(f"first launches, round {number + 1} of {rounds}")
        optimised.append(first_ms(SMALL_INSTRUCTIONS, "optimised", cached=False))
        large.append(first_ms(LARGE_INSTRUCTIONS, "fast", cached=False))
        small.append(first_ms(SMALL_INSTRUCTIONS, "fast", cached=False))
        cached.append(first_ms(SMALL_INSTRUCTIONS, "fast", cached=True))
    rows = (
        (f"first launch, nothing cached, {SMALL_INSTRUCTIONS} instructions", small, SMALL_BAR_MS),
        (f"first launch, nothing cached, {LARGE_INSTRUCTIONS:,} instructions", large, LARGE_BAR_MS),
        (f"first launch, found in the cache, {SMALL_INSTRUCTIONS} instructions", cached, CACHED_BAR_MS),
    )
    figures = []
    for name, samples, bar in rows:
        found = interval(samples)
        figures.append(Figure(name, "ms", found, f"≤ {bar:g}", wall_verdict(found, bar, others)))
    title = f"... the optimised tier instead, nothing cached, {SMALL_INSTRUCTIONS} instructions"
    figures.append(Figure(title, "ms", interval(optimised)))
    return figures
