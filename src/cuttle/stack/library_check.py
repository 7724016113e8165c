"""Tries one CUDA library in this process: `python -m cuttle.stack.library_check LIBRARY DRIVER_FILE LIBRARY_FILE`.

Prints a line for every step that went well and one for the end; `check.py` starts it, because a library may crash, hang or end the process. Device memory
comes from the driver API; every input is a small whole number, so the one right answer is exact.

Signatures and enumerators: NVIDIA's documentation of cuBLAS, cuBLASLt, cuSPARSE, cuFFT, cuDNN and NCCL.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cuttle.sweep.driver import Driver, DriverFailure

MARK = "CUTTLE-CHECK "

# Statuses with which a library says that it cannot do something: cuBLAS 15, cuBLASLt 15, cuSPARSE 10, cuFFT 16, cuDNN 9 (version 8) and 3000 to 3999
# (version 9), CUDA_ERROR_NOT_SUPPORTED 801.
REFUSALS = {
    "driver": (801,), "cublas": (15,), "cublaslt": (15,), "cusparse": (10,), "cufft": (16,), "cudnn": (9, *range(3000, 4000)), "nccl": (),
}  # fmt: skip

KERNEL = b""".version 7.0
.target sm_52
.address_size 64
.visible .entry cubes(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.lo.u32 %r2, %r1, %r1;
    mul.lo.u32 %r3, %r2, %r1;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""


class WrongAnswer(Exception):
    """The library said that all went well, and it did not."""


class Refused(Exception):
    """The library said that it cannot do this."""


class Library:
    """A library whose functions answer a status, 0 for success."""

    def __init__(self, name: str, file: str) -> None:
        self.name = name
        self._library = ctypes.CDLL(file)

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function; raises Refused or RuntimeError with its name and status."""
        try:
            entry = getattr(self._library, function)
        except AttributeError:
            raise Refused(f"it has no {function}") from None
        status = entry(*arguments)
        if status in REFUSALS[self.name]:
            raise Refused(f"{function} answered {status} (not supported)")
        if status:
            raise RuntimeError(f"{function} answered {status}")

    def create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Calls a function whose first argument receives a handle."""
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle


def floats(cuda: Driver, values: Sequence[float]) -> ctypes.c_uint64:
    """32-bit floating-point values in device memory."""
    pointer = cuda.allocate(4 * len(values))
    cuda.write(pointer, struct.pack(f"<{len(values)}f", *values))
    return pointer


def integers(cuda: Driver, values: Sequence[int]) -> ctypes.c_uint64:
    """32-bit integers in device memory."""
    pointer = cuda.allocate(4 * len(values))
    cuda.write(pointer, struct.pack(f"<{len(values)}i", *values))
    return pointer


def expect(cuda: Driver, pointer: ctypes.c_uint64, wanted: Sequence[float]) -> None:
    """Waits for the device and compares floats bit for bit (-0.0 counts as 0.0)."""
    cuda.synchronize()
    got = struct.unpack(f"<{len(wanted)}f", cuda.read(pointer, 4 * len(wanted)))
    if list(got) != list(wanted):
        place = next(i for i, (one, other) in enumerate(zip(got, wanted, strict=True)) if one != other)
        raise WrongAnswer(f"element {place} is {got[place]}, not {wanted[place]}")


def approximately(cuda: Driver, pointer: ctypes.c_uint64, wanted: Sequence[float]) -> None:
    """As `expect`, to 1e-5: for transforms, whose factors are not exact."""
    cuda.synchronize()
    got = struct.unpack(f"<{len(wanted)}f", cuda.read(pointer, 4 * len(wanted)))
    for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if not abs(one - other) <= 1e-5:
            raise WrongAnswer(f"element {place} is {one}, not {other}")


Step = Callable[[str], None]

ONE, ZERO = ctypes.c_float(1), ctypes.c_float(0)
# Column-major 2 by 2: [1 3; 2 4] times [5 7; 6 8] is [23 31; 34 46].
A, B, PRODUCT = (1.0, 2.0, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0), (23.0, 34.0, 31.0, 46.0)


def driver(cuda: Driver, file: str, step: Step) -> None:
    """The driver itself: a kernel from PTX text."""
    step("handle")
    module = cuda.load(KERNEL)
    out = cuda.allocate(4 * 64)
    function = ctypes.c_void_p()
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"cubes")
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    cuda.call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, None, parameters, None)
    cuda.synchronize()
    got = struct.unpack("<64I", cuda.read(out, 256))
    for place, value in enumerate(got):
        if value != place**3:
            raise WrongAnswer(f"element {place} is {value}, not {place**3}")


def cublas(cuda: Driver, file: str, step: Step) -> None:
    """A matrix product with cublasSgemm."""
    library = Library("cublas", file)
    step("loads")
    handle = library.create("cublasCreate_v2")
    step("handle")
    a, b, c = floats(cuda, A), floats(cuda, B), floats(cuda, (0.0,) * 4)
    library.call("cublasSgemm_v2", handle, 0, 0, 2, 2, 2, ctypes.byref(ONE), a, 2, b, 2, ctypes.byref(ZERO), c, 2)
    expect(cuda, c, PRODUCT)
    library.call("cublasDestroy_v2", handle)


def cublaslt(cuda: Driver, file: str, step: Step) -> None:
    """A matrix product with cublasLtMatmul (CUBLAS_COMPUTE_32F is 68, CUDA_R_32F is 0)."""
    library = Library("cublaslt", file)
    step("loads")
    handle = library.create("cublasLtCreate")
    step("handle")
    description = library.create("cublasLtMatmulDescCreate", 68, 0)
    two = ctypes.c_uint64(2)
    layout = library.create("cublasLtMatrixLayoutCreate", 0, two, two, ctypes.c_int64(2))
    a, b, c = floats(cuda, A), floats(cuda, B), floats(cuda, (0.0,) * 4)
    library.call(
        "cublasLtMatmul", handle, description, ctypes.byref(ONE), a, layout, b, layout, ctypes.byref(ZERO), c, layout, c, layout, None, None,
        ctypes.c_size_t(0), None,
    )  # fmt: skip
    expect(cuda, c, PRODUCT)
    library.call("cublasLtDestroy", handle)


def cusparse(cuda: Driver, file: str, step: Step) -> None:
    """A sparse matrix in coordinates (3 entries of 2 by 2) times a dense one, with cusparseSpMM (CUSPARSE_INDEX_32I is 2, column order 1)."""
    library = Library("cusparse", file)
    step("loads")
    handle = library.create("cusparseCreate")
    step("handle")
    rows, columns = integers(cuda, (0, 0, 1)), integers(cuda, (0, 1, 1))
    values, dense, result = floats(cuda, (1.0, 3.0, 4.0)), floats(cuda, B), floats(cuda, (0.0,) * 4)
    two, three = ctypes.c_int64(2), ctypes.c_int64(3)
    matrix = library.create("cusparseCreateCoo", two, two, three, rows, columns, values, 2, 0, 0)
    b = library.create("cusparseCreateDnMat", two, two, two, dense, 0, 1)
    c = library.create("cusparseCreateDnMat", two, two, two, result, 0, 1)
    size = ctypes.c_size_t()
    common = (handle, 0, 0, ctypes.byref(ONE), matrix, b, ctypes.byref(ZERO), c, 0, 0)
    library.call("cusparseSpMM_bufferSize", *common, ctypes.byref(size))
    buffer = cuda.allocate(max(size.value, 4))
    library.call("cusparseSpMM", *common, buffer)
    # [1 3; 0 4] times [5 7; 6 8]
    expect(cuda, result, (23.0, 24.0, 31.0, 32.0))
    library.call("cusparseDestroy", handle)


def cufft(cuda: Driver, file: str, step: Step) -> None:
    """The transform of 8 complex numbers, an impulse at 1 (CUFFT_C2C is 0x29, forward -1): powers of the eighth root of unity."""
    library = Library("cufft", file)
    step("loads")
    plan = ctypes.c_int()
    library.call("cufftPlan1d", ctypes.byref(plan), 8, 0x29, 1)
    step("handle")
    half = 0.5**0.5
    data = floats(cuda, (0.0, 0.0, 1.0, 0.0, *(0.0,) * 12))
    library.call("cufftExecC2C", plan, data, data, -1)
    turns = ((1, 0), (half, -half), (0, -1), (-half, -half), (-1, 0), (-half, half), (0, 1), (half, half))
    approximately(cuda, data, [part for turn in turns for part in turn])
    library.call("cufftDestroy", plan)


def cudnn(cuda: Driver, file: str, step: Step) -> None:
    """A 2 by 2 convolution over a 3 by 3 picture (CUDNN_CROSS_CORRELATION is 1, implicit GEMM 0)."""
    library = Library("cudnn", file)
    step("loads")
    handle = library.create("cudnnCreate")
    step("handle")
    x, y = library.create("cudnnCreateTensorDescriptor"), library.create("cudnnCreateTensorDescriptor")
    library.call("cudnnSetTensor4dDescriptor", x, 0, 0, 1, 1, 3, 3)
    library.call("cudnnSetTensor4dDescriptor", y, 0, 0, 1, 1, 2, 2)
    w = library.create("cudnnCreateFilterDescriptor")
    library.call("cudnnSetFilter4dDescriptor", w, 0, 0, 1, 1, 2, 2)
    convolution = library.create("cudnnCreateConvolutionDescriptor")
    library.call("cudnnSetConvolution2dDescriptor", convolution, 0, 0, 1, 1, 1, 1, 1, 0)
    size = ctypes.c_size_t()
    library.call("cudnnGetConvolutionForwardWorkspaceSize", handle, x, w, convolution, y, 0, ctypes.byref(size))
    workspace = cuda.allocate(max(size.value, 4))
    picture, weights, result = (
        floats(cuda, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
        floats(cuda, A),
        floats(cuda, (0.0,) * 4),
    )
    library.call(
        "cudnnConvolutionForward", handle, ctypes.byref(ONE), x, picture, w, weights, convolution, 0, workspace, size, ctypes.byref(ZERO), y,
        result,
    )  # fmt: skip
    expect(cuda, result, (37.0, 47.0, 67.0, 77.0))
    library.call("cudnnDestroy", handle)


def nccl(cuda: Driver, file: str, step: Step) -> None:
    """A sum over one rank (ncclFloat32 is 7, ncclSum 0)."""
    library = Library("nccl", file)
    step("loads")
    communicator = ctypes.c_void_p()
    library.call("ncclCommInitAll", ctypes.byref(communicator), 1, None)
    step("handle")
    send, receive = floats(cuda, A), floats(cuda, (0.0,) * 4)
    library.call("ncclAllReduce", send, receive, ctypes.c_size_t(4), 7, 0, communicator, None)
    expect(cuda, receive, A)
    library.call("ncclCommDestroy", communicator)


CHECKS: dict[str, Callable[[Driver, str, Step], None]] = {
    "driver": driver, "cublas": cublas, "cublaslt": cublaslt, "cusparse": cusparse, "cufft": cufft, "cudnn": cudnn, "nccl": nccl,
}  # fmt: skip


def say(**fields: str) -> None:
    """One line to the process that started this one."""
    sys.stdout.write(MARK + json.dumps(fields) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Tries a library; 0 if its answer was right."""
    name, driver_file, file = arguments
    try:
        cuda = Driver(driver_file)
        if name == "driver":
            say(step="loads")
        CHECKS[name](cuda, file, lambda step: say(step=step))
        say(end="correct")
        return 0
    except WrongAnswer as wrong:
        say(end="wrong answer", text=str(wrong))
    except Refused as refused:
        say(end="refused", text=str(refused))
    except DriverFailure as failure:
        say(end="refused" if failure.result in REFUSALS["driver"] else "failed", text=f"driver: {failure}")
    except (OSError, RuntimeError, AttributeError) as error:
        say(end="failed", text=str(error))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
