"""Comparisons: v_cmp and v_cmpx (lane masks) and the scalar unit's float comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.semantics import scalar, vector
from cuttle.device.rdna.vector_float import exponent_bits

Array = NDArray[Any]


def _ordered(a: Array, b: Array) -> Array:
    return ~(np.isnan(a) | np.isnan(b))


COMPARISONS: dict[str, Any] = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), bool),
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": _ordered,
    "u": lambda a, b: ~_ordered(a, b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "ne": lambda a, b: a != b,
    "t": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), bool),
}


def _with_flush(function: Any) -> Any:
    return lambda mode, a, b: function(fp.flush_inputs(mode, a), fp.flush_inputs(mode, b))


def classify(x: Array, classes: Array) -> Array:
    """v_cmp_class: whether x is in one of the classes, bits of `classes` from signalling NaN (0) to +infinity (9)."""
    negative = np.signbit(x)
    biased = exponent_bits(x)
    number = np.select(
        [np.isnan(x), np.isinf(x), x == 0, biased == 0],
        [
            np.where(fp.is_signalling(x), 0, 1),
            np.where(negative, 2, 9),
            np.where(negative, 5, 6),
            np.where(negative, 4, 7),
        ],
        np.where(negative, 3, 8),
    )
    return ((classes.astype(np.int64) >> number) & 1).astype(bool)


for _mnemonic in OPCODES["VOPC"]:
    _, _, _name, _kind = _mnemonic.split("_")
    if _name == "class":
        vector(_mnemonic, f"m = {_kind} {'u16' if _kind == 'f16' else 'u32'}")(classify)
    elif _kind[0] == "f":
        vector(_mnemonic, f"m = {_kind} {_kind}", mode=True)(_with_flush(COMPARISONS[_name]))
    else:
        vector(_mnemonic, f"m = {_kind} {_kind}")(COMPARISONS[_name])

for _mnemonic in OPCODES["SOPC"]:
    if not _mnemonic.startswith("s_cmp_"):
        continue
    _, _, _name, _kind = _mnemonic.split("_")
    _function = COMPARISONS[{"lg": "lg" if _kind[0] == "f" else "ne"}.get(_name, _name)]
    if _kind[0] == "f":
        scalar(_mnemonic, f"= {_kind} {_kind}", scc="only", mode=True)(_with_flush(_function))
    else:
        scalar(_mnemonic, f"= {_kind} {_kind}", scc="only")(_function)
