"""Which values are live where, as Python integers used as bit sets (bit i is value i)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cuttle.lower.passes.graph import Graph, Node, terminator_value


def members(bits: int) -> Iterator[int]:
    """The numbers of the set bits, ascending. By way of the digits: arithmetic on long numbers for each bit is slower."""
    digits = bin(bits)[:1:-1]
    place = digits.find("1")
    while place >= 0:
        yield place
        place = digits.find("1", place + 1)


@dataclass(slots=True)
class Liveness:
    """`live_in[b]`: live at the start of block b, behind its phis (phi results included where they are used later).

    `live_out[b]`: live at the end of block b, operands of the phis of its successors included. Undefined values are
    never live.
    """

    graph: Graph
    live_in: list[int]
    live_out: list[int]
    _points: dict[int, list[int]]

    def live_after(self, block: int, index: int) -> int:
        """Values live right behind node `index` of a block: defined up to there (its own results included), used later.

        The terminator's predicate counts as a later use.
        """
        points = self._points.get(block)
        if points is None:
            points = self._points[block] = self._scan(block)
        return points[index]

    def _scan(self, block: int) -> list[int]:
        body = self.graph.blocks[block]
        live = self.live_out[block]
        read = terminator_value(body.terminator)
        if read is not None and not self.graph.values[read].undefined:
            live |= 1 << read
        points = [0] * len(body.nodes)
        for index in range(len(body.nodes) - 1, -1, -1):
            points[index] = live
            uses, defined = _bits(self.graph, body.nodes[index])
            live = live & ~defined | uses
        return points


def _bits(graph: Graph, node: Node) -> tuple[int, int]:
    values = graph.values
    uses = 0
    for value in node.used_values():
        if values[value].definition is not None:
            uses |= 1 << value
    defined = 0
    for result in node.results:
        if result is not None:
            defined |= 1 << result
    return uses, defined


def find_liveness(graph: Graph) -> Liveness:
    """Liveness of all values at block boundaries; points inside blocks are found when asked for."""
    values = graph.values
    count = len(graph.blocks)
    upward = [0] * count
    killed = [0] * count
    edge_uses = [0] * count
    for block in graph.blocks:
        index = block.index
        up = 0
        done = 0
        for node in block.nodes:
            uses = 0
            for value in node.used_values():
                if values[value].definition is not None:
                    uses |= 1 << value
            up |= uses & ~done
            for result in node.results:
                if result is not None:
                    done |= 1 << result
        read = terminator_value(block.terminator)
        if read is not None and not values[read].undefined:
            up |= (1 << read) & ~done
        upward[index] = up
        killed[index] = done
        for phi in block.phis:
            for source, value in phi.incoming.items():
                if values[value].definition is not None:
                    edge_uses[source] |= 1 << value
    phi_results = [0] * count
    for block in graph.blocks:
        for phi in block.phis:
            phi_results[block.index] |= 1 << phi.result
    live_in = upward[:]
    live_out = edge_uses[:]
    pending = list(range(count))
    queued = [True] * count
    while pending:
        index = pending.pop()
        queued[index] = False
        out = edge_uses[index]
        for target in graph.blocks[index].successors:
            out |= live_in[target] & ~phi_results[target]
        live_out[index] = out
        new = upward[index] | out & ~killed[index]
        if new != live_in[index]:
            live_in[index] = new
            for source in graph.blocks[index].predecessors:
                if not queued[source]:
                    queued[source] = True
                    pending.append(source)
    return Liveness(graph, live_in, live_out, {})
