"""Every function that NVIDIA's driver library exports, as frozen rows (split by noun)."""

from cuttle.abi.cuda import context, device, graph, interop, launch, memory, module, pool, stream, texture
from cuttle.abi.cuda.row import Function, Parameter

__all__ = ["FUNCTIONS", "NOUNS", "Function", "Parameter"]

NOUNS: dict[str, tuple[Function, ...]] = {
    "device": device.FUNCTIONS,
    "context": context.FUNCTIONS,
    "module": module.FUNCTIONS,
    "launch": launch.FUNCTIONS,
    "memory": memory.FUNCTIONS,
    "pool": pool.FUNCTIONS,
    "stream": stream.FUNCTIONS,
    "graph": graph.FUNCTIONS,
    "texture": texture.FUNCTIONS,
    "interop": interop.FUNCTIONS,
}

# The order is the functions' numbering in requests (`abi/requests.py`: DRIVER_FUNCTION_BASE + index).
FUNCTIONS: tuple[Function, ...] = tuple(function for functions in NOUNS.values() for function in functions)
