"""Memory: allocation, registration, address look-up, virtual memory management."""

from __future__ import annotations

from cuttle.runtime import memory as kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation
from cuttle.runtime.results import CudaError
from cuttle.runtime.session import Session

PAGE = 4096


def mem_alloc(session: Session, size: int, kind: int, flags: int, alignment: int) -> int:
    """kind: 0 device, 1 managed, 2 pinned host."""
    if kind not in (kinds.DEVICE, kinds.MANAGED, kinds.PINNED) or alignment & (alignment - 1):
        raise CudaError(results.INVALID_VALUE)
    return session.memory.allocate(size, kind, session.context, flags, alignment).address


def mem_free(session: Session, address: int) -> None:
    """The client has waited for all work before. Frees memory of pools too."""
    allocation = session.memory.at(address)
    if allocation is None or not allocation.freeable:
        raise CudaError(results.INVALID_VALUE, f"{address:#x} is not the start of an allocation")
    _free(session, allocation)


def _free(session: Session, allocation: Allocation) -> None:
    if allocation.pool:
        session.pools.freed(allocation)
    if session.sticky:
        session.memory.free(allocation)
    else:
        # Work that no one waited for (of another thread) may still use it: not reused before it has passed.
        session.memory.free_later(allocation, session.device.position)


def mem_info(session: Session) -> tuple[int, int]:
    session.memory.settle()
    return session.budget - session.memory.used, session.budget


def pointer_range(session: Session, address: int) -> tuple[int, int, int, int, int, int]:
    allocation = session.memory.find(address)
    if allocation is None or allocation.kind == kinds.INTERNAL:
        raise CudaError(results.INVALID_VALUE, f"{address:#x} belongs to no allocation")
    return (
        allocation.address,
        allocation.bytes,
        allocation.kind,
        allocation.context,
        allocation.flags,
        allocation.identifier,
    )


def host_register(session: Session, host_address: int, size: int, flags: int) -> int:
    """Arena space that will take the place of the program's pages."""
    if host_address % PAGE or size % PAGE:
        raise CudaError(results.INVALID_VALUE, "not page aligned")
    return session.memory.allocate(size, kinds.REGISTERED, session.context, flags, PAGE).address


def host_unregister(session: Session, address: int) -> None:
    allocation = session.memory.at(address)
    if allocation is None or allocation.kind != kinds.REGISTERED:
        raise CudaError(results.HOST_MEMORY_NOT_REGISTERED)
    session.memory.free(allocation)


def address_reserve(session: Session, size: int, alignment: int, hint: int) -> int:
    return session.virtual_memory.reserve(size, alignment, hint)


def address_free(session: Session, address: int, size: int) -> None:
    session.virtual_memory.release(address, size)


def physical_create(session: Session, size: int) -> int:
    return session.virtual_memory.create(size)


def physical_release(session: Session, physical: int) -> None:
    session.virtual_memory.destroy(physical)


def physical_map(session: Session, address: int, size: int, offset: int, physical: int) -> None:
    session.virtual_memory.map(address, size, offset, physical, session.context)


def physical_unmap(session: Session, address: int, size: int) -> None:
    session.virtual_memory.unmap(address, size)
