"""Launches and occupancy questions about clusters, run through whatever driver the library is.

    python3 tests/client/cluster_launches.py LIBRARY [CASE ...]   # one JSON object: {case: answer}

`tools/record_cluster_launches.py` records the answers of NVIDIA's driver; `test_cluster_launches.py` compares Cuttle's.
Standard library only, and nothing of Cuttle's.

A case is a line `CALL KERNEL NAME=VALUE...`. Calls:

    attributes   the function attributes about clusters
    launch       cuLaunchKernel
    cooperative  cuLaunchCooperativeKernel
    launch_ex    cuLaunchKernelEx
    node         a kernel node of a graph, with `cluster` as an attribute of the node; instantiated and launched
    node_again   the same, and the node's parameters are set once more before: to what cuGraphKernelNodeGetParams answers
    capture      cuLaunchKernelEx while the stream is captured; instantiated and launched
    active       cuOccupancyMaxActiveClusters
    potential    cuOccupancyMaxPotentialClusterSize
    blocks       cuOccupancyMaxActiveBlocksPerMultiprocessor

Names: `set=ATTRIBUTE:VALUE` (cuFuncSetAttribute before the call; several), `grid`, `block`, `cluster` (several: as many
attributes), `preferred` as x or x,y,z; `policy`, `cooperative`, `shared`. The answer is a list of results, in the order of
the calls; a launch that was accepted ends with what the kernel saw: blocks, %cluster_nctaid, %is_explicit_cluster.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

_KERNELS = {
    "plain": "",
    "need4": ".reqnctapercluster 4",
    "need2x2": ".reqnctapercluster 2, 2, 1",
    "need9": ".reqnctapercluster 9",
    "need16": ".reqnctapercluster 16",
    "explicit": ".explicitcluster",
    "explicit4": ".explicitcluster .reqnctapercluster 4",
    "most4": ".maxclusterrank 4",
    "most12": ".maxclusterrank 12",
    "areclusters": ".blocksareclusters .reqntid 32 .reqnctapercluster 4",
    "areclusters_y": ".blocksareclusters .reqntid 32 .reqnctapercluster 1, 4",
    "threads64": ".reqntid 64",
    "threads8x8": ".reqntid 8, 8",
    "most64": ".maxntid 64",
    "need0": ".reqnctapercluster 0",
    "need4x0": ".reqnctapercluster 4, 0",
    "most0": ".maxclusterrank 0",
}
_TEXT = """.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 out) %s
{
  .reg .pred %%p, %%q;
  .reg .b32 %%r<8>;
  .reg .b64 %%out;
  ld.param.u64 %%out, [out];
  mov.u32 %%r0, %%tid.x;
  setp.ne.u32 %%p, %%r0, 0;
  @%%p ret;
  red.global.add.u32 [%%out], 1;
  mov.u32 %%r1, %%cluster_nctaid.x;
  mov.u32 %%r2, %%cluster_nctaid.y;
  mov.u32 %%r3, %%cluster_nctaid.z;
  mov.pred %%q, %%is_explicit_cluster;
  selp.u32 %%r4, 1, 0, %%q;
  st.global.u32 [%%out+4], %%r1;
  st.global.u32 [%%out+8], %%r2;
  st.global.u32 [%%out+12], %%r3;
  st.global.u32 [%%out+16], %%r4;
  ret;
}
"""
WORDS = 5
DYNAMIC_SHARED, WIDTH, HEIGHT, DEPTH, NON_PORTABLE = 8, 11, 12, 13, 14  # CU_FUNC_ATTRIBUTE_...
COOPERATIVE, CLUSTER, POLICY, PREFERRED = 2, 4, 5, 11  # CU_LAUNCH_ATTRIBUTE_...


def _cases() -> list[str]:
    any_size, one = f"set={NON_PORTABLE}:1", "grid=8 block=32"
    made = [f"attributes {kernel}" for kernel in _KERNELS]
    for size in (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 15, 16, 17, 18, 24, 32, 65536):
        for extra in ("", f" {any_size}"):
            made.append(f"launch_ex plain grid={2 * max(size, 1)} block=32 cluster={size}{extra}")
            made.append(f"active plain grid={2 * max(size, 1)} block=32 cluster={size}{extra}")
    shapes = (
        "2,2,2", "2,0,1", "0,2,1", "0,0,1", "1,0,1", "1,1,0", "2,2,0", "1,1,8", "1,1,9", "1,9,1", "3,3,1", "4,4,1", "8,1,2",
        "65536,65536,1", "2147483648,2,1", "4294967295,1,1", "1,1,4294967295",
    )  # fmt: skip
    made += [f"launch_ex plain grid=24,18,18 block=32 cluster={shape}" for shape in shapes]
    made += [
        f"launch_ex plain grid=24,18,18 block=32 cluster={shape} {any_size}" for shape in ("4,4,1", "3,3,1", "2,2,0")
    ]
    made += [f"active plain grid=24,18,18 block=32 cluster={shape}" for shape in shapes]
    for call in ("launch_ex", "active", "potential", "node", "capture"):
        made += [
            f"{call} plain {one}",
            f"{call} plain {one} cluster=3",
            f"{call} plain {one} cluster=16",
            f"{call} plain {one} cluster=2,2,1",
            f"{call} plain {one} cluster=4",
            f"{call} plain {one} cluster=0",
            f"{call} plain {one} cluster=2 cluster=4",
            f"{call} plain {one} cluster=3 cluster=4",
            f"{call} plain {one} cluster=4 cluster=3",
            f"{call} plain grid=0 block=32 cluster=17",
            f"{call} plain grid=0 block=32 cluster=2",
            f"{call} plain grid=8 block=0 cluster=17",
            f"{call} plain grid=8 block=0 cluster=2",
            f"{call} plain grid=8 block=2048 cluster=3",
            f"{call} plain grid=8 block=2048 cluster=2",
            f"{call} plain grid=8 block=32 shared=50000 cluster=3",
            f"{call} plain grid=8 block=32 shared=50000 cluster=2",
            f"{call} plain grid=8 block=1024 cluster=8",
            f"{call} plain grid=16 block=1024 cluster=16 {any_size}",
            f"{call} plain grid=8 block=1024 shared=200000 cluster=8 set={DYNAMIC_SHARED}:200000",
            f"{call} plain grid=16 block=1024 shared=200000 cluster=16 {any_size} set={DYNAMIC_SHARED}:200000",
        ]
        made += [f"{call} plain {one} cluster=2 cooperative=1", f"{call} plain {one} cluster=3 cooperative=1"]
        made += [f"{call} plain {one} cluster=2 policy={policy}" for policy in (0, 1, 2, 3, 99)]
        made += [
            f"{call} plain {one} preferred={preferred}{cluster}"
            for preferred in ("0", "1", "2", "3", "4", "8", "16", "17")
            for cluster in ("", " cluster=2")
        ]
        made += [f"{call} need4 {size}" for size in (one, "grid=6 block=32")]
        made += [
            f"{call} need4 {one} cluster={size}" for size in ("4", "2", "8", "1", "0", "17", "1,4,1", "4,0,0", "0,1,1")
        ]
        made += [
            f"{call} need2x2 grid=4,4 block=32",
            f"{call} need2x2 grid=4 block=32",
            f"{call} need2x2 grid=4,2 block=32",
        ]
        made += [f"{call} need2x2 grid=4,4 block=32 cluster={size}" for size in ("4", "2,2", "2,1")]
        for kernel, cluster in (("need9", 9), ("need16", 16)):
            for extra in ("", f" {any_size}"):
                made.append(f"{call} {kernel} grid={cluster} block=32{extra}")
                made.append(f"{call} {kernel} grid={cluster} block=32 cluster={cluster}{extra}")
        for kernel in ("explicit", "explicit4"):
            made += [f"{call} {kernel} {one}", *(f"{call} {kernel} {one} cluster={size}" for size in (0, 1, 2, 4))]
        made += [f"{call} most4 {one}", *(f"{call} most4 grid=40 block=32 cluster={size}" for size in (1, 4, 5, 8, 17))]
        made += [f"{call} most4 grid=40 block=32 cluster=5 {any_size}"]
        made += [f"{call} most12 grid=96 block=32 cluster={size}" for size in (8, 12)]
        made += [f"{call} most12 grid=96 block=32 cluster={size} {any_size}" for size in (12, 16)]
        made += [
            f"{call} areclusters {one}",
            f"{call} areclusters {one} cluster=4",
            f"{call} areclusters grid=6 block=32",
        ]
        made += [f"{call} areclusters grid=8 block=64", f"{call} areclusters {one} cluster=2"]
        made += [f"{call} plain {one} {any_size}", f"{call} plain {one} set={WIDTH}:2"]
        for width, height, depth in ((2, 1, 1), (3, 1, 1), (2, 2, 1), (9, 1, 1), (17, 1, 1), (2, 0, 0), (0, 0, 0)):
            given = f"set={WIDTH}:{width} set={HEIGHT}:{height} set={DEPTH}:{depth}"
            made += [f"{call} plain {one} {given}"]
            if width == 2:
                made += [f"{call} plain {one} {given} cluster={size}" for size in (1, 2, 4)]
    for call in ("launch", "cooperative"):
        made += [f"{call} {kernel} {one}" for kernel in _KERNELS]
        made += [f"{call} {kernel} grid=6 block=32" for kernel in ("plain", "need4", "explicit4", "areclusters")]
        made += [f"{call} need16 grid=16 block=32 {any_size}", f"{call} need16 grid=16 block=32"]
        made += [f"{call} plain grid={size} block=32 set={WIDTH}:2 set={HEIGHT}:1 set={DEPTH}:1" for size in (7, 8)]
        made += [f"{call} plain {one} set={WIDTH}:2", f"{call} plain {one} set={HEIGHT}:2"]
    for kernel in ("plain", "need4", "explicit", "most4"):
        for attribute in (10, WIDTH, HEIGHT, DEPTH, NON_PORTABLE, 15):
            made += [f"attributes {kernel} set={attribute}:{value}" for value in (-1, 0, 1, 2, 4, 9, 17)]
    made += [
        f"attributes plain set={WIDTH}:2 set={HEIGHT}:1 set={DEPTH}:1",
        f"attributes plain set={WIDTH}:2 set={WIDTH}:0",
    ]
    made += [f"attributes plain set={WIDTH}:4 set={HEIGHT}:4 set={DEPTH}:4"]
    for block, shared in (
        (32, 0),
        (256, 0),
        (1024, 0),
        (32, 48 << 10),
        (256, 100 << 10),
        (1024, 200 << 10),
        (32, 227 << 10),
    ):
        for extra in ("", f" {any_size}"):
            allowed = f" set={DYNAMIC_SHARED}:{shared}" if shared > 48 << 10 else ""
            made.append(f"potential plain grid=64 block={block} shared={shared}{extra}{allowed}")
            for size in (1, 4, 8, 16):
                made.append(f"active plain grid=64 block={block} shared={shared} cluster={size}{extra}{allowed}")
    made += [
        f"potential plain grid={size} block=32{extra}"
        for size in (0, 1, 2, 3, 7, 12, 65536)
        for extra in ("", f" {any_size}")
    ]
    made += [
        "potential plain grid=64 block=0",
        "potential plain grid=64 block=2048",
        "potential plain grid=64 block=32 shared=300000",
    ]
    for call in ("launch_ex", "active", "potential"):
        made += [f"{call} plain grid=0 block=32 cluster=0", f"{call} plain grid=0 block=32 policy=3"]
        made += [f"{call} plain grid=8 block=32 shared=50000 cluster=0", f"{call} plain grid=8 block=0 cluster=0"]
        made += [
            f"{call} need0 {one}",
            f"{call} need4x0 {one}",
            f"{call} most0 {one} cluster=2",
            f"{call} need0 {one} cluster=2",
        ]
        made += [f"{call} need4 {one} preferred={blocks}" for blocks in (4, 8)]
    made += [f"attributes most4 set={WIDTH}:{value}" for value in (4, 5, 8)]
    made += [f"attributes most4 set={WIDTH}:4 set={HEIGHT}:4", f"attributes most12 set={WIDTH}:12"]
    made += [f"attributes most12 set={WIDTH}:13", f"attributes most12 set={WIDTH}:12 set={HEIGHT}:12"]
    for kernel in ("threads64", "threads8x8", "most64", "areclusters", "plain"):
        for threads in ("32", "64", "8,8", "16,4", "63", "128", "1025"):
            made += [f"{call} {kernel} grid=8 block={threads}" for call in ("launch", "blocks", "potential")]
            made += [f"active {kernel} grid=8 block={threads} cluster=4"]
    made += [f"blocks plain grid=8 block=32 shared={shared}" for shared in (48 << 10, 50000, 300000)]
    made += [f"launch areclusters_y grid=1,{size} block=32" for size in (2, 4095, 4096, 16383, 16384, 65535, 65536)]
    made += ["launch areclusters_y grid=65536,2 block=32", "launch areclusters grid=1,65535 block=32"]
    for kernel in ("plain", "need4", "explicit", "areclusters"):
        made += [
            f"node_again {kernel} {one}",
            f"node_again {kernel} {one} cluster=4",
            f"node_again {kernel} {one} cluster=2",
        ]
    return list(dict.fromkeys(made))


CASES = _cases()


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


class NodeParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip


def triple(text: str) -> list[int]:
    """`4` or `4,2,1` as three numbers."""
    return ([int(part) for part in text.split(",")] + [1, 1])[:3]


class Runner:
    """One context on the first device."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.require("cuInit", 0)
        self.prepare()

    def call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def require(self, name: str, *arguments: Any) -> None:
        if result := self.call(name, *arguments):
            raise RuntimeError(f"{name}: {result}")

    def prepare(self) -> None:
        """The primary context, a buffer for results and a stream; again after a fault."""
        context = ctypes.c_void_p()
        self.require("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.require("cuCtxSetCurrent", context)
        self.out, self.stream = ctypes.c_uint64(), ctypes.c_void_p()
        self.require("cuMemAlloc_v2", ctypes.byref(self.out), ctypes.c_size_t(4 * WORDS))
        self.require("cuStreamCreate", ctypes.byref(self.stream), 1)

    def run(self, case: str) -> list[Any]:
        """The answer to a case."""
        call, kernel, *words = case.split()
        named = [word.split("=") for word in words]
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        text = (_TEXT % _KERNELS[kernel]).encode()
        if result := self.call("cuModuleLoadData", ctypes.byref(module), text):
            return [f"load {result}"]
        self.require("cuModuleGetFunction", ctypes.byref(function), module, b"test")
        self.require("cuMemsetD8_v2", self.out, 0, ctypes.c_size_t(4 * WORDS))
        self.require("cuCtxSynchronize")
        answer: list[Any] = []
        for name, value in named:
            if name == "set":
                answer.append(self.call("cuFuncSetAttribute", function, *map(int, value.split(":"))))
        answer += getattr(self, f"_{call}")(function, named)
        if result := self.call("cuCtxSynchronize"):
            answer.append(f"then {result}")
            self.call("cuDevicePrimaryCtxRelease_v2", 0)
            self.prepare()
            return answer
        self.require("cuModuleUnload", module)
        return answer

    def configuration(self, named: list[list[str]]) -> Configuration:
        given = dict(named)
        listed: list[Attribute] = []
        for name, value in named:
            if name in ("cluster", "preferred"):
                number, values = (CLUSTER if name == "cluster" else PREFERRED), triple(value)
            elif name in ("policy", "cooperative"):
                number, values = (POLICY if name == "policy" else COOPERATIVE), [int(value)]
            else:
                continue
            listed.append(Attribute(number, 0, (ctypes.c_uint * 16)(*values)))
        attributes = (Attribute * max(len(listed), 1))(*listed)
        return Configuration(
            (ctypes.c_uint * 3)(*triple(given["grid"])), (ctypes.c_uint * 3)(*triple(given["block"])),
            int(given.get("shared", 0)), self.stream, attributes, len(listed),
        )  # fmt: skip

    def parameters(self) -> Any:
        return (ctypes.c_void_p * 1)(ctypes.addressof(self.out))

    def seen(self, result: int) -> list[Any]:
        """The launch's result and, when all went well, what the kernel saw."""
        if result:
            return [result]
        if finished := self.call("cuStreamSynchronize", self.stream):
            return [result, finished]
        words = (ctypes.c_uint * WORDS)()
        self.require("cuMemcpyDtoH_v2", words, self.out, ctypes.c_size_t(4 * WORDS))
        return [result, finished, list(words)]

    def _attributes(self, function: ctypes.c_void_p, _: list[list[str]]) -> list[Any]:
        answer = []
        for attribute in (10, WIDTH, HEIGHT, DEPTH, NON_PORTABLE, 15):
            value = ctypes.c_int(-7)
            result = self.call("cuFuncGetAttribute", ctypes.byref(value), attribute, function)
            answer.append([attribute, result, value.value])
        return answer

    def _launch(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of = self.configuration(named)
        sizes = (*of.grid, *of.block, of.shared, self.stream, self.parameters())
        return self.seen(self.call("cuLaunchKernel", function, *sizes, None))

    def _cooperative(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of = self.configuration(named)
        sizes = (*of.grid, *of.block, of.shared, self.stream, self.parameters())
        return self.seen(self.call("cuLaunchCooperativeKernel", function, *sizes))

    def _launch_ex(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of = self.configuration(named)
        return self.seen(self.call("cuLaunchKernelEx", ctypes.byref(of), function, self.parameters(), None))

    def _node_again(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        return self._node(function, named, again=True)

    def _node(self, function: ctypes.c_void_p, named: list[list[str]], again: bool = False) -> list[Any]:
        of, graph, node = self.configuration(named), ctypes.c_void_p(), ctypes.c_void_p()
        given = self.parameters()
        parameters = NodeParameters(function, of.grid, of.block, of.shared, ctypes.cast(given, ctypes.c_void_p))
        self.require("cuGraphCreate", ctypes.byref(graph), 0)
        answer: list[Any] = []
        answer.append(
            self.call("cuGraphAddKernelNode_v2", ctypes.byref(node), graph, None, 0, ctypes.byref(parameters))
        )
        if not answer[-1]:
            for index in range(of.count):
                attribute = of.attributes[index]
                answer.append(
                    self.call("cuGraphKernelNodeSetAttribute", node, attribute.id, ctypes.byref(attribute.value))
                )
            if again:
                answer += self.set_again(node)
            answer += self.instantiated(graph)
        self.require("cuGraphDestroy", graph)
        return answer

    def set_again(self, node: ctypes.c_void_p) -> list[Any]:
        """Grid and cluster of a node, the result of setting its parameters again, and its cluster then."""
        parameters, value = NodeParameters(), (ctypes.c_uint * 16)()
        self.require("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(parameters))
        self.require("cuGraphKernelNodeGetAttribute", node, CLUSTER, ctypes.byref(value))
        before = [list(parameters.grid), list(value[:3])]
        result = self.call("cuGraphKernelNodeSetParams_v2", node, ctypes.byref(parameters))
        self.require("cuGraphKernelNodeGetAttribute", node, CLUSTER, ctypes.byref(value))
        return [*before, result, list(value[:3])]

    def instantiated(self, graph: ctypes.c_void_p) -> list[Any]:
        executable = ctypes.c_void_p()
        if result := self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0)):
            return [f"instantiate {result}"]
        answer = self.seen(self.call("cuGraphLaunch", executable, self.stream))
        self.require("cuGraphExecDestroy", executable)
        return answer

    def _capture(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of, graph = self.configuration(named), ctypes.c_void_p()
        self.require("cuStreamBeginCapture_v2", self.stream, 0)
        answer: list[Any] = [self.call("cuLaunchKernelEx", ctypes.byref(of), function, self.parameters(), None)]
        if result := self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph)):
            return [*answer, f"end {result}"]
        answer += self.instantiated(graph)
        self.require("cuGraphDestroy", graph)
        return answer

    def _active(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of, value = self.configuration(named), ctypes.c_int(-7)
        return [self.call("cuOccupancyMaxActiveClusters", ctypes.byref(value), function, ctypes.byref(of)), value.value]

    def _blocks(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of, value = self.configuration(named), ctypes.c_int(-7)
        threads, shared = of.block[0] * of.block[1] * of.block[2], ctypes.c_size_t(of.shared)
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return [self.call(name, ctypes.byref(value), function, threads, shared), value.value]

    def _potential(self, function: ctypes.c_void_p, named: list[list[str]]) -> list[Any]:
        of, value = self.configuration(named), ctypes.c_int(-7)
        return [
            self.call("cuOccupancyMaxPotentialClusterSize", ctypes.byref(value), function, ctypes.byref(of)),
            value.value,
        ]


def main() -> int:
    """Runs the cases named, or all, and prints the answers."""
    runner = Runner(sys.argv[1])
    print(json.dumps({case: runner.run(case) for case in sys.argv[2:] or CASES}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
