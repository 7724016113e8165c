"""Graphs and executable graphs."""

from __future__ import annotations

from collections.abc import Iterable
from struct import iter_unpack, pack, unpack_from

from cuttle.abi import wire_layout as wire
from cuttle.runtime import graphs, results
from cuttle.runtime.graphs import Node
from cuttle.runtime.pools import DEFAULT_POOL
from cuttle.runtime.results import CudaError, Reply
from cuttle.runtime.session import Session


def nodes_of(session: Session, payload: bytes, count: int) -> list[Node]:
    """The nodes whose numbers begin the payload."""
    if len(payload) < 8 * count:
        raise CudaError(results.INVALID_VALUE)
    return [session.graphs.node(number) for number in unpack_from(f"<{count}Q", payload)]


def numbers_of(nodes: Iterable[Node]) -> bytes:
    return b"".join(pack("<Q", node.number) for node in nodes)


def record_of(payload: bytes) -> bytes:
    """A record, without what stands behind its slots."""
    if len(payload) < wire.RECORD_HEADER_BYTES:
        return bytes(wire.RECORD_NOP_BYTES)
    _, slots = unpack_from("<HH", payload)
    return payload[: max(slots, 1) * wire.SLOT_BYTES]


def graph_create(session: Session, flags: int) -> int:
    return session.graphs.create().number


def graph_destroy(session: Session, graph: int) -> None:
    session.graphs.destroy(session.graphs.graph(graph))


def graph_clone(session: Session, graph: int) -> int:
    return session.graphs.clone(session.graphs.graph(graph)).number


def graph_add_node(session: Session, graph: int, kind: int, dependencies: int, child_graph: int, payload: bytes) -> int:
    found = session.graphs.graph(graph)
    nodes = nodes_of(session, payload, dependencies)
    child = session.graphs.graph(child_graph) if child_graph else None
    return session.graphs.add(found, kind, record_of(payload[8 * dependencies :]), nodes, child).number


def graph_node_get(session: Session, node: int) -> Reply:
    found = session.graphs.node(node)
    child = found.child.number if found.child is not None else 0
    return Reply((found.kind, found.graph.number, child, found.address, found.bytes), found.record)


def graph_node_set(session: Session, node: int, payload: bytes) -> None:
    session.graphs.node(node).record = record_of(payload)


def graph_node_destroy(session: Session, node: int) -> None:
    session.graphs.remove(session.graphs.node(node))


def graph_nodes(session: Session, graph: int, roots_only: int) -> Reply:
    nodes = [node for node in session.graphs.graph(graph).nodes.values() if not (roots_only and node.dependencies)]
    return Reply((len(nodes),), numbers_of(nodes))


def graph_edges(session: Session, graph: int) -> Reply:
    edges = [(node, after) for node in session.graphs.graph(graph).nodes.values() for after in node.dependents]
    return Reply((len(edges),), b"".join(pack("<QQ", before.number, after.number) for before, after in edges))


def _edges(session: Session, count: int, payload: bytes) -> list[tuple[Node, Node]]:
    if len(payload) < 16 * count:
        raise CudaError(results.INVALID_VALUE)
    return [
        (session.graphs.node(before), session.graphs.node(after))
        for before, after in iter_unpack("<QQ", payload[: 16 * count])
    ]


def graph_edges_add(session: Session, graph: int, count: int, payload: bytes) -> None:
    for before, after in _edges(session, count, payload):
        session.graphs.connect(before, after)


def graph_edges_remove(session: Session, graph: int, count: int, payload: bytes) -> None:
    for before, after in _edges(session, count, payload):
        session.graphs.disconnect(before, after)


def graph_node_neighbours(session: Session, node: int, dependents: int) -> Reply:
    found = session.graphs.node(node)
    nodes = found.dependents if dependents else found.dependencies
    return Reply((len(nodes),), numbers_of(nodes))


def graph_node_in_clone(session: Session, node: int, clone: int) -> int:
    for twin in session.graphs.graph(clone).nodes.values():
        if twin.origin == node:
            return twin.number
    raise CudaError(results.INVALID_VALUE, "the clone has no such node")


def graph_instantiate(session: Session, graph: int, flags: int) -> int:
    return session.graphs.instantiate(session.graphs.graph(graph)).number


def executable_destroy(session: Session, executable: int) -> None:
    del session.graphs.executables[session.graphs.executable(executable).number]


def _executable_node(session: Session, executable: int, node: int) -> Node:
    found = session.graphs.executable(executable)
    found.records = None
    return session.graphs.node_in(found, node)


def executable_node_set(session: Session, executable: int, node: int, payload: bytes) -> None:
    _executable_node(session, executable, node).record = record_of(payload)


def executable_node_enable(session: Session, executable: int, node: int, enabled: int) -> None:
    _executable_node(session, executable, node).enabled = bool(enabled)


def executable_node_enabled(session: Session, executable: int, node: int) -> int:
    return int(session.graphs.node_in(session.graphs.executable(executable), node).enabled)


def executable_update(session: Session, executable: int, graph: int) -> tuple[int, int]:
    outcome = session.graphs.update(session.graphs.executable(executable), session.graphs.graph(graph))
    if outcome[0] != graphs.UPDATE_SUCCESS:
        raise CudaError(results.GRAPH_EXEC_UPDATE_FAILURE, "", outcome)
    return outcome


def executable_child_set(session: Session, executable: int, node: int, graph: int) -> None:
    child = session.graphs.clone(session.graphs.graph(graph), registered=False)
    _executable_node(session, executable, node).child = child


def graph_add_alloc(session: Session, graph: int, dependencies: int, size: int, payload: bytes) -> tuple[int, int]:
    """The memory is there from now on, in every launch."""
    found = session.graphs.graph(graph)
    nodes = nodes_of(session, payload, dependencies)
    allocation = session.pools.allocate(session.pools.find(DEFAULT_POOL), size, 0, session.context)
    node = session.graphs.add(found, graphs.MEM_ALLOC, bytes(wire.RECORD_NOP_BYTES), nodes)
    node.address, node.bytes = allocation.address, size
    return node.number, allocation.address


def graph_memory_get(session: Session, attribute: int) -> int:
    return session.graphs.memory.get(attribute)


def graph_memory_reset(session: Session, attribute: int) -> None:
    session.graphs.memory.reset(attribute)


def graph_memory_trim(session: Session) -> None:
    session.graphs.memory.trim()


def graph_memory_free(session: Session, address: int) -> None:
    session.graphs.memory.free(address)
