"""Runs PTX file tests through whatever driver `libcuda.so.1` is: NVIDIA's on a GPU, Cuttle's client library elsewhere.

    python3 src/cuttle/selftest/run_files.py FILE...         # one JSON line per file: {"file", "outcome", "device"}
    python3 src/cuttle/selftest/run_files.py --alone FILE... # each file in a process of its own, which may fault or hang

Standard library only: the same script records the expectations (`tools/record_files.py`) and checks them.

A file is one PTX module with a kernel `test(.param .u64 out, .param .u64 in)`. Comment lines that begin with `//:` say how
to run it:

    //: run grid=2 block=64 cluster=2 shared=0 local=0   sizes as x or x,y,z; all but `block` may be left out; local is the stack limit in bytes
    //: in u32 1 2 0xff                 contents of the input buffer (several lines join; 4096 zero bytes follow)
    //: texture 8 4                     the kernel has parameters `tex` and `surf` as well: a texture and a surface object on an
                                        array of 32-bit numbers of this width and height, which are 1000, 1001, ... row by row
    //: out u32 64                      type and number of the results; the buffer is zeroed before
    //: expect 1 2 0x3 4*16             results: a*n is n times a (several lines join), or `fault`, `hang` or `refused` and why
    //: from H200                       where the expectation comes from
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "6"))
SLACK_BYTES = 4096
WIDTHS = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STACK_LIMIT = 0  # CU_LIMIT_STACK_SIZE


@dataclass
class FileTest:
    """What the `//:` lines of a file say."""

    path: Path
    text: str
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    cluster: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0
    local: int = 0
    inputs: bytes = b""
    texture: tuple[int, int] = (0, 0)
    out_type: str = "u32"
    out_count: int = 32
    expect: list[int] | str | None = None
    source: str = ""
    problems: list[str] = field(default_factory=list)


def sizes(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.split(",")]
    x, y, z = (parts + [1, 1, 1])[:3]
    return x, y, z


def numbers(words: list[str]) -> list[int]:
    """`1 0xff 7*3` as integers."""
    result: list[int] = []
    for word in words:
        value, _, times = word.partition("*")
        result.extend([int(value, 0)] * int(times or "1"))
    return result


def read_file(path: Path) -> FileTest:
    """Parses the header of a file test. Raises ValueError for lines it does not know."""
    test = FileTest(path, path.read_text())
    expected: list[int] = []
    for line in test.text.splitlines():
        if not line.startswith("//:"):
            continue
        key, *words = line[3:].split()
        if key == "run":
            for word in words:
                name, _, value = word.partition("=")
                if name in ("grid", "block", "cluster"):
                    setattr(test, name, sizes(value))
                elif name in ("shared", "local"):
                    setattr(test, name, int(value))
                else:
                    raise ValueError(f"{path}: run {word}")
        elif key == "in":
            width = WIDTHS[words[0]]
            test.inputs += b"".join(
                (value & (1 << 8 * width) - 1).to_bytes(width, "little") for value in numbers(words[1:])
            )
        elif key == "texture":
            test.texture = int(words[0]), int(words[1])
        elif key == "out":
            test.out_type, test.out_count = words[0], int(words[1])
        elif key == "expect" and words[0] in ("fault", "hang", "refused"):
            test.expect = " ".join(words)
        elif key == "expect":
            expected.extend(numbers(words))
            test.expect = expected
        elif key == "from":
            test.source = " ".join(words)
        else:
            raise ValueError(f"{path}: {line}")
    return test


class ClusterAttribute(ctypes.Structure):
    """`CUlaunchAttribute` with a cluster dimension."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("xyz", ctypes.c_uint * 3), ("rest", ctypes.c_uint * 13))


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    )  # fmt: skip


class ArrayDescriptor(ctypes.Structure):
    """`CUDA_ARRAY3D_DESCRIPTOR`."""

    _fields_ = (
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t), ("format", ctypes.c_int),
        ("channels", ctypes.c_uint), ("flags", ctypes.c_uint),
    )  # fmt: skip


class ResourceDescriptor(ctypes.Structure):
    """`CUDA_RESOURCE_DESC` of an array."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("array", ctypes.c_void_p),
        ("rest", ctypes.c_int * 30),
        ("flags", ctypes.c_uint),
    )


class TextureDescriptor(ctypes.Structure):
    """`CUDA_TEXTURE_DESC`."""

    _fields_ = (
        ("address", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint), ("rest", ctypes.c_int * 21)
    )  # fmt: skip


class Copy2D(ctypes.Structure):
    """`CUDA_MEMCPY2D`."""

    _fields_ = tuple(
        (f"{side}_{name}", kind)
        for side in ("source", "destination")
        for name, kind in (
            ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("kind", ctypes.c_int), ("host", ctypes.c_void_p),
            ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t),
        )
    ) + (("width", ctypes.c_size_t), ("height", ctypes.c_size_t))  # fmt: skip


class DriverError(Exception):
    """A driver call that failed: its name and CUresult."""


class Gpu:
    """The few driver functions needed."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.name = f"{name.value.decode()}, driver API {version.value}"

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise DriverError(f"{name}: {text.value.decode() if text.value else code}")

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return pointer

    def load(self, text: str) -> ctypes.c_void_p:
        """Loads a module. Raises DriverError with the compiler's log."""
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(4096)
        # CU_JIT_ERROR_LOG_BUFFER and its size.
        names = (ctypes.c_int * 2)(5, 6)
        values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), 4096)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode() + b"\0", 2, names, values)
        except DriverError as error:
            raise DriverError(f"{error}: {log.value.decode('utf-8', 'replace').strip()}") from None
        return module

    def run(self, test: FileTest) -> list[int]:
        """The results of one file."""
        if test.local:
            self.call("cuCtxSetLimit", STACK_LIMIT, ctypes.c_size_t(test.local))
        module = self.load(test.text)
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"test")
        width = WIDTHS[test.out_type]
        size = test.out_count * width
        out, source = self.allocate(size + SLACK_BYTES), self.allocate(len(test.inputs) + SLACK_BYTES)
        if test.inputs:
            self.call("cuMemcpyHtoD_v2", source, test.inputs, ctypes.c_size_t(len(test.inputs)))
        if test.shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, test.shared)
        objects = self.texture_objects(*test.texture) if test.texture[0] else []
        self.launch(test, function, [out, source, *objects])
        self.call("cuCtxSynchronize")
        host = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", host, out, ctypes.c_size_t(size))
        self.call("cuMemFree_v2", out)
        self.call("cuMemFree_v2", source)
        self.call("cuModuleUnload", module)
        return [int.from_bytes(host.raw[at : at + width], "little") for at in range(0, size, width)]

    def texture_objects(self, width: int, height: int) -> list[ctypes.c_uint64]:
        """A texture and a surface object on one new array."""
        array = ctypes.c_void_p()
        # CU_AD_FORMAT_UNSIGNED_INT32, CUDA_ARRAY3D_SURFACE_LDST
        descriptor = ArrayDescriptor(width, height, 0, 3, 1, 2)
        self.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(descriptor))
        texels = (ctypes.c_uint32 * (width * height))(*range(1000, 1000 + width * height))
        copy = Copy2D(source_kind=1, source_pitch=4 * width, destination_kind=3, width=4 * width, height=height)
        copy.source_host, copy.destination_array = ctypes.addressof(texels), array
        self.call("cuMemcpy2D_v2", ctypes.byref(copy))
        resource = ResourceDescriptor(0, array)
        # Clamped coordinates, the nearest texel, CU_TRSF_READ_AS_INTEGER
        sampling = TextureDescriptor((1, 1, 1), 0, 1)
        texture, surface = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("cuTexObjectCreate", ctypes.byref(texture), ctypes.byref(resource), ctypes.byref(sampling), None)
        self.call("cuSurfObjectCreate", ctypes.byref(surface), ctypes.byref(resource))
        return [texture, surface]

    def launch(self, test: FileTest, function: ctypes.c_void_p, arguments: list[ctypes.c_uint64]) -> None:
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(argument) for argument in arguments])
        config = LaunchConfig(test.grid, test.block, test.shared, None, None, 0)
        attribute = ClusterAttribute(CLUSTER_DIMENSION, 0, test.cluster)
        if any(test.cluster):
            config.attributes, config.count = ctypes.addressof(attribute), 1
            if test.cluster[0] * test.cluster[1] * test.cluster[2] > 8:
                self.call("cuFuncSetAttribute", function, NON_PORTABLE_CLUSTER, 1)
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)


def run_alone(path: str) -> dict[str, Any]:
    """The outcome of a file that may fault or hang."""
    command = [sys.executable, __file__, path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"file": path, "outcome": "hang"}
    for line in output.decode().splitlines():
        if line.startswith("{"):
            result: dict[str, Any] = json.loads(line)
            return result
    return {"file": path, "outcome": f"error {process.returncode}: {errors.decode()[-500:]}"}


def tell(result: dict[str, Any]) -> None:
    """A line for whoever started this."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--alone"]:
        for path in arguments[1:]:
            tell(run_alone(path))
        return
    gpu = Gpu()
    for path in arguments:
        outcome: list[int] | str
        try:
            outcome = gpu.run(read_file(Path(path)))
        except DriverError as error:
            outcome = f"fault {error}"
        tell({"file": path, "outcome": outcome, "device": gpu.name})


if __name__ == "__main__":
    main(sys.argv[1:])
