"""A lane as a scalar, memory as the host's: enough of a Machine for texture and surface ops outside a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.without_clusters import WithoutClusters

ADDRESS_SPACE = {"generic": 0, "global": 1, "shared": 3, "const": 4, "param": 4, "local": 5}
_SCOPES = {"cta": 'syncscope("workgroup") ', "cluster": 'syncscope("agent") ', "gpu": 'syncscope("agent") ', "sys": ""}
_ORDERINGS = {"weak": "", "volatile": "monotonic", "relaxed": "monotonic", "acquire": "acquire", "release": "release",
              "acq_rel": "acq_rel", "sc": "seq_cst"}  # fmt: skip
_INTEGER_ATOMICS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap",
                    "dec": "udec_wrap"}  # fmt: skip
_FLOAT_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "f16x2": "<2 x half>",
                "bf16x2": "<2 x bfloat>"}  # fmt: skip


class ScalarMachine(WithoutClusters):
    """Implements `cuttle.lower.machine.Machine` for one lane per work-item."""

    def __init__(self, emitter: Emitter | None = None) -> None:
        self.emitter = emitter or Emitter()
        self.emitter.table_space = 4  # constant memory

    def refuse(self, reason: str, code: str = "PTX-0304") -> NoReturn:
        raise refusal("amdgpu", reason, code)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _pointer(self, space: str, address: Any) -> str:
        """`ptr addrspace(n) %x` of an address."""
        value: Value = address[1] if isinstance(address, tuple) else address
        number = ADDRESS_SPACE[space]
        bits = 32 if number in (3, 5) else 64
        value = self.emitter.resize(value, bits)
        name = self.emitter.name()
        kind = f"ptr addrspace({number})" if number else "ptr"
        self.emitter.line(f"{name} = inttoptr {value.typed} to {kind}")
        return f"{kind} {name}"

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        emitter = self.emitter
        if where is not None:
            return self._load_where(space, bits, count, address, where)
        atomic = _ORDERINGS[ordering] and ordering != "volatile" and bits <= 64
        values: list[Value] = []
        for index in range(count):
            pointer = self._pointer(space, self.advance(address, index * bits // 8) if index else address)
            if atomic:
                values.append(
                    emitter.emit(
                        f"i{bits}", 1, f"load atomic i{bits}, {pointer} {_ORDERINGS[ordering]}, align {bits // 8}"
                    )
                )
                continue
            flag = "volatile " if ordering == "volatile" else ""
            note = ", !invariant.load !0" if read_only and space in ("const", "param") else ""
            values.append(emitter.emit(f"i{bits}", 1, f"load {flag}i{bits}, {pointer}, align {bits // 8}{note}"))
        return values

    def _load_where(self, space: str, bits: int, count: int, address: Any, where: Value) -> list[Value]:
        """A branch around the load."""
        emitter = self.emitter
        tag = emitter.name()[1:]
        emitter.line(f"br label %before{tag}")
        emitter.lines.append(f"before{tag}:")
        emitter.line(f"br i1 {where.text}, label %load{tag}, label %after{tag}")
        emitter.lines.append(f"load{tag}:")
        values = self.load(space, bits, count, address)
        emitter.line(f"br label %after{tag}")
        emitter.lines.append(f"after{tag}:")
        return [
            emitter.emit(f"i{bits}", 1, f"phi i{bits} [ {value.text}, %load{tag} ], [ 0, %before{tag} ]")
            for value in values
        ]

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        """Tests of single operations use aligned addresses."""

    def advance(self, address: Any, offset: int | Value) -> Any:
        space, value = address if isinstance(address, tuple) else (None, address)
        if isinstance(offset, int):
            offset = self.emitter.const(value.type, offset)
        moved = self.emitter.add(value, self.emitter.resize(offset, value.bits, signed=True))
        return moved if space is None else (space, moved)

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        if where is not None:
            self._store_where(space, bits, address, values, where)
            return
        atomic = _ORDERINGS[ordering] and ordering != "volatile" and bits <= 64
        for index, value in enumerate(values):
            pointer = self._pointer(space, self.advance(address, index * bits // 8) if index else address)
            flag = "atomic " if atomic else "volatile " if ordering == "volatile" else ""
            order = f" {_ORDERINGS[ordering]}" if atomic else ""
            self.emitter.line(f"store {flag}{value.typed}, {pointer}{order}, align {bits // 8}")

    def _store_where(self, space: str, bits: int, address: Any, values: Sequence[Value], where: Value) -> None:
        tag = self.emitter.name()[1:]
        self.emitter.line(f"br i1 {where.text}, label %store{tag}, label %after{tag}")
        self.emitter.lines.append(f"store{tag}:")
        self.store(space, bits, address, values)
        self.emitter.line(f"br label %after{tag}")
        self.emitter.lines.append(f"after{tag}:")

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        if where is not None:
            self.refuse("atomics of some lanes")
        emitter = self.emitter
        pointer = self._pointer(space, address)
        value = operands[0]
        order = f"{_SCOPES[scope]}{_ORDERINGS[ordering]}, align {value.bits // 8}"
        if operation == "cas":
            if value.bits > 64:
                self.refuse("128-bit compare and swap")
            name = emitter.name()
            failure = {"acq_rel": "acquire", "release": "monotonic"}.get(_ORDERINGS[ordering], _ORDERINGS[ordering])
            emitter.line(
                f"{name} = cmpxchg {pointer}, {operands[0].typed}, {operands[1].typed} "
                f"{_SCOPES[scope]}{_ORDERINGS[ordering]} {failure}, align {value.bits // 8}"
            )
            return emitter.emit(value.type, 1, f"extractvalue {{ {value.type}, i1 }} {name}, 0")
        if value.bits > 64:
            self.refuse("128-bit exchange")
        kind = _FLOAT_TYPES.get(type_name)
        if kind is None:
            if operation in ("min", "max"):
                operation = operation if type_name.startswith("s") else "u" + operation
            name = _INTEGER_ATOMICS.get(operation, operation)
            return emitter.emit(value.type, 1, f"atomicrmw {name} {pointer}, {value.typed} {order}")
        cast = emitter.name()
        emitter.line(f"{cast} = bitcast {value.typed} to {kind}")
        old = emitter.name()
        emitter.line(f"{old} = atomicrmw f{operation} {pointer}, {kind} {cast} {order}")
        return emitter.emit(value.type, 1, f"bitcast {kind} {old} to {value.type}")

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        return body(operands)
