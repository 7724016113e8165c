"""Stream capture: streams whose records become graph nodes."""

from __future__ import annotations

from cuttle.runtime import results
from cuttle.runtime.graphs import Graph, GraphStore, Node
from cuttle.runtime.results import CudaError

# CUstreamCaptureStatus numbers.
NONE, ACTIVE, INVALIDATED = range(3)


class Capture:
    """One capture. `tips`: per stream, the nodes its next node will depend on."""

    def __init__(self, identifier: int, origin: int, thread: int, mode: int, graph: Graph, own_graph: bool) -> None:
        self.identifier = identifier
        self.origin = origin
        self.thread = thread
        self.mode = mode
        self.graph = graph
        self.own_graph = own_graph
        self.tips: dict[int, list[Node]] = {}
        self.joined: set[Node] = set()  # nodes that some other stream's work depends on, or that ended in the origin
        self.invalid = False


class Captures:
    """All captures of a session."""

    def __init__(self, graphs: GraphStore) -> None:
        self._graphs = graphs
        self._by_stream: dict[int, Capture] = {}
        self._events: dict[int, tuple[Capture, list[Node]]] = {}
        self._next = 1

    def of(self, stream: int) -> Capture | None:
        return self._by_stream.get(stream)

    def begin(self, stream: int, thread: int, mode: int, graph: Graph | None, dependencies: list[Node]) -> None:
        if stream in self._by_stream:
            raise CudaError(results.ILLEGAL_STATE, "the stream is capturing already")
        made = self._graphs.create() if graph is None else graph
        capture = Capture(self._next, stream, thread, mode, made, graph is None)
        self._next += 1
        capture.tips[stream] = dependencies
        self._by_stream[stream] = capture

    def active(self, stream: int) -> Capture:
        capture = self._by_stream.get(stream)
        if capture is None:
            raise CudaError(results.ILLEGAL_STATE, "the stream is not capturing")
        if capture.invalid:
            raise CudaError(results.STREAM_CAPTURE_INVALIDATED)
        return capture

    def end(self, stream: int) -> tuple[int, Graph, list[int]]:
        """(CUresult, graph, streams that left the capture)."""
        capture = self._by_stream.get(stream)
        if capture is None:
            raise CudaError(results.ILLEGAL_STATE, "the stream is not capturing")
        if capture.origin != stream:
            raise CudaError(results.STREAM_CAPTURE_UNMATCHED, "the capture was begun in another stream")
        streams = [number for number, one in self._by_stream.items() if one is capture]
        result = results.SUCCESS
        if capture.invalid:
            result = results.STREAM_CAPTURE_INVALIDATED
        elif self._has_loose_ends(capture):
            result = results.STREAM_CAPTURE_UNJOINED
        for number in streams:
            del self._by_stream[number]
        self._events = {event: entry for event, entry in self._events.items() if entry[0] is not capture}
        if result and capture.own_graph:
            self._graphs.destroy(capture.graph)
        return result, capture.graph, streams

    def _has_loose_ends(self, capture: Capture) -> bool:
        """Whether another stream of the capture has work that the origin does not wait for."""
        reached: set[Node] = set()
        todo = list(capture.tips[capture.origin])
        while todo:
            node = todo.pop()
            if node not in reached:
                reached.add(node)
                todo += node.dependencies
        return any(
            node not in reached and not node.dependents
            for stream, tips in capture.tips.items()
            if stream != capture.origin
            for node in tips
        )

    def add(self, stream: int, kind: int, record: bytes, child: Graph | None = None) -> Node:
        capture = self.active(stream)
        node = self._graphs.add(capture.graph, kind, record, capture.tips.get(stream, []), child)
        capture.tips[stream] = [node]
        return node

    def record_event(self, stream: int, event: int) -> None:
        capture = self.active(stream)
        self._events[event] = (capture, list(capture.tips.get(stream, [])))

    def wait_event(self, stream: int, event: int) -> bool:
        """Joins the stream to the event's capture; returns whether it is new there."""
        entry = self._events.get(event)
        if entry is None:
            raise CudaError(results.STREAM_CAPTURE_ISOLATION, "the event was not recorded in a capture")
        capture, nodes = entry
        if capture.invalid:
            raise CudaError(results.STREAM_CAPTURE_INVALIDATED)
        other = self._by_stream.get(stream)
        if other is not None and other is not capture:
            other.invalid = capture.invalid = True
            raise CudaError(results.STREAM_CAPTURE_MERGE)
        self._by_stream[stream] = capture
        tips = capture.tips.setdefault(stream, [])
        tips += [node for node in nodes if node not in tips]
        return other is None

    def invalidate(self, stream: int) -> None:
        capture = self._by_stream.get(stream)
        if capture is not None:
            capture.invalid = True

    def clear(self) -> None:
        self._by_stream.clear()
        self._events.clear()
