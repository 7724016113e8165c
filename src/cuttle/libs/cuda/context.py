"""Contexts and limits."""

from __future__ import annotations

from cuttle.abi import wire_layout as wire
from cuttle.runtime import results
from cuttle.runtime.results import CudaError
from cuttle.runtime.session import Session

# CUlimit numbers.
STACK_SIZE, PRINTF_FIFO_SIZE, MALLOC_HEAP_SIZE = 0, 1, 2
DEV_RUNTIME_SYNC_DEPTH, DEV_RUNTIME_PENDING_LAUNCH_COUNT = 3, 4
MAX_L2_FETCH_GRANULARITY, PERSISTING_L2_CACHE_SIZE = 5, 6
_DEFAULTS = {
    PRINTF_FIFO_SIZE: 1 << 20,
    DEV_RUNTIME_SYNC_DEPTH: 2,
    DEV_RUNTIME_PENDING_LAUNCH_COUNT: 2048,
    MAX_L2_FETCH_GRANULARITY: 64,
    PERSISTING_L2_CACHE_SIZE: 0,
}
MAXIMUM_STACK_BYTES = 512 << 10


def ping(session: Session) -> None:
    """Nothing: a round trip."""


def device_reset(session: Session, context: int) -> None:
    session.reset(context)


def context_create(session: Session, context: int, flags: int) -> None:
    """The client numbers contexts; all share the device."""


def context_destroy(session: Session, context: int) -> None:
    session.reset(context)


def limit_get(session: Session, limit: int) -> int:
    if limit == STACK_SIZE:
        return session.stack_bytes
    if limit == MALLOC_HEAP_SIZE:
        return session.heap_bytes
    if limit not in _DEFAULTS:
        raise CudaError(results.UNSUPPORTED_LIMIT, f"no limit {limit}")
    return session.limits.get(limit, _DEFAULTS[limit])


def limit_set(session: Session, limit: int, value: int) -> int:
    """The value now in force."""
    if limit == STACK_SIZE:
        session.stack_bytes = min(-(-max(value, 16) // 16) * 16, MAXIMUM_STACK_BYTES)
        session.publish_limits()
        return session.stack_bytes
    if limit == MALLOC_HEAP_SIZE:
        wanted = -(-max(value, 1 << 16) // 4096) * 4096
        if wanted != session.heap_bytes or session.heap is None:
            session.set_heap_bytes(wanted)
        return session.heap_bytes
    if limit not in _DEFAULTS:
        raise CudaError(results.UNSUPPORTED_LIMIT, f"no limit {limit}")
    if limit == PRINTF_FIFO_SIZE:
        # The FIFO holds formatted text, which is longer than what hardware buffers: never less room than by default.
        value = max(value, 1 << 20)
        room = wire.TEXT_FIFO_BYTES
        session.shared.status.u64[wire.STATUS_TEXT_LIMIT_AT // 8] = room
    session.limits[limit] = value
    return value
