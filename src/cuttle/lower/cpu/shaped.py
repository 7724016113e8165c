"""Values with shapes while code is emitted: the scalars that stand for a value, and its vector on demand."""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.passes.shape import LANES, NO_OFFSETS


@dataclass(frozen=True, slots=True)
class Shaped:
    """A value of the warp: `vector` (32 lanes), or one base (or one per segment) plus constant offsets per lane.

    All of them are integers of the register's width (i1 for predicates).
    """

    vector: Value | None = None
    bases: tuple[Value, ...] = ()
    offsets: tuple[int, ...] = NO_OFFSETS

    @property
    def is_uniform(self) -> bool:
        return self.vector is None and len(self.bases) == 1 and self.offsets is NO_OFFSETS

    @property
    def type(self) -> str:
        return self.vector.type if self.vector is not None else self.bases[0].type


def uniform(value: Value) -> Shaped:
    return Shaped(None, (value,))


def of_value(value: Value) -> Shaped:
    """A scalar as a uniform value, a vector as it is."""
    return uniform(value) if value.lanes == 1 else Shaped(value)


def is_constant(shaped: Shaped) -> bool:
    """Whether every lane's integer is known at compile time."""
    if shaped.vector is not None:
        return shaped.vector.elements is not None
    return all(base.constant is not None for base in shaped.bases)


def operand_value(emitter: Emitter, shaped: Shaped) -> Value:
    """What an op function gets: the scalar of a uniform value, else the vector."""
    if shaped.is_uniform:
        return shaped.bases[0]
    return materialise(emitter, shaped)


def materialise(emitter: Emitter, shaped: Shaped) -> Value:
    """The value as a vector with one element per lane."""
    if shaped.vector is not None:
        return shaped.vector
    if shaped.offsets is not NO_OFFSETS and is_constant(shaped):
        per_base = LANES // len(shaped.bases)
        bases = [shaped.bases[lane // per_base].constant or 0 for lane in range(LANES)]
        return emitter.vector_constant(shaped.type, [b + o for b, o in zip(bases, shaped.offsets, strict=True)])
    vector = spread(emitter, shaped.bases)
    if shaped.offsets is NO_OFFSETS:
        return vector
    return emitter.add(vector, emitter.vector_constant(shaped.type, shaped.offsets))


def spread(emitter: Emitter, bases: tuple[Value, ...]) -> Value:
    """Bases, one per segment, as a vector."""
    if len(bases) == 1:
        return emitter.splat(bases[0], LANES)
    # One broadcast per segment, joined: what the hardware has an instruction for.
    return emitter.joined([emitter.splat(base, LANES // len(bases)) for base in bases])


def segment_bases(emitter: Emitter, shaped: Shaped, segments: int) -> tuple[Value, ...]:
    """One scalar per segment, offsets included: they must be the same within each segment."""
    result = []
    for segment in range(segments):
        base = shaped.bases[segment if len(shaped.bases) > 1 else 0]
        offset = shaped.offsets[segment * (LANES // segments)]
        result.append(emitter.add(base, emitter.const(base.type, offset)) if offset else base)
    return tuple(result)
