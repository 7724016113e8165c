"""The workload `gemm`: single-precision matrix products, each checked at some places."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator
from time import perf_counter

from cuttle.stack.device_program import DeviceProgram, Stopwatch

SIZES = {"full": 2048, "small": 256}
LAUNCHES = 10
PLACES = 64  # that are checked
TILE = 64


def iterations(size: str, seed: int, library: str = "") -> Iterator[dict[str, float]]:
    """Square products of that size; `largest_error` is relative to the sum of the products' magnitudes."""
    n = SIZES[size]
    program = DeviceProgram("matrix", "ppo", library=library)
    a, b, out = (program.floats(n * n) for _ in range(3))
    for stream, matrix in enumerate((a, b)):
        program.start_threads("begin_weights", n * n, matrix, n * n, 1.0, stream, seed)
    places = random.Random(seed)
    watch = Stopwatch(program)
    nothing = type(a)(0)
    tiles = (-(-n // TILE), -(-n // TILE), 1)
    left, right = program.read_floats(a, n * n), program.read_floats(b, n * n)
    while True:
        program.synchronize()
        began = perf_counter()
        watch.mark()
        for _ in range(LAUNCHES):
            program.start("multiply", tiles, (16, 16, 1), a, b, nothing, out, n, n, n, 0)
        watch.mark()
        program.synchronize()
        seconds = perf_counter() - began
        yield {
            "seconds": seconds / LAUNCHES,
            "device_seconds": watch.take() / LAUNCHES,
            "gflops": 2 * n**3 * LAUNCHES / seconds / 1e9,
            "largest_error": _largest_error(left, right, program.read_floats(out, n * n), n, places),
        }


def _largest_error(left: array[float], right: array[float], out: array[float], n: int, places: random.Random) -> float:
    largest = 0.0
    for _ in range(PLACES):
        row, column = places.randrange(n), places.randrange(n)
        products = [x * y for x, y in zip(left[row * n : row * n + n], right[column::n], strict=True)]
        error = abs(math.fsum(products) - out[row * n + column]) / math.fsum(map(abs, products))
        largest = max(largest, error)
    return largest
