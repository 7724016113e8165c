"""Arrays, textures, surfaces."""

from __future__ import annotations

from cuttle.runtime.results import Reply
from cuttle.runtime.session import Session


def array_create(
    session: Session, width: int, height: int, depth: int, form: int, channels: int, flags: int, levels: int
) -> Reply:
    number, memory, made = session.textures.create_array(
        width, height, depth, form, channels, flags, levels, session.context
    )
    first = made[0]
    values = (number, memory.address, first.row_pitch, first.slice_pitch, memory.bytes)
    return Reply(values, b"".join(level.packed() for level in made))


def array_destroy(session: Session, array: int) -> None:
    session.textures.destroy_array(array)


def texture_create(session: Session, payload: bytes) -> int:
    return session.textures.create(payload, False, session.context)


def texture_destroy(session: Session, handle: int) -> None:
    session.textures.destroy(handle)


def surface_create(session: Session, payload: bytes) -> int:
    return session.textures.create(payload, True, session.context)


def surface_destroy(session: Session, handle: int) -> None:
    session.textures.destroy(handle)
