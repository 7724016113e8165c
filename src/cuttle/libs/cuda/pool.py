"""Memory pools."""

from __future__ import annotations

from cuttle.runtime.pools import DEFAULT_POOL
from cuttle.runtime.session import Session


def pool_create(session: Session, flags: int, maximum_bytes: int) -> int:
    return session.pools.create(session.context, maximum_bytes).number


def pool_destroy(session: Session, pool: int) -> None:
    session.pools.destroy(session.pools.find(pool))


def pool_attribute_get(session: Session, pool: int, attribute: int) -> int:
    return session.pools.attribute(session.pools.find(pool), attribute)


def pool_attribute_set(session: Session, pool: int, attribute: int, value: int) -> None:
    session.pools.set_attribute(session.pools.find(pool), attribute, value)


def pool_trim(session: Session, pool: int, minimum_bytes: int) -> None:
    """Freed memory belongs to no pool here; its pages go back to the system."""
    session.pools.find(pool)
    session.memory.settle()
    session.memory.trim()


def pool_alloc(session: Session, pool: int, size: int, stream: int) -> int:
    found = session.pools.find(pool or DEFAULT_POOL)
    return session.pools.allocate(found, size, stream, session.context).address
