"""What keeps the compile time of large kernels in proportion, and that it changes no result."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.bench.first_launches import kernel_text
from cuttle.lower.cpu.compile_kernel import compile_kernel, plan_kernel
from cuttle.lower.cpu.compile_kernel import kernel_text as llvm_text
from cuttle.lower.cpu.compile_object import CodeOptions
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.ptx.parser import parse_module
from tests.lower.cpu.image_runner import ImageRunner, pointer
from tests.lower.cpu.kernels import HEADER, WAYS, check, entry

SHAPE = (256, 1, 1)


def test_a_large_kernel_keeps_values_in_memory_and_both_tiers_agree() -> None:
    module = parse_module(kernel_text(1200))
    plan = plan_kernel(module, "work", CompileOptions(block_shape=SHAPE), Target(True)).kernel
    assert plan.kept_in_memory
    results = []
    for level in (0, 2):
        image = compile_kernel(module, "work", CompileOptions(block_shape=SHAPE, optimization=level))
        words = np.arange(256, dtype=np.uint32) * 77777
        ImageRunner(image).launch((1, 1, 1), SHAPE, pointer(words).to_bytes(8, "little"))
        results.append(words)
    np.testing.assert_array_equal(results[0], results[1])


def test_a_small_kernel_keeps_its_values_in_registers() -> None:
    plan = plan_kernel(parse_module(kernel_text(100)), "work", CompileOptions(block_shape=SHAPE), Target(True)).kernel
    assert not plan.kept_in_memory


NARROW = entry(
    """
  ld.global.u32 %r1, [%wide];
  setp.lt.u32 %p1, %t, 21;
  and.b32 %r2, %r1, 127; cvt.u64.u32 %d1, %r2; mul.lo.u64 %d1, %d1, SIZE; add.u64 %d1, %out, %d1;
  mov.u32 %r4, 0;
  @!%p1 bra past;
  ld.global.uBITS REG2, [%d1+512];
  cvt.u32.uBITS %r4, REG2;
  mul.lo.u32 %r5, %t, 5; cvt.uBITS.u32 REG3, %r5;
  st.global.uBITS [%d1+1536], REG3;
past:
  st.global.u32 [%wide+128], %r4;
  ret;
"""
)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_scattered_narrow_accesses_of_some_lanes(bits: int) -> None:
    """The highest group's lowest active lane wins where lanes store to one place; others touch no memory."""
    size = bits // 8
    prefix = "%d" if bits == 64 else "%r" if bits == 32 else "%h"
    text = NARROW.replace("REG2", f"{prefix}30" if prefix != "%h" else "%h2")
    text = text.replace("REG3", f"{prefix}31" if prefix != "%h" else "%h3")
    text = text.replace("SIZE", str(size)).replace("BITS", str(bits))
    if bits == 32:
        text = text.replace("cvt.u32.u32", "mov.u32")
    memory = np.zeros(4096, np.uint8)
    generator = np.random.default_rng(3)
    picks = generator.integers(0, 128, 32, dtype=np.uint32)
    picks[5] = picks[9] = picks[30]
    memory[:128] = picks.view(np.uint8)
    memory[512 : 512 + 128 * size] = generator.integers(0, 256, 128 * size, dtype=np.uint8)
    expected = memory.copy()
    kind = np.dtype(f"u{size}")
    seen = np.zeros(32, np.uint32)
    for lane in range(21):
        place = 512 + int(picks[lane]) * size
        seen[lane] = np.uint32(int(memory[place : place + size].view(kind)[0]) & 0xFFFFFFFF)
    group = max(8, min(32, 128 // size))
    for first in range(0, 32, group):
        for lane in range(min(first + group, 21) - 1, first - 1, -1):
            place = 1536 + int(picks[lane]) * size
            expected[place : place + size] = np.array([lane * 5], kind).view(np.uint8)
    expected[128:256] = seen.view(np.uint8)
    check(text, (32, 1, 1), [memory], [expected], ways=WAYS)


def test_processors_without_scatters_get_a_loop() -> None:
    module = parse_module(
        HEADER
        + NARROW.replace("REG2", "%r30")
        .replace("REG3", "%r31")
        .replace("SIZE", "4")
        .replace("BITS", "32")
        .replace("cvt.u32.u32", "mov.u32")
    )
    for avx512, helpers in ((False, True), (True, False)):
        plan = plan_kernel(module, "k", CompileOptions(block_shape=(32, 1, 1)), Target(avx512))
        text = llvm_text(plan, CodeOptions())
        assert ("@cuttle.scatter.v32i32" in text) == helpers and ("@cuttle.gather.v32i32" in text) == helpers


def waiting_kernel(rounds: int) -> str:
    """Waits `rounds` times for all threads, as `cuda::barrier` does."""
    wait = """
      mbarrier.arrive.shared.b64 %d{n}, [object]; mov.u32 %r{n}, 0;
    again{n}: mbarrier.test_wait.shared.b64 %p1, [object], %d{n}; @%p1 bra done{n};
      add.u32 %r{n}, %r{n}, 1; setp.lt.u32 %p2, %r{n}, 16; @%p2 bra again{n}; nanosleep.u32 20; bra again{n};
    done{n}: add.u32 %r40, %r40, %r{n};"""
    return entry(f"""
      .shared .align 8 .b64 object;
      mov.u32 %r40, 0; setp.ne.u32 %p3, %t, 0; @%p3 bra ready; mbarrier.init.shared.b64 [object], %nx;
    ready: bar.sync 0; {"".join(wait.format(n=n) for n in range(1, rounds + 1))}
      setp.ge.u32 %p1, %r40, 0; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%wide], %r1; ret;""")


def test_waiting_loops_make_text_in_proportion() -> None:
    """Each is a resume point; a copy of the kernel for each made 13 MB of 200 instructions."""
    sizes = []
    for rounds in (8, 16):
        plan = plan_kernel(
            parse_module(HEADER + waiting_kernel(rounds)), "k", CompileOptions(block_shape=SHAPE), Target(True)
        )
        assert plan.kernel.lanes_part
        sizes.append(len(llvm_text(plan, CodeOptions())))
    assert sizes[1] < 3 * sizes[0] < 6_000_000
    check(waiting_kernel(4), (64, 1, 1), [np.zeros(64, np.uint32)], [np.ones(64, np.uint32)], ways=WAYS)
