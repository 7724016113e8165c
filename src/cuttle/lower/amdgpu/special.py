"""Special registers (PTX ISA 9.0, section 10). A warp is a wave: 32 consecutive threads of the block, x fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.cpu.special import AXES, CONSTANTS
from cuttle.lower.emit import Value

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

# The real-time counter of all RDNA generations runs at 100 MHz: 10 ns a step, and as "clock cycles" 16 a step (1.6 GHz).
NANOSECONDS_PER_TICK = 10
CYCLES_PER_TICK = 16
# A cluster of one block: what a launch without cluster dimensions has.
CLUSTER_OF_ONE = {
    "%is_explicit_cluster": 0, "%cluster_ctarank": 0, "%cluster_nctarank": 1,
    "%cluster_ctaid.x": 0, "%cluster_ctaid.y": 0, "%cluster_ctaid.z": 0,
    "%cluster_nctaid.x": 1, "%cluster_nctaid.y": 1, "%cluster_nctaid.z": 1,
}  # fmt: skip


def special_value(writer: FunctionWriter, name: str) -> Value:
    """The value of a special register. Raises KeyError for one that is not supported."""
    e = writer.emitter
    base, _, axis_name = name.partition(".")
    if axis_name in AXES:
        axis = AXES.index(axis_name)
        if base == "%tid":
            return thread_index(writer, axis)
        if base == "%ntid":
            return block_size(writer, axis)
        if base in ("%ctaid", "%clusterid"):
            return writer.call("i32", f"llvm.amdgcn.workgroup.id.{axis_name}")
        if base in ("%nctaid", "%nclusterid"):
            return writer.launch_field("grid", axis)
    if name == "%laneid":
        return writer.machine.lane_index()
    if name.startswith("%lanemask_"):
        return lane_mask(writer, name[-2:])
    if name in CLUSTER_OF_ONE:
        return e.const("i1" if name == "%is_explicit_cluster" else "i32", CLUSTER_OF_ONE[name])
    if name in CONSTANTS:
        return e.const("i32", CONSTANTS[name])
    if name == "%warpid":
        return warp_index(writer)
    if name == "%nwarpid":
        return e.const("i32", 32)
    if name in ("%clock", "%clock_hi", "%clock64"):
        return part(writer, e.mul(ticks(writer), e.const("i64", CYCLES_PER_TICK)), name)
    if name in ("%globaltimer", "%globaltimer_lo", "%globaltimer_hi"):
        return part(writer, e.mul(ticks(writer), e.const("i64", NANOSECONDS_PER_TICK)), name)
    if name == "%gridid":
        return writer.launch_field64("grid_id")
    if name == "%dynamic_smem_size":
        return writer.launch_field("dynamic_shared_bytes")
    if name in ("%total_smem_size", "%aggr_smem_size"):
        static = e.const("i32", writer.plan.layout.static_shared_bytes)
        return e.add(static, writer.launch_field("dynamic_shared_bytes"))
    if name in ("%envreg1", "%envreg2"):
        workspace = writer.launch_field64("workspace")
        half = e.lshr(workspace, e.const("i64", 32)) if name == "%envreg1" else workspace
        return e.cast("trunc", half, "i32")
    if name.startswith(("%envreg", "%pm")):
        return e.const("i64" if name.endswith("_64") else "i32", 0)
    if name == "%current_graph_exec":
        return e.const("i64", 0)
    raise KeyError(name)


def part(writer: FunctionWriter, time: Value, name: str) -> Value:
    """The half of a 64-bit counter that the register's name asks for."""
    e = writer.emitter
    if name in ("%clock64", "%globaltimer"):
        return time
    return e.cast("trunc", e.lshr(time, e.const("i64", 32)) if name.endswith("hi") else time, "i32")


def ticks(writer: FunctionWriter) -> Value:
    return writer.call("i64", "llvm.readsteadycounter")


def lane_mask(writer: FunctionWriter, relation: str) -> Value:
    """`%lanemask_eq`, `le`, `lt`, `ge`, `gt`."""
    e = writer.emitter
    own = e.shl(e.const("i32", 1), writer.machine.lane_index())
    below = e.sub(own, e.const("i32", 1))
    return {
        "eq": lambda: own,
        "lt": lambda: below,
        "le": lambda: e.or_(below, own),
        "ge": lambda: e.not_(below),
        "gt": lambda: e.not_(e.or_(below, own)),
    }[relation]()


def thread_index(writer: FunctionWriter, axis: int) -> Value:
    shape = writer.plan.options.block_shape
    if shape is not None and shape[axis] == 1:
        return writer.emitter.const("i32", 0)
    return writer.call("i32", f"llvm.amdgcn.workitem.id.{AXES[axis]}")


def block_size(writer: FunctionWriter, axis: int) -> Value:
    shape = writer.plan.options.block_shape
    return writer.emitter.const("i32", shape[axis]) if shape is not None else writer.launch_field("block", axis)


def block_threads(writer: FunctionWriter) -> Value:
    e = writer.emitter
    return e.mul(e.mul(block_size(writer, 0), block_size(writer, 1)), block_size(writer, 2))


def linear_thread(writer: FunctionWriter) -> Value:
    """The thread's number in its block, x fastest."""
    e = writer.emitter
    rows = e.add(thread_index(writer, 1), e.mul(thread_index(writer, 2), block_size(writer, 1)))
    return e.add(thread_index(writer, 0), e.mul(rows, block_size(writer, 0)))


def warp_index(writer: FunctionWriter) -> Value:
    """The same for all lanes, and known to LLVM to be."""
    e = writer.emitter
    return writer.call("i32", "llvm.amdgcn.readfirstlane.i32", e.lshr(linear_thread(writer), e.const("i32", 5)))
