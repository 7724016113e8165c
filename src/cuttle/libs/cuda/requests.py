"""Which function answers which request (`abi/requests.py`), by number.

The device process looks a function up when it is first asked for, so the table holds names only. That numbers, names and
arguments agree with the rows is checked by `tests/libs/cuda/test_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from cuttle.runtime.results import Reply
from cuttle.runtime.session import Session

Handler = Callable[[Session, tuple[int, ...], bytes], int | tuple[int, ...] | Reply | None]

# Module of `cuttle.libs.cuda` → {request number: function}.
TABLE: dict[str, dict[int, str]] = {
    "context": {
        1: "ping", 3: "device_reset", 4: "context_create", 5: "context_destroy", 6: "limit_get", 7: "limit_set",
    },
    "module": {
        10: "module_load", 11: "module_unload", 12: "kernel_get", 13: "kernel_names", 14: "global_get",
        15: "kernel_prepare", 16: "function_attribute_set", 17: "occupancy", 18: "link_create", 19: "link_add",
        20: "link_complete", 21: "link_destroy",
    },
    "memory": {
        30: "mem_alloc", 31: "mem_free", 32: "mem_info", 33: "pointer_range", 34: "host_register", 35: "host_unregister",
        110: "address_reserve", 111: "address_free", 112: "physical_create", 113: "physical_release",
        114: "physical_map", 115: "physical_unmap",
    },
    "pool": {
        36: "pool_create", 37: "pool_destroy", 38: "pool_attribute_get", 39: "pool_attribute_set", 40: "pool_trim",
        41: "pool_alloc",
    },
    "texture": {
        42: "array_create", 43: "array_destroy", 44: "texture_create", 45: "texture_destroy", 46: "surface_create",
        47: "surface_destroy",
    },
    "graph": {
        60: "graph_create", 61: "graph_destroy", 62: "graph_clone", 63: "graph_add_node", 64: "graph_node_get",
        65: "graph_node_set", 66: "graph_node_destroy", 67: "graph_nodes", 68: "graph_edges", 69: "graph_edges_add",
        70: "graph_edges_remove", 71: "graph_node_neighbours", 72: "graph_node_in_clone", 73: "graph_instantiate",
        74: "executable_destroy", 75: "executable_node_set", 76: "executable_node_enable",
        77: "executable_node_enabled", 78: "executable_update", 79: "executable_child_set", 80: "graph_add_alloc",
        81: "graph_memory_get", 82: "graph_memory_reset", 83: "graph_memory_trim", 84: "graph_memory_free",
    },
    "capture": {
        90: "capture_begin", 91: "capture_end", 92: "capture_add", 93: "capture_event_record", 94: "capture_event_wait",
        95: "capture_info", 96: "capture_set_dependencies", 97: "capture_invalidate", 98: "capture_alloc",
    },
}  # fmt: skip

# These answer whatever state the context is in: they look after it, or only take objects away.
IN_ANY_STATE = frozenset({1, 3, 4, 5, 11, 21, 31, 35, 37, 43, 45, 47, 61, 74})

_places = {number: (module, name) for module, functions in TABLE.items() for number, name in functions.items()}
_found: dict[int, Handler] = {}


def find_handler(number: int) -> Handler | None:
    """The function for a request, None for an unknown number."""
    handler = _found.get(number)
    if handler is None and number in _places:
        module, name = _places[number]
        handler = _found[number] = _adapt(getattr(import_module(f"cuttle.libs.cuda.{module}"), name), number)
    return handler


def _adapt(function: Callable[..., int | tuple[int, ...] | Reply | None], number: int) -> Handler:
    """Functions take the arguments by position, and the payload last if they have a parameter of that name."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    takes_payload = names[-1] == "payload"
    count = len(names) - 1 - takes_payload
    any_state = number in IN_ANY_STATE

    def handler(session: Session, arguments: tuple[int, ...], payload: bytes) -> int | tuple[int, ...] | Reply | None:
        if session.sticky and not any_state:
            from cuttle.runtime.results import CudaError

            raise CudaError(session.sticky)
        # A client of the same protocol version sends all; missing ones count as 0.
        given = arguments[:count] + (0,) * (count - len(arguments))
        return function(session, *given, payload) if takes_payload else function(session, *given)

    return handler
