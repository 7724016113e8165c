"""Asks a driver what the launch interface of CUDA 2 answers (`client/launch_state.c`): `python tools/record_launch_state.py LIBRARY`.

Prints one line of JSON: case → [results of the calls, in order, then the number in memory after a synchronisation].
"""

from __future__ import annotations

import ctypes
import json
import sys

PTX = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 place, .param .u32 a, .param .f32 b)
{
    .reg .b64 %p; .reg .b32 %r<6>; .reg .f32 %f;
    ld.param.u64 %p, [place];
    ld.param.u32 %r1, [a];
    ld.param.f32 %f, [b];
    cvt.rzi.u32.f32 %r2, %f;
    add.u32 %r1, %r1, %r2;
    atom.global.add.u32 %r3, [%p], %r1;
    ret;
}
"""


def record(path: str) -> dict[str, list[int]]:
    """The results of all cases; CUresult numbers."""
    cuda = ctypes.CDLL(path)
    context, module, address = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    if cuda.cuInit(0) or cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
        raise SystemExit("no device")
    if cuda.cuModuleLoadData(ctypes.byref(module), PTX) or cuda.cuMemAlloc_v2(ctypes.byref(address), 64):
        raise SystemExit("no module")
    cases: dict[str, list[int]] = {}

    def case(name: str, *calls: tuple[object, ...]) -> None:
        """Each case has a module of its own: a function remembers what was set."""
        own, function, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32()
        cuda.cuModuleLoadData(ctypes.byref(own), PTX)
        cuda.cuModuleGetFunction(ctypes.byref(function), own, b"add")
        cuda.cuMemsetD32_v2(address, 0, 1)
        results = [int(getattr(cuda, str(call[0]))(function, *call[1:])) for call in calls]
        results.append(int(cuda.cuCtxSynchronize()))
        cuda.cuMemcpyDtoH_v2(ctypes.byref(word), address, 4)
        cases[name] = [*results, word.value]

    pointer = ctypes.byref(address)
    shape, size = ("cuFuncSetBlockShape", 32, 1, 1), ("cuParamSetSize", 16)
    parameters = (
        ("cuParamSetv", 0, pointer, 8), ("cuParamSeti", 8, 5), ("cuParamSetf", 12, ctypes.c_float(2.0)),
    )  # fmt: skip
    case("all set", shape, size, *parameters, ("cuLaunchGrid", 2, 3))
    case("one block", shape, size, *parameters, ("cuLaunch",))
    case("on a stream", shape, size, *parameters, ("cuLaunchGridAsync", 2, 1, None))
    case("twice", shape, size, *parameters, ("cuLaunch",), ("cuLaunch",))
    case("no shape", size, *parameters, ("cuLaunch",))
    case("small size", shape, ("cuParamSetSize", 12), *parameters, ("cuLaunch",))
    case("large size", shape, ("cuParamSetSize", 64), *parameters, ("cuLaunch",))
    case("shape 0", ("cuFuncSetBlockShape", 0, 1, 1))
    case("shape negative", ("cuFuncSetBlockShape", -1, 1, 1))
    case("shape 2048", ("cuFuncSetBlockShape", 2048, 1, 1), size, *parameters, ("cuLaunch",))
    case("grid 0", shape, size, *parameters, ("cuLaunchGrid", 0, 1))
    case("grid negative", shape, size, *parameters, ("cuLaunchGrid", -1, 1))
    case("shared too large", shape, size, *parameters, ("cuFuncSetSharedSize", 1 << 20), ("cuLaunch",))
    case("size 1 MiB", ("cuParamSetSize", 1 << 20))
    case("parameter behind the end", size, ("cuParamSeti", 64, 1))
    case("parameter far behind the end", size, ("cuParamSeti", 1 << 20, 1))
    # Not asked: parameters from a null pointer and in front of the beginning; the H200's driver crashes there.
    case("nothing from nowhere", size, ("cuParamSetv", 0, None, 0))
    # Not asked either: a launch without any size. On an H200 its parameters were not the same each time.
    return cases


if __name__ == "__main__":
    print(json.dumps(record(sys.argv[1])))
