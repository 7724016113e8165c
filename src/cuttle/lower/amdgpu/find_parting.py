"""Whether lanes of a wave may be at different places for long, so that a function must be written as a scan."""

from __future__ import annotations

from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.cpu.options import CompileOptions
from cuttle.lower.cpu.special import special_shape
from cuttle.lower.passes.dominance import post_dominators
from cuttle.lower.passes.find_apart_barriers import barrier_blocks, barriers_apart
from cuttle.lower.passes.find_spin_loops import find_spin_loops
from cuttle.lower.passes.graph import Graph
from cuttle.lower.passes.infer_shapes import Facts, infer_shapes
from cuttle.lower.passes.loops import LoopForest
from cuttle.lower.passes.shape import LANES, UNIFORM
from cuttle.lower.passes.warp_operations import warp_barriers_apart


def lanes_part(graph: Graph, forest: LoopForest, options: AmdgpuOptions, *, is_entry: bool) -> bool:
    """Lanes leave a spin loop one by one, or may come to different barriers, of the block or the warp, at the same time.

    Which branches send lanes different ways is the CPU device's analysis; block sizes are those of the options.
    """
    spin_loops = find_spin_loops(graph, forest)
    has_barriers = bool(barrier_blocks(graph))
    warp_barriers = sum(node.opcode == "bar.warp.sync" for block in graph.blocks for node in block.nodes)
    if not spin_loops and not has_barriers and warp_barriers < 2:
        return False
    if has_barriers and forest.irreducible:
        return True
    block = CompileOptions(block_shape=options.block_shape)
    facts = Facts(lambda name: special_shape(block, name), lambda symbol: UNIFORM, LANES, 0, is_entry)
    influences = infer_shapes(graph, forest, facts, enabled=True, timeless=False).influences
    if any(inside in influences for number in spin_loops for inside, _ in forest.loops[number].exits):
        return True
    post = list(post_dominators([block.successors for block in graph.blocks]).idom)
    return (has_barriers and barriers_apart(graph, influences, post)) or warp_barriers_apart(graph, influences, post)
