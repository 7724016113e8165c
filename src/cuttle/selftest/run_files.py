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

if not __package__:  # run as a script, from a plain checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cuttle.sweep.driver import Driver, DriverFailure  # noqa: E402
from cuttle.sweep.textures import (  # noqa: E402
    CLAMP,
    INTEGERS,
    POINT,
    RESOURCE_ARRAY,
    SURFACE,
    U32,
    ArrayDescriptor,
    Copy3D,
    ResourceDescriptor,
    TextureDescriptor,
)

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


class FileDriver(Driver):
    """A device that runs file tests."""

    def zeroed(self, size: int) -> ctypes.c_uint64:
        pointer = self.allocate(size)
        self.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return pointer

    def run(self, test: FileTest) -> list[int]:
        """The results of one file. Raises DriverFailure."""
        if test.local:
            self.call("cuCtxSetLimit", STACK_LIMIT, ctypes.c_size_t(test.local))
        module = self.load(test.text.encode())
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"test")
        width = WIDTHS[test.out_type]
        size = test.out_count * width
        out, source = self.zeroed(size + SLACK_BYTES), self.zeroed(len(test.inputs) + SLACK_BYTES)
        if test.inputs:
            self.write(source, test.inputs)
        if test.shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, test.shared)
        objects = self.texture_objects(*test.texture) if test.texture[0] else []
        self.launch_test(test, function, [out, source, *objects])
        self.synchronize()
        results = self.read(out, size)
        self.free(out)
        self.free(source)
        self.unload(module)
        return [int.from_bytes(results[at : at + width], "little") for at in range(0, size, width)]

    def texture_objects(self, width: int, height: int) -> list[ctypes.c_uint64]:
        """A texture and a surface object on one new array."""
        array = ctypes.c_void_p()
        self.call(
            "cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(ArrayDescriptor(width, height, 0, U32, 1, SURFACE))
        )
        texels = (ctypes.c_uint32 * (width * height))(*range(1000, 1000 + width * height))
        copy = Copy3D(
            source_kind=1, source_pitch=4 * width, source_height=height, destination_kind=3, destination_array=array,
            width=4 * width, height=height, depth=1,
        )  # fmt: skip
        copy.source_host = ctypes.addressof(texels)
        self.call("cuMemcpy3D_v2", ctypes.byref(copy))
        resource = ResourceDescriptor(RESOURCE_ARRAY)
        resource.body[0] = array.value or 0
        sampling = TextureDescriptor((CLAMP, CLAMP, CLAMP), POINT, INTEGERS)
        texture, surface = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("cuTexObjectCreate", ctypes.byref(texture), ctypes.byref(resource), ctypes.byref(sampling), None)
        self.call("cuSurfObjectCreate", ctypes.byref(surface), ctypes.byref(resource))
        return [texture, surface]

    def launch_test(self, test: FileTest, function: ctypes.c_void_p, arguments: list[ctypes.c_uint64]) -> None:
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
    gpu = FileDriver()
    for path in arguments:
        outcome: list[int] | str
        try:
            outcome = gpu.run(read_file(Path(path)))
        except DriverFailure as failure:
            reason = f"{failure.function}: {failure.name or failure.result}"
            outcome = f"fault {reason}" + (f": {failure.text}" if failure.text else "")
        tell({"file": path, "outcome": outcome, "device": gpu.name})


if __name__ == "__main__":
    main(sys.argv[1:])
