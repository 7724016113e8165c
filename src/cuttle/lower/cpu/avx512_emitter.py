"""The emitter for CPUs with AVX-512: what LLVM has no portable instruction for.

Only for vectors of a multiple of 16 lanes; everything else is as in `Emitter`.
"""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value

REGISTER_LANES = 16
_RECIPROCAL = "@llvm.x86.avx512.rcp14.ps.512"


class Avx512Emitter(Emitter):
    """Writes vectors of 32-bit elements register by register where an instruction of AVX-512 is wanted by name."""

    def by_register(self, function: Callable[..., Value], *vectors: Value) -> Value:
        """`function` on each group of 16 lanes of the vectors."""
        lanes = vectors[0].lanes
        if lanes == REGISTER_LANES:
            return function(*vectors)
        parts = [
            function(*(self.lanes_from(vector, first, REGISTER_LANES) for vector in vectors))
            for first in range(0, lanes, REGISTER_LANES)
        ]
        return self.joined(parts)

    def reciprocal_estimate(self, x: Value) -> Value | None:
        if x.type != "float" or x.lanes % REGISTER_LANES:
            return None
        vector = f"<{REGISTER_LANES} x float>"
        self.declare(_RECIPROCAL, f"declare {vector} {_RECIPROCAL}({vector}, {vector}, i16)")

        def one(part: Value) -> Value:
            text = f"call {vector} {_RECIPROCAL}({part.typed}, {vector} zeroinitializer, i16 -1)"
            return self.emit("float", REGISTER_LANES, text)

        return self.by_register(one, x)
