"""The program of `cuttle demo`: a CUDA driver-API program that happens to be written in Python.

Nothing of Cuttle is imported: it finds libcuda.so.1 as any program does, and would draw the same picture on an NVIDIA
GPU: `python demo_program.py julia.ptx picture.png WIDTH HEIGHT SAMPLES ANGLE`. Prints one line of JSON with the times; its exit code
is 1 if the driver failed, 3 if the picture cannot be written.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
import time
import zlib
from typing import Any

BLOCK = (32, 4)
NOT_WRITTEN = 3  # exit code


class CudaFailure(Exception):
    """A driver function answered an error."""


class Driver:
    """The driver's functions; a call that fails raises `CudaFailure` with the error's name."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, function: str, *arguments: Any) -> None:
        result = getattr(self.library, function)(*arguments)
        if result:
            name = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(name))
            raise CudaFailure(f"{function}: {(name.value or b'unknown error').decode()} ({result})")


def load(cuda: Driver, text: bytes) -> ctypes.c_void_p:
    """The module of a PTX text; the compiler's log goes to stderr if it is refused."""
    module = ctypes.c_void_p()
    log = ctypes.create_string_buffer(8192)
    # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    options = (ctypes.c_int * 2)(5, 6)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    try:
        cuda("cuModuleLoadDataEx", ctypes.byref(module), text + b"\0", 2, options, values)
    except CudaFailure:
        sys.stderr.write(log.value.decode(errors="replace") + "\n")
        raise
    return module


def draw(ptx: bytes, width: int, height: int, samples: int, angle: float) -> tuple[bytes, dict[str, Any]]:
    """The picture as RGBA bytes, and what it took."""
    cuda = Driver()
    times: dict[str, Any] = {}
    started = time.perf_counter()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    name = ctypes.create_string_buffer(256)
    cuda("cuDeviceGetName", name, 256, device)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    times["device"] = name.value.decode()
    times["start_s"] = time.perf_counter() - started

    kernel, image = ctypes.c_void_p(), ctypes.c_uint64()
    module = load(cuda, ptx)
    cuda("cuModuleGetFunction", ctypes.byref(kernel), module, b"draw")
    size = ctypes.c_size_t(width * height * 4)
    cuda("cuMemAlloc_v2", ctypes.byref(image), size)

    # The first launch, of a single block, compiles the kernel.
    for key, columns, rows in (("compile_s", *BLOCK), ("draw_s", width, height)):
        grid = ((columns + BLOCK[0] - 1) // BLOCK[0], (rows + BLOCK[1] - 1) // BLOCK[1])
        values = (
            image,
            ctypes.c_uint32(columns),
            ctypes.c_uint32(rows),
            ctypes.c_uint32(samples),
            ctypes.c_float(angle),
        )
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        started = time.perf_counter()
        cuda("cuLaunchKernel", kernel, *grid, 1, *BLOCK, 1, 0, None, pointers, None)
        cuda("cuCtxSynchronize")
        times[key] = time.perf_counter() - started

    pixels = ctypes.create_string_buffer(size.value)
    cuda("cuMemcpyDtoH_v2", pixels, image, size)
    cuda("cuMemFree_v2", image)
    cuda("cuModuleUnload", module)
    cuda("cuDevicePrimaryCtxRelease_v2", device)
    return pixels.raw, times


def png(pixels: bytes, width: int, height: int) -> bytes:
    """RGBA pixels as a PNG file without the alpha channel; each row is stored as differences to the one above."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = []
    above = bytes(width * 3)
    for at in range(0, len(pixels), width * 4):
        row = bytearray(width * 3)
        for channel in range(3):
            row[channel::3] = pixels[at + channel : at + width * 4 : 4]
        rows.append(b"\2" + bytes((a - b) & 255 for a, b in zip(row, above, strict=True)))
        above = bytes(row)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def main(arguments: list[str]) -> int:
    ptx, output = arguments[:2]
    width, height, samples = map(int, arguments[2:5])
    try:
        with open(ptx, "rb") as file:
            text = file.read()
        pixels, times = draw(text, width, height, samples, float(arguments[5]))
    except (CudaFailure, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        with open(output, "wb") as file:
            file.write(png(pixels, width, height))
    except OSError as error:
        sys.stderr.write(f"{output}: {error.strerror}\n")
        return NOT_WRITTEN
    sys.stdout.write(json.dumps(times) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
