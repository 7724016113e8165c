"""The workload `nbody`: all pairs of bodies pull each other."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator
from time import perf_counter

from cuttle.stack.device_program import DeviceProgram, Stopwatch

SIZES = {"full": 32768, "small": 1024}
STEPS = 10
SOFTENING = 0.01
TIME_STEP = 0.005
PLACES = 8  # bodies whose acceleration is checked


def iterations(size: str, seed: int, library: str = "") -> Iterator[dict[str, float]]:
    """Ten steps each; `largest_error` is that of some accelerations, relative to double precision on the host."""
    count = SIZES[size]
    program = DeviceProgram("bodies", library=library)
    bodies, velocities, accelerations = (program.floats(4 * count) for _ in range(3))
    program.start_threads("begin_bodies", 4 * count, bodies, velocities, count, seed)
    places = random.Random(seed)
    watch = Stopwatch(program)
    while True:
        program.synchronize()
        began = perf_counter()
        watch.mark()
        for _ in range(STEPS):
            program.start_threads("pull", count, bodies, accelerations, count, SOFTENING)
            program.start_threads("move", 4 * count, bodies, velocities, accelerations, count, TIME_STEP)
        watch.mark()
        program.synchronize()
        seconds = perf_counter() - began
        program.start_threads("pull", count, bodies, accelerations, count, SOFTENING)
        error = _largest_error(
            program.read_floats(bodies, 4 * count), program.read_floats(accelerations, 4 * count), count, places
        )
        yield {
            "seconds": seconds / STEPS,
            "device_seconds": watch.take() / STEPS,
            "interactions_per_second": count * count * STEPS / seconds,
            "largest_error": error,
        }


def _largest_error(bodies: array[float], accelerations: array[float], count: int, places: random.Random) -> float:
    largest = 0.0
    for _ in range(PLACES):
        i = places.randrange(count)
        x, y, z = bodies[4 * i : 4 * i + 3]
        right = [0.0, 0.0, 0.0]
        for j in range(count):
            ways = (bodies[4 * j] - x, bodies[4 * j + 1] - y, bodies[4 * j + 2] - z)
            weight = bodies[4 * j + 3] / math.sqrt(math.fsum(way * way for way in ways) + SOFTENING) ** 3
            for axis in range(3):
                right[axis] += ways[axis] * weight
        size = math.sqrt(math.fsum(value * value for value in right))
        apart = math.sqrt(math.fsum((accelerations[4 * i + axis] - right[axis]) ** 2 for axis in range(3)))
        largest = max(largest, apart / size)
    return largest
