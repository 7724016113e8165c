"""Runs PTX kernels in every way they can be compiled, on copies of the same arrays, and compares the results."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cuttle.abi.kernel_abi import SERVICES
from cuttle.lower.cpu import lockstep as lockstep_module
from cuttle.lower.cpu import plan as plan_module
from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.ir import Module
from cuttle.ptx.parser import parse_module
from tests.lower.cpu.image_runner import ImageRunner, pointer

Array = np.ndarray[Any, Any]
Block = tuple[int, int, int]
Arguments = Sequence["Array | int | float"]

HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compile and run: options, `specialised` on the block's shape or not, `general` runs `step` only.

    `unified` and `in_memory` compile as large kernels are: all resume points in one function, values in their slots.
    """

    name: str
    options: CompileOptions = CompileOptions()
    specialised: bool = True
    general: bool = False
    unified: bool = False
    alone: bool = True
    in_memory: bool = False
    lockstep: bool = False


DEFAULT = Way("default")
WAYS = (
    DEFAULT,
    Way("step", general=True),
    Way("generic", specialised=False),
    Way("flat", CompileOptions(affine=False)),
    Way("plain", CompileOptions(plain=True, optimization=0)),
    Way("O0", CompileOptions(optimization=0), unified=True, alone=False),
    Way("in memory", in_memory=True),
    Way("lockstep", CompileOptions(optimization=0), lockstep=True),
)
QUICK_WAYS = (
    Way("O0", CompileOptions(optimization=0)),
    Way("lockstep", CompileOptions(optimization=0), lockstep=True),
    Way("generic O0", CompileOptions(optimization=0), specialised=False, general=True),
    Way("plain", CompileOptions(plain=True, optimization=0)),
)


@functools.lru_cache(maxsize=64)
def parsed(text: str) -> Module:
    return parse_module(text if text.lstrip().startswith(".version") else HEADER + text)


def compiled(text: str, kernel: str, block: Block, way: Way) -> ImageRunner:
    options = replace(way.options, block_shape=block if way.specialised else None)
    return compiled_once(text, kernel, options, replace(way, options=CompileOptions(), name=""))


@functools.lru_cache(maxsize=64)
def compiled_once(text: str, kernel: str, options: CompileOptions, way: Way) -> ImageRunner:
    """Compiled with the limits of the lowering as the way wants them."""
    before = plan_module.UNIFIED_FROM, plan_module.PHI_BUDGET
    plan_module.UNIFIED_FROM = 0 if way.unified else before[0]
    plan_module.PHI_BUDGET = 0 if way.in_memory else before[1]
    lockstep_module.ALWAYS = way.lockstep
    try:
        return ImageRunner(compile_kernel(parsed(text), kernel, options))
    finally:
        plan_module.UNIFIED_FROM, plan_module.PHI_BUDGET = before
        lockstep_module.ALWAYS = False


def packed(arguments: Arguments) -> bytes:
    """Parameter bytes: arrays as pointers, Python ints as .u32 (from -2**31 to 2**32-1), floats as .f32."""
    result = b""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            result += bytes(-len(result) % 8) + struct.pack("<Q", pointer(argument))
        elif isinstance(argument, float):
            result += struct.pack("<f", argument)
        else:
            result += struct.pack("<I", int(argument) & 0xFFFF_FFFF)
    return result


def run(
    text: str, block: Block, arguments: Arguments, way: Way, *, kernel: str = "k", grid: Block = (1, 1, 1),
    symbols: Sequence[Array] = (), dynamic_shared: int = 0,
) -> tuple[list[Array], list[tuple[str, int, tuple[int, ...]]]]:  # fmt: skip
    """The arrays as the kernel leaves them (argument arrays, then symbols), and the service calls."""
    image = compiled(text, kernel, block, way)
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    tables = [symbol.copy() for symbol in symbols]
    image.services.clear()
    image.launch(
        grid, block, packed(copies), symbols=[pointer(table) for table in tables], dynamic_shared=dynamic_shared,
        general=way.general, flags=2 if way.alone else 0,
    )  # fmt: skip
    arrays = [copy for copy in copies if isinstance(copy, np.ndarray)]
    return [*arrays, *tables], list(image.services)


def check(
    text: str, block: Block, arguments: Arguments, expected: Sequence[Array | None], *, ways: Sequence[Way] = WAYS,
    grid: Block = (1, 1, 1), kernel: str = "k", symbols: Sequence[Array] = (), dynamic_shared: int = 0,
) -> None:  # fmt: skip
    """Runs in all ways; `expected` are the arrays afterwards (None: only compared between the ways)."""
    first: list[Array] | None = None
    for way in ways:
        arrays, _ = run(
            text, block, arguments, way, kernel=kernel, grid=grid, symbols=symbols, dynamic_shared=dynamic_shared
        )
        for index, array in enumerate(arrays):
            wanted = expected[index] if index < len(expected) else None
            what = f"array {index}, block {block}, {way.name}"
            if wanted is not None:
                np.testing.assert_array_equal(array, wanted, err_msg=what)
            elif first is not None:
                np.testing.assert_array_equal(array, first[index], err_msg=what)
        first = first or arrays


class Fault(Exception):
    """A trap of the code: its fault number."""


def in_child(work: Callable[[], Any]) -> Any:
    """Runs `work` in a forked process: code that crashes, or traps, does not take the tests with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            with os.fdopen(writer, "wb") as stream:
                try:
                    pickle.dump((True, work()), stream)
                except BaseException as error:
                    pickle.dump((False, repr(error)), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) >= 64:
        raise Fault(os.WEXITSTATUS(status) - 64)
    if status:
        raise RuntimeError(f"the code crashed: wait status {status}")
    good, value = pickle.loads(data)
    if not good:
        raise AssertionError(value)
    return value


def trap_ends_process(image: ImageRunner) -> None:
    """In a child process: a trap becomes exit status 64 + fault."""
    names = [name for name, _ in SERVICES]
    original = image.service_table

    def table() -> Any:
        result = original()
        kind = type(image.callbacks[0])

        def trap(block: int, thread: int, fault: int, line: int, c: int, d: int) -> int:
            os._exit(64 + fault)

        callback = kind(trap)
        image.callbacks.append(callback)
        result[names.index("trap")] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return result

    image.service_table = table  # type: ignore[method-assign]


def run_or_fault(text: str, block: Block, arguments: Arguments, way: Way, **more: Any) -> list[Array]:
    """`run` in a child process; raises Fault for a trap."""
    image = compiled(text, more.get("kernel", "k"), block, way)

    def work() -> list[Array]:
        trap_ends_process(image)
        return run(text, block, arguments, way, **more)[0]

    result: list[Array] = in_child(work)
    return result


def entry(body: str, parameters: str = ".param .u64 out", *, variables: str = "", before: str = "") -> str:
    """A kernel `k` with plenty of registers; `%t` is the linear thread of the block, `%out` the pointer."""
    return f"""{before}
.visible .entry k({parameters})
{{
  .reg .pred %p<40>; .reg .b16 %h<20>; .reg .b32 %r<80>; .reg .b64 %d<60>; .reg .f32 %f<30>; .reg .f64 %g<20>;
  .reg .b32 %t, %x, %y, %z, %nx, %ny, %lane; .reg .b64 %out, %wide; .reg .b128 %q<4>;
{variables}
  mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z; mov.u32 %nx, %ntid.x; mov.u32 %ny, %ntid.y;
  mad.lo.u32 %t, %z, %ny, %y; mad.lo.u32 %t, %t, %nx, %x; mov.u32 %lane, %laneid;
  ld.param.u64 %out, [out];
  mul.wide.u32 %wide, %t, 4; add.u64 %wide, %out, %wide;
{body}
}}
"""


def threads(block: Block) -> int:
    return block[0] * block[1] * block[2]
