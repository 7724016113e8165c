"""What machines answer that know no clusters, no bulk operations and no `alloca`: they refuse, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuttle.lower.emit import Value


class WithoutClusters:
    """Methods of `lower.machine.Machine` that refuse; a machine derives from it."""

    def refuse(self, reason: str) -> None:
        raise NotImplementedError

    def no_value(self, reason: str) -> Value:
        """Refuses where a value would be the answer."""
        self.refuse(reason)
        raise AssertionError(reason)

    def texture(self, form: int, words: Sequence[Value]) -> list[Value] | None:
        """There is no such function: code for it is emitted."""
        return None

    def copy_bytes(
        self, to: str, destination: Any, origin: str, source: Any, size: Value, *, where: Value | None = None
    ) -> None:
        self.refuse("bulk copies are not there on this device")

    def reduce_bytes(
        self, operation: str, type_name: str, to: str, destination: Any, origin: str, source: Any, size: Value
    ) -> None:
        self.refuse("bulk reductions are not there on this device")

    def zero_bytes(self, space: str, address: Any, size: Value) -> None:
        self.refuse("bulk stores are not there on this device")

    def address_value(self, space: str, address: Any) -> Value:
        return self.no_value("addresses as numbers are not there on this device")

    def stack_pointer(self) -> Value:
        return self.no_value("stacks of variable size are not there on this device")

    def move_stack(self, pointer: Value) -> None:
        self.refuse("stacks of variable size are not there on this device")

    def map_to_rank(self, address: Value, rank: Value, *, generic: bool) -> Value:
        return self.no_value("clusters are not there on this device")

    def rank_of(self, address: Value, *, generic: bool) -> Value:
        return self.no_value("clusters are not there on this device")
