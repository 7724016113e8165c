"""Graphs: nodes with ring records as parameters, edges, executables.

An executable is a copy of its graph, put in an order that respects all edges; launching it gives its records, which run
one after the other like those of a stream. Only what a node *does* travels in its record; the sequence number is 0, since
one record behind the last stands for the whole launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack_into, unpack_from

from cuttle.abi import wire_layout as wire
from cuttle.runtime import results
from cuttle.runtime.graph_memory import GraphMemory
from cuttle.runtime.results import CudaError

# CUgraphNodeType numbers.
KERNEL, MEMCPY, MEMSET, HOST, CHILD, EMPTY, WAIT_EVENT, RECORD_EVENT = range(8)
MEM_ALLOC, MEM_FREE = 10, 11

# CUgraphExecUpdateResult numbers.
UPDATE_SUCCESS, UPDATE_ERROR, UPDATE_TOPOLOGY, UPDATE_NODE_TYPE = range(4)

_STREAM_AT = 4
_SEQUENCE_AT = 8


class Node:
    """A node. `origin`: the node it was cloned from, to find it in executables and clones."""

    __slots__ = ("address", "bytes", "child", "dependencies", "dependents", "enabled", "graph", "kind", "number", "origin",
                 "record")  # fmt: skip

    def __init__(self, number: int, graph: Graph, kind: int, record: bytes, child: Graph | None) -> None:
        self.number = number
        self.graph = graph
        self.kind = kind
        self.record = record
        self.child = child
        self.address = 0
        self.bytes = 0
        self.enabled = True
        self.origin = number
        # Dictionaries without values: sets that keep their order.
        self.dependencies: dict[Node, None] = {}
        self.dependents: dict[Node, None] = {}


class Graph:
    """A graph; `nodes` in order of creation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: dict[int, Node] = {}

    def ordered(self) -> list[Node]:
        """All nodes, each behind those it depends on; raises if there is a circle."""
        waiting = {node: len(node.dependencies) for node in self.nodes.values()}
        ready = [node for node, count in waiting.items() if count == 0]
        order = []
        for node in ready:  # grows while it is walked
            order.append(node)
            for dependent in node.dependents:
                waiting[dependent] -= 1
                if waiting[dependent] == 0:
                    ready.append(dependent)
        if len(order) != len(self.nodes):
            raise CudaError(results.INVALID_VALUE, "the graph has a circle")
        return order

    def records(self) -> list[bytes]:
        """What has to run, in order; of child graphs too."""
        found: list[bytes] = []
        for node in self.ordered():
            if not node.enabled:
                continue
            if node.child is not None:
                found += node.child.records()
            # Memory of a graph's allocation nodes stays for the next launch, so its free nodes do nothing.
            elif node.kind not in (EMPTY, MEM_ALLOC, MEM_FREE) and node.record[:2] not in (b"", b"\0\0"):
                found.append(node.record)
        return found

    def memory_steps(self) -> list[tuple[int, int]]:
        """Allocations (address, bytes) and frees (address, 0), in order; of child graphs too."""
        found: list[tuple[int, int]] = []
        for node in self.ordered():
            if node.child is not None:
                found += node.child.memory_steps()
            elif node.kind == MEM_ALLOC:
                found.append((node.address, node.bytes))
            elif node.kind == MEM_FREE:
                found.append((unpack_from("<Q", node.record, wire.RECORD_FREE_ASYNC_ADDRESS_AT)[0], 0))
        return found


class Executable:
    """An instantiated graph: an own copy of it, and its records when nothing has changed since the last launch."""

    def __init__(self, number: int, graph: Graph) -> None:
        self.number = number
        self.graph = graph
        self.by_origin = {node.origin: node for node in graph.nodes.values()}
        self.records: list[bytes] | None = None
        self.memory_steps = graph.memory_steps()


class GraphStore:
    """Graphs, nodes and executables by number."""

    def __init__(self) -> None:
        self.graphs: dict[int, Graph] = {}
        self.nodes: dict[int, Node] = {}
        self.executables: dict[int, Executable] = {}
        self.memory = GraphMemory()
        self._next = 1

    def _new_number(self) -> int:
        self._next += 1
        return self._next

    # Graphs

    def create(self) -> Graph:
        graph = Graph(self._new_number())
        self.graphs[graph.number] = graph
        return graph

    def graph(self, number: int) -> Graph:
        graph = self.graphs.get(number)
        if graph is None:
            raise CudaError(results.INVALID_VALUE, f"no graph {number}")
        return graph

    def node(self, number: int) -> Node:
        node = self.nodes.get(number)
        if node is None:
            raise CudaError(results.INVALID_VALUE, f"no graph node {number}")
        return node

    def executable(self, number: int) -> Executable:
        executable = self.executables.get(number)
        if executable is None:
            raise CudaError(results.INVALID_VALUE, f"no executable graph {number}")
        return executable

    def destroy(self, graph: Graph) -> None:
        self.graphs.pop(graph.number, None)
        for node in graph.nodes.values():
            self.nodes.pop(node.number, None)
            if node.child is not None:
                self.destroy(node.child)

    def clone(self, graph: Graph, registered: bool = True) -> Graph:
        """A copy; its nodes remember theirs. Executables' copies are not registered: no handle names their nodes."""
        copy = Graph(self._new_number())
        if registered:
            self.graphs[copy.number] = copy
        twins: dict[Node, Node] = {}
        for node in graph.nodes.values():
            child = self.clone(node.child, registered) if node.child is not None else None
            twin = Node(self._new_number(), copy, node.kind, node.record, child)
            twin.address, twin.bytes, twin.enabled = node.address, node.bytes, node.enabled
            twin.origin = node.number
            copy.nodes[twin.number] = twins[node] = twin
            if registered:
                self.nodes[twin.number] = twin
        for node, twin in twins.items():
            twin.dependencies = {twins[other]: None for other in node.dependencies}
            twin.dependents = {twins[other]: None for other in node.dependents}
        return copy

    # Nodes

    def add(
        self, graph: Graph, kind: int, record: bytes, dependencies: Iterable[Node], child: Graph | None = None
    ) -> Node:
        nodes = list(dependencies)
        if any(node.graph is not graph for node in nodes):
            raise CudaError(results.INVALID_VALUE, "a dependency belongs to another graph")
        node = Node(self._new_number(), graph, kind, record, self.clone(child) if child is not None else None)
        graph.nodes[node.number] = self.nodes[node.number] = node
        for other in nodes:
            self.connect(other, node)
        return node

    def remove(self, node: Node) -> None:
        for other in node.dependencies:
            del other.dependents[node]
        for other in node.dependents:
            del other.dependencies[node]
        del node.graph.nodes[node.number]
        del self.nodes[node.number]
        if node.child is not None:
            self.destroy(node.child)

    def connect(self, before: Node, after: Node) -> None:
        if before.graph is not after.graph or before is after:
            raise CudaError(results.INVALID_VALUE, "an edge between different graphs")
        before.dependents[after] = None
        after.dependencies[before] = None

    def disconnect(self, before: Node, after: Node) -> None:
        if after not in before.dependents:
            raise CudaError(results.INVALID_VALUE, "there is no such edge")
        del before.dependents[after]
        del after.dependencies[before]

    # Executables

    def instantiate(self, graph: Graph) -> Executable:
        graph.ordered()  # refuses circles
        executable = Executable(self._new_number(), self.clone(graph, registered=False))
        self.executables[executable.number] = executable
        return executable

    def node_in(self, executable: Executable, number: int) -> Node:
        """The executable's copy of a node."""
        node = executable.by_origin.get(number)
        if node is None:
            raise CudaError(results.INVALID_VALUE, f"node {number} is not in the executable graph")
        return node

    def expand(self, number: int, stream: int) -> list[bytes]:
        """The records of one launch into a stream."""
        executable = self.executable(number)
        if executable.records is None:
            executable.records = executable.graph.records()
        if executable.memory_steps:
            self.memory.launch(executable.memory_steps)
        return [on_stream(record, stream) for record in executable.records]

    def update(self, executable: Executable, graph: Graph) -> tuple[int, int]:
        """Takes over the parameters of a graph of the same shape: (CUgraphExecUpdateResult, node that differs)."""
        old, new = executable.graph.ordered(), graph.ordered()
        if len(old) != len(new):
            return UPDATE_TOPOLOGY, 0
        places_old = {node: place for place, node in enumerate(old)}
        places_new = {node: place for place, node in enumerate(new)}
        for mine, theirs in zip(old, new, strict=True):
            if mine.kind != theirs.kind:
                return UPDATE_NODE_TYPE, theirs.number
            if {places_old[n] for n in mine.dependencies} != {places_new[n] for n in theirs.dependencies}:
                return UPDATE_TOPOLOGY, theirs.number
        for mine, theirs in zip(old, new, strict=True):
            mine.record = theirs.record
            if theirs.child is not None:
                mine.child = self.clone(theirs.child, registered=False)
            # From now on its nodes are named by those of the new graph, and still by those of the old one.
            executable.by_origin[theirs.number] = mine
        executable.records = None
        return UPDATE_SUCCESS, 0


def on_stream(record: bytes, stream: int) -> bytes:
    """The record as part of a launch into a stream."""
    changed = bytearray(record)
    pack_into("<IQ", changed, _STREAM_AT, stream, 0)
    return bytes(changed)
