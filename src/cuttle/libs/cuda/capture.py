"""Stream capture."""

from __future__ import annotations

from struct import pack

from cuttle.abi import wire_layout as wire
from cuttle.libs.cuda.graph import nodes_of, numbers_of, record_of
from cuttle.runtime import captures, graphs, results
from cuttle.runtime.pools import DEFAULT_POOL
from cuttle.runtime.results import CudaError, Reply
from cuttle.runtime.session import Session


def capture_begin(session: Session, stream: int, mode: int, graph: int, dependencies: int, payload: bytes) -> None:
    found = session.graphs.graph(graph) if graph else None
    session.captures.begin(stream, session.thread, mode, found, nodes_of(session, payload, dependencies))


def capture_end(session: Session, stream: int) -> Reply:
    result, graph, streams = session.captures.end(stream)
    slots = pack(f"<{len(streams)}I", *streams)
    if result:
        raise CudaError(result, "", (0, len(streams)), slots)
    return Reply((graph.number, len(streams)), slots)


def capture_add(session: Session, stream: int, kind: int, child_graph: int, payload: bytes) -> int:
    child = session.graphs.graph(child_graph) if child_graph else None
    return session.captures.add(stream, kind, record_of(payload), child).number


def capture_event_record(session: Session, stream: int, event: int) -> None:
    session.captures.record_event(stream, event)


def capture_event_wait(session: Session, stream: int, event: int) -> int:
    return int(session.captures.wait_event(stream, event))


def capture_info(session: Session, stream: int) -> Reply:
    capture = session.captures.of(stream)
    if capture is None:
        return Reply((captures.NONE, 0, 0, 0))
    if capture.invalid:
        return Reply((captures.INVALIDATED, capture.identifier, 0, 0))
    tips = capture.tips.get(stream, [])
    return Reply((captures.ACTIVE, capture.identifier, capture.graph.number, len(tips)), numbers_of(tips))


def capture_set_dependencies(session: Session, stream: int, replace: int, count: int, payload: bytes) -> None:
    capture = session.captures.active(stream)
    nodes = nodes_of(session, payload, count)
    if any(node.graph is not capture.graph for node in nodes):
        raise CudaError(results.INVALID_VALUE, "a node belongs to another graph")
    tips = [] if replace else list(capture.tips.get(stream, []))
    capture.tips[stream] = tips + [node for node in nodes if node not in tips]


def capture_invalidate(session: Session, stream: int) -> None:
    session.captures.invalidate(stream)


def capture_alloc(session: Session, stream: int, size: int, pool: int) -> tuple[int, int]:
    """The memory is there from now on, in every launch: nodes of one graph never run at the same time."""
    session.captures.active(stream)
    found = session.pools.find(pool or DEFAULT_POOL)
    allocation = session.pools.allocate(found, size, stream, session.context)
    node = session.captures.add(stream, graphs.MEM_ALLOC, bytes(wire.RECORD_NOP_BYTES))
    node.address, node.bytes = allocation.address, size
    return node.number, allocation.address
