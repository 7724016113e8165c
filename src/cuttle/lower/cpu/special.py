"""Special registers of the CPU device: their shapes (for the analysis) and their values (while code is emitted).

Facts: PTX ISA 9.0, section 10. A warp is 32 consecutive threads of the block, x fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.cpu.options import CompileOptions
from cuttle.lower.cpu.shaped import Shaped, uniform
from cuttle.lower.emit import Value
from cuttle.lower.passes import shape as shapes
from cuttle.lower.passes.shape import LANES, NO_OFFSETS, UNIFORM, VECTOR, Shape

if TYPE_CHECKING:
    from cuttle.lower.cpu.region import RegionEmitter

AXES = ("x", "y", "z")
LANE_OFFSETS = tuple(range(LANES))
LANE_MASKS = {
    "%lanemask_eq": tuple(1 << lane for lane in range(LANES)),
    "%lanemask_le": tuple((2 << lane) - 1 for lane in range(LANES)),
    "%lanemask_lt": tuple((1 << lane) - 1 for lane in range(LANES)),
    "%lanemask_ge": tuple(0xFFFFFFFF & ~((1 << lane) - 1) for lane in range(LANES)),
    "%lanemask_gt": tuple(0xFFFFFFFF & ~((2 << lane) - 1) for lane in range(LANES)),
}
CLUSTER_VECTORS = ("%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid")
EXPLICIT_CLUSTER = 4  # cuttle_launch.flags
CONSTANTS = {"WARP_SZ": 32, "%nsmid": 1, "%smid": 0, "%reserved_smem_offset_begin": 0, "%reserved_smem_offset_end": 0,
             "%reserved_smem_offset_cap": 0, "%reserved_smem_offset_0": 0, "%reserved_smem_offset_1": 0}  # fmt: skip


def thread_index(options: CompileOptions, axis: int) -> tuple[Shape, str]:
    """Shape of `%tid` along an axis, and how its base comes about: `zero`, `linear`, `rows`, `planes` or `divide`."""
    block = options.block_shape
    if block is None:
        return VECTOR, "divide"
    x, y, z = block
    if block[axis] == 1:
        return shapes.constant(0), "zero"
    if not options.affine:
        return VECTOR, "divide"
    span = -(-x * y * z // LANES) * LANES - LANES  # highest first thread of a warp
    if axis == 0:
        if y * z == 1:
            return shapes.make("uniform", LANE_OFFSETS, 5, (0, span)), "linear"
        if x % LANES == 0:
            return shapes.make("uniform", LANE_OFFSETS, 5, (0, x - LANES)), "linear"
        if LANES % x == 0:
            return shapes.make("uniform", tuple(lane % x for lane in range(LANES)), 64, (0, 0)), "zero"
    if axis == 1:
        if x % LANES == 0:
            return shapes.make("uniform", NO_OFFSETS, 0, (0, y - 1)), "rows"
        rows = LANES // x if LANES % x == 0 else 0
        if rows and (y % rows == 0 or z == 1):
            zeros = shapes.trailing_zeros(rows)
            return shapes.make("uniform", tuple(lane // x for lane in range(LANES)), zeros, (0, y - 1)), "rows"
        if rows and rows % y == 0:
            return shapes.make("uniform", tuple(lane // x % y for lane in range(LANES)), 64, (0, 0)), "zero"
    if axis == 2:
        if x * y % LANES == 0:
            return shapes.make("uniform", NO_OFFSETS, 0, (0, z - 1)), "planes"
        if LANES % (x * y) == 0:
            planes = LANES // (x * y)
            zeros = shapes.trailing_zeros(planes)
            return shapes.make("uniform", tuple(lane // (x * y) for lane in range(LANES)), zeros, (0, z - 1)), "planes"
    return VECTOR, "divide"


def special_shape(options: CompileOptions, name: str) -> Shape:
    """The shape of a special register."""
    base, _, axis_name = name.partition(".")
    if axis_name in AXES:
        axis = AXES.index(axis_name)
        block = options.block_shape
        if base == "%tid":
            return thread_index(options, axis)[0]
        if base == "%ntid":
            return shapes.constant(block[axis]) if block is not None else shapes.make("uniform", bounds=(1, 1024))
        if base in ("%ctaid", "%clusterid") and options.affine:
            size = block[axis] if block is not None else 1
            return shapes.make("uniform", bounds=(0, max(options.max_index // size - 1, 0)))
        if base in ("%nctaid", "%nclusterid") and options.affine:
            size = block[axis] if block is not None else 1
            return shapes.make("uniform", bounds=(0, max(options.max_index // size, 1)))
    if name == "%laneid":
        return shapes.make("uniform", LANE_OFFSETS, 64, (0, 0)) if options.affine else VECTOR
    if name in LANE_MASKS:
        return VECTOR
    return UNIFORM


def special_value(region: RegionEmitter, name: str) -> Shaped:
    """The value of a special register, as its shape says."""
    e = region.emitter
    base, _, axis_name = name.partition(".")
    if axis_name in AXES:
        axis = AXES.index(axis_name)
        if base == "%tid":
            return thread_value(region, axis)
        if base == "%ntid":
            return uniform(region.block_size(axis))
        if base == "%ctaid":
            return uniform(region.block_field("ctaid", axis))
        if base == "%nctaid":
            return uniform(region.launch_field("grid", axis))
        if base in CLUSTER_VECTORS:
            return uniform(cluster_value(region, base, axis))
    if name == "%laneid":
        lanes = Shaped(None, (e.const("i32", 0),), LANE_OFFSETS)
        return lanes if region.options.affine else Shaped(e.vector_constant("i32", LANE_OFFSETS))
    if name in LANE_MASKS:
        return Shaped(e.vector_constant("i32", LANE_MASKS[name]))
    if name == "%is_explicit_cluster":
        bits = e.and_(region.launch_field("flags", 0), e.const("i32", EXPLICIT_CLUSTER))
        return uniform(e.icmp("ne", bits, e.const("i32", 0)))
    if name == "%cluster_ctarank":
        return uniform(region.cluster_rank())
    if name == "%cluster_nctarank":
        x, y, z = (region.launch_field("cluster", axis) for axis in range(3))
        return uniform(e.mul(e.mul(x, y), z))
    if name in CONSTANTS:
        return uniform(e.const("i32", CONSTANTS[name]))
    if name == "%warpid":
        return uniform(region.warp)
    if name == "%nwarpid":
        return uniform(e.const("i32", 32))
    if name in ("%clock", "%clock_hi", "%clock64"):
        ticks = e.emit("i64", 1, "call i64 @llvm.readcyclecounter()")
        e.declare("@llvm.readcyclecounter", "declare i64 @llvm.readcyclecounter()")
        if name == "%clock64":
            return uniform(ticks)
        part = e.lshr(ticks, e.const("i64", 32)) if name == "%clock_hi" else ticks
        return uniform(e.cast("trunc", part, "i32"))
    if name in ("%globaltimer", "%globaltimer_lo", "%globaltimer_hi"):
        time = region.scalar_service("globaltimer", [])
        if name == "%globaltimer":
            return uniform(time)
        part = e.lshr(time, e.const("i64", 32)) if name.endswith("hi") else time
        return uniform(e.cast("trunc", part, "i32"))
    if name == "%gridid":
        return uniform(region.launch_field64("grid_id"))
    if name == "%dynamic_smem_size":
        return uniform(region.launch_field("dynamic_shared_bytes", 0))
    if name in ("%total_smem_size", "%aggr_smem_size"):
        static = region.launch_field("static_shared_bytes", 0)
        return uniform(e.add(static, region.launch_field("dynamic_shared_bytes", 0)))
    if name in ("%envreg1", "%envreg2"):
        # Where cooperative groups look for the workspace of a cooperative launch: high and low half of its address.
        address = region.launch_field64("workspace")
        part = e.lshr(address, e.const("i64", 32)) if name == "%envreg1" else address
        return uniform(e.cast("trunc", part, "i32"))
    if name.startswith(("%envreg", "%pm")):
        return uniform(e.const("i64" if name.endswith("_64") else "i32", 0))
    if name == "%current_graph_exec":
        return uniform(e.const("i64", 0))
    raise KeyError(name)


def cluster_value(region: RegionEmitter, base: str, axis: int) -> Value:
    """A vector register of clusters along an axis."""
    e = region.emitter
    size = region.launch_field("cluster", axis)
    if base == "%cluster_nctaid":
        return size
    if base == "%cluster_ctaid":
        return e.binary("urem", region.block_field("ctaid", axis), size)
    whole = region.block_field("ctaid", axis) if base == "%clusterid" else region.launch_field("grid", axis)
    return e.binary("udiv", whole, size)


def thread_value(region: RegionEmitter, axis: int) -> Shaped:
    e = region.emitter
    shape, origin = thread_index(region.options, axis)
    first = e.mul(region.warp, e.const("i32", LANES))
    block = region.options.block_shape
    if origin == "zero":
        return Shaped(None, (e.const("i32", 0),), shape.offsets)
    if origin == "divide" or block is None:
        return Shaped(divided(region, axis, first))
    x, y, z = block
    if origin == "linear":
        base = first if y * z == 1 else e.binary("urem", first, e.const("i32", x))
    elif origin == "rows":
        base = e.binary("udiv", first, e.const("i32", x))
        if z != 1:
            base = e.binary("urem", base, e.const("i32", y))
    else:
        base = e.binary("udiv", first, e.const("i32", x * y))
    return Shaped(None, (base,), shape.offsets)


def divided(region: RegionEmitter, axis: int, first: Value) -> Value:
    """`%tid` by division of the linear thread number, as a vector."""
    e = region.emitter
    linear = e.add(e.splat(first, LANES), e.vector_constant("i32", LANE_OFFSETS))
    size_x, size_y = region.block_size(0), region.block_size(1)
    if axis == 0:
        return e.binary("urem", linear, size_x)
    rows = e.binary("udiv", linear, size_x)
    return e.binary("urem" if axis == 1 else "udiv", rows, size_y)
