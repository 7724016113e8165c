"""What an op function may ask of the target: everything that is not a pure function of operand values.

`lower/ops` is written against this protocol; `lower/cpu` (a warp is a vector of lanes with a mask) and `lower/amdgpu`
(a lane is a scalar) implement it. An op function never sees masks, address shapes or target intrinsics: operands whose
code in the row is `A` (an address), `X` (raw) or a texture operand arrive as opaque objects of the machine and are only
handed back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cuttle.lower.emit import Emitter, Value


class Machine(Protocol):
    """The target's side of memory, atomics, cross-lane operations, barriers, special registers and services.

    Values are integers of the accessed width unless said otherwise. All operations act on the active lanes of the
    current instruction (its guard included); results of inactive lanes are undefined.
    """

    emitter: Emitter

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        """`count` adjacent elements of `bits` each. `space` is `global`, `shared`, `local`, `const`, `param` or
        `generic`; `ordering` is `weak`, `volatile`, `relaxed` or `acquire`. An i64 `Value` is an address as well.

        Only lanes for which `where` (i1) holds access memory; the others get 0."""
        ...

    def advance(self, address: Any, offset: int | Value) -> Any:
        """The address `offset` bytes further on; the offset may differ from lane to lane (i64, signed)."""
        ...

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        """Adjacent elements from each active lane, or only from those for which `where` (i1) holds."""
        ...

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        """One atomic read-modify-write per active lane, in lane order where addresses coincide.

        `operation`: `add min max and or xor exch cas inc dec` (f16/bf16/x2/f32/f64 adds by `type_name`, a PTX type), and of
        float adds `add_ftz` (flushes subnormals), `add_signaling` (NaNs pass as they are), `add_old_nan` (memory's NaN wins).
        Returns the old value, or None if `want_result` is false. Lanes for which `where` (i1) does not hold leave memory
        alone; their result is undefined.
        """
        ...

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        """The address of an access that comes next must be a multiple of `size` bytes (a power of two) in each active lane, or in
        those for which `where` (i1) holds: else the kernel ends with a misaligned address."""
        ...

    def copy_bytes(
        self, to: str, destination: Any, origin: str, source: Any, size: Value, *, where: Value | None = None
    ) -> None:
        """Copies `size` (i32) bytes from space `origin` to space `to`, for each active lane in turn."""
        ...

    def reduce_bytes(
        self, operation: str, type_name: str, to: str, destination: Any, origin: str, source: Any, size: Value
    ) -> None:
        """Combines `size` bytes of elements with those at the destination, each as an atomic does."""
        ...

    def zero_bytes(self, space: str, address: Any, size: Value) -> None:
        """Stores `size` (i64) zero bytes, for each active lane."""
        ...

    def address_value(self, space: str, address: Any) -> Value:
        """An address operand as the number it is in its space (i64)."""
        ...

    def fence(self, scope: str, semantics: str) -> None: ...

    def special_register(self, name: str) -> Value:
        """The value of a special register (`%tid.x`, `%lanemask_lt`, `%clock64`), 16, 32 or 64 bits as declared."""
        ...

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        """Lane i gets the value of lane `source_lane[i]` (0 to 31, i32). Both as they are before the instruction."""
        ...

    def ballot(self, predicate: Value) -> Value:
        """A uniform i32: bit i is set where lane i is active and its predicate is true."""
        ...

    def active_mask(self) -> Value:
        """A uniform i32: the lanes that execute this instruction."""
        ...

    def lane_index(self) -> Value:
        """The lane's number in its warp, i32."""
        ...

    def lane_of(self, value: Value, lane: Value) -> Value:
        """The value lane `lane` (uniform i32) holds, as a uniform value."""
        ...

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None = None) -> Value | None:
        """`kind`: `sync`, `arrive`, `red.popc`, `red.and`, `red.or`; `cluster.arrive` and `cluster.wait` for the barrier
        of the cluster. `threads` None means the whole block.

        Reductions return an i32 (popc) or i1 value.
        """
        ...

    def warp_sync(self, member_mask: Value) -> None:
        """Wait for the lanes of `member_mask` (`bar.warp.sync`, and before every `*.sync` cross-lane operation)."""
        ...

    def service(self, name: str, arguments: Sequence[Value], result_bits: int = 0) -> Value | None:
        """Call a host service once per active lane: `vprintf`, `assertfail`, `malloc`, `free`, `trap`,
        `nanosleep`, `globaltimer`. Arguments are i64."""
        ...

    def texture(self, form: int, words: Sequence[Value]) -> list[Value] | None:
        """Four words (i32) of a texture access, from `words` (i32) as `form` says (abi/texture.py, FORM_*), or None where the
        target has no function for it: `ops/texels.py` is emitted then."""
        ...

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        """`cvta`: between a state space's window and generic addressing (i64)."""
        ...

    def is_space(self, space: str, address: Value) -> Value:
        """`isspacep`: whether a generic address lies in the space's window (i1); `cluster` is shared::cluster."""
        ...

    def stack_pointer(self) -> Value:
        """The local address (i64) behind the function's variables and what `alloca` has taken."""
        ...

    def move_stack(self, pointer: Value) -> None:
        """Makes the active lanes' stacks end at a local address; a fault where there is not that much local memory."""
        ...

    def map_to_rank(self, address: Value, rank: Value, *, generic: bool) -> Value:
        """`mapa`: the address of the same variable in the shared memory of the cluster's block `rank` (i32); in the
        shared::cluster window (i32 or i64), or generic."""
        ...

    def rank_of(self, address: Value, *, generic: bool) -> Value:
        """`getctarank`: the rank (i32) of the block in whose shared memory an address of the cluster lies."""
        ...

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        """The results of `body` (pure, of integers) on the operands: code that is worth sharing, under a unique name."""
        ...

    def refuse(self, reason: str, code: str = "PTX-0304") -> None:
        """The instruction cannot be translated on this target: raises a PtxError that names it."""
        ...
