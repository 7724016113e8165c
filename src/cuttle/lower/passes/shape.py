"""Value shapes: what is known about how a value differs between the lanes of a warp.

A value is `base + offsets[lane]` with offsets known at compile time (*uniform* when they are all zero), with one base for
the warp or one for each segment of it (rows of a 16x16 block: two segments of 16 lanes), or it is an arbitrary vector.
`a + lane`, `4 * tid.x + constant`, `tid.y` of a 2-D block and everything made from them by addition and by multiplication
with constants have such a shape; so their addresses become plain vector loads (docs/design/cpu_simt.md).

`low`/`high` bound the bases read as signed numbers, where known, and hold only if neither the bases nor the
lane values wrap around; `zeros` counts the low bits known to be zero in every base.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = 32
NO_OFFSETS = (0,) * LANES
LARGEST_OFFSET = 1 << 24


@dataclass(frozen=True, slots=True)
class Shape:
    """`kind`: `uniform` (one base), `segmented` (one base a segment) or `vector` (nothing known)."""

    kind: str
    offsets: tuple[int, ...] = NO_OFFSETS
    zeros: int = 0
    low: int | None = None
    high: int | None = None

    @property
    def is_vector(self) -> bool:
        return self.kind == "vector"

    @property
    def is_uniform(self) -> bool:
        """One scalar serves all lanes."""
        return self.kind == "uniform" and self.offsets is NO_OFFSETS

    @property
    def flat(self) -> bool:
        """No offsets: scalars only."""
        return self.kind != "vector" and self.offsets is NO_OFFSETS

    @property
    def constant(self) -> int | None:
        """The value, where it is uniform and known."""
        return self.low if self.is_uniform and self.low is not None and self.low == self.high else None

    def total(self) -> tuple[int, int] | None:
        """Bounds of the lane values, if the bases are bounded."""
        if self.low is None or self.high is None:
            return None
        return self.low + min(self.offsets), self.high + max(self.offsets)


VECTOR = Shape("vector")
UNIFORM = Shape("uniform")


def make(
    kind: str, offsets: tuple[int, ...] = NO_OFFSETS, zeros: int = 0, bounds: tuple[int, int] | None = None
) -> Shape:
    """A shape with canonical offsets; too large offsets make it a vector."""
    if not any(offsets):
        offsets = NO_OFFSETS
    elif max(offsets) - min(offsets) > LARGEST_OFFSET:
        return VECTOR
    low, high = bounds if bounds is not None else (None, None)
    return Shape(kind, offsets, zeros, low, high)


def constant(value: int) -> Shape:
    return Shape("uniform", NO_OFFSETS, trailing_zeros(value), value, value)


def trailing_zeros(value: int) -> int:
    return 64 if value == 0 else (value & -value).bit_length() - 1


def join_kinds(*shapes: Shape) -> str:
    kinds = {shape.kind for shape in shapes}
    return "vector" if "vector" in kinds else "segmented" if "segmented" in kinds else "uniform"


def join(a: Shape, b: Shape) -> Shape:
    """The least shape that covers both, as where two definitions meet."""
    if a.is_vector or b.is_vector or a.offsets != b.offsets:
        return VECTOR
    bounds = None
    if a.low is not None and b.low is not None and a.high is not None and b.high is not None:
        bounds = (min(a.low, b.low), max(a.high, b.high))
    return make(join_kinds(a, b), a.offsets, min(a.zeros, b.zeros), bounds)


def segment_constant(offsets: tuple[int, ...], segment: int) -> bool:
    """Whether offsets are the same within each segment of `segment` lanes."""
    return all(offsets[lane] == offsets[lane - lane % segment] for lane in range(LANES))
