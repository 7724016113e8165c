"""Capability tests on arrays, with kernels of our own."""

from __future__ import annotations

import cmath
import math
import random
from array import array

from cuttle.stack.device_program import DeviceProgram
from cuttle.stack.probes.checking import close, require, same

SIDE = 64


def program() -> DeviceProgram:
    return DeviceProgram("arrays", "matrix")


def numbers(count: int, seed: int, low: float = -1.0, high: float = 1.0) -> array[float]:
    """Single-precision numbers, always the same."""
    generator = random.Random(seed)
    return array("f", [generator.uniform(low, high) for _ in range(count)])


def product(a: array[float], b: array[float], rows: int, inner: int, columns: int) -> list[float]:
    """Row-major, in double precision."""
    return [
        math.fsum(a[row * inner + k] * b[k * columns + column] for k in range(inner))
        for row in range(rows)
        for column in range(columns)
    ]


def softmax(values: array[float] | list[float], columns: int) -> list[float]:
    out: list[float] = []
    for first in range(0, len(values), columns):
        row = values[first : first + columns]
        weights = [math.exp(value - max(row)) for value in row]
        out += [weight / math.fsum(weights) for weight in weights]
    return out


def probe_elementwise() -> None:
    made, count = program(), 5000
    x, y = numbers(count, 1, -3, 3), numbers(count, 2, -3, 3)
    left, right, out = made.upload(x), made.upload(y), made.floats(count)
    made.start_threads("elementwise", count, left, right, out, count)
    expected = [a * b + math.sqrt(abs(a)) / (1 + math.exp(-b)) for a, b in zip(x, y, strict=True)]
    close(made.read_floats(out, count), expected, 1e-5)


def probe_reductions() -> None:
    made, count, blocks = program(), 100_000, 16
    values = numbers(count, 3)
    out = made.floats(2 * blocks)
    made.start("sum_and_largest", (blocks, 1, 1), (256, 1, 1), made.upload(values), out, count)
    parts = made.read_floats(out, 2 * blocks)
    require(max(parts[1::2]) == max(values), f"the maximum is {max(parts[1::2])} instead of {max(values)}")
    right = math.fsum(values)
    require(abs(sum(parts[::2]) - right) < 0.01, f"the sum is {sum(parts[::2])} instead of {right}")


def probe_matmul() -> None:
    made, n = program(), SIDE + 3
    a, b = numbers(n * n, 4), numbers(n * n, 5)
    out, tiles = made.floats(n * n), -(-n // 64)
    left, right, bias = made.upload(a), made.upload(b), made.upload(array("f", [1.0] * n))
    made.start("multiply", (tiles, tiles, 1), (16, 16, 1), left, right, bias, out, n, n, n, 0)
    close(made.read_floats(out, n * n), [value + 1 for value in product(a, b, n, n, n)], 1e-5)


def probe_bf16_matmul() -> None:
    made, n = program(), SIDE
    a, b = numbers(n * n, 6), numbers(n * n, 7)
    halves = [array("H", [bits >> 16 for bits in array("I", matrix.tobytes())]) for matrix in (a, b)]
    out = made.floats(n * n // 2)
    made.start_threads("multiply_bf16", n * n, made.upload(halves[0]), made.upload(halves[1]), out, n)
    wide = [array("f", array("I", [bits << 16 for bits in half]).tobytes()) for half in halves]
    found = array("f", array("I", [bits << 16 for bits in array("H", made.read(out, 2 * n * n))]).tobytes())
    close(found, product(wide[0], wide[1], n, n, n), 2**-8)


def probe_fft() -> None:
    made, count = program(), 256
    values = numbers(2 * count, 8)
    pointer = made.upload(values)
    made.start("transform", (1, 1, 1), (128, 1, 1), pointer)
    inputs = [complex(values[2 * i], values[2 * i + 1]) for i in range(count)]
    right: list[float] = []
    for k in range(count):
        total = sum(value * cmath.exp(-2j * math.pi * k * i / count) for i, value in enumerate(inputs))
        right += [total.real, total.imag]
    close(made.read_floats(pointer, 2 * count), right, 1e-4)


def probe_sparse_mm() -> None:
    made, rows, columns = program(), 50, 9
    generator = random.Random(9)
    starts, places, values = array("I", [0]), array("I"), array("f")
    for _ in range(rows):
        for place in sorted(generator.sample(range(rows), generator.randrange(8))):
            places.append(place)
            values.append(generator.uniform(-1, 1))
        starts.append(len(places))
    dense = numbers(rows * columns, 10)
    out = made.floats(rows * columns)
    made.start_threads(
        "multiply_sparse", rows * columns, made.upload(starts), made.upload(places), made.upload(values),
        made.upload(dense), out, rows, columns,
    )  # fmt: skip
    right = [
        math.fsum(values[i] * dense[places[i] * columns + column] for i in range(starts[row], starts[row + 1]))
        for row in range(rows)
        for column in range(columns)
    ]
    close(made.read_floats(out, rows * columns), right, 1e-5)


def probe_softmax() -> None:
    made, rows, columns = program(), 40, 33
    values = numbers(rows * columns, 11, -8, 8)
    out = made.floats(rows * columns)
    made.start_threads("softmax_rows", rows, made.upload(values), out, rows, columns)
    close(made.read_floats(out, rows * columns), softmax(values, columns), 1e-5)


def normalized(values: array[float], groups: list[list[int]], epsilon: float) -> list[float]:
    """Mean 0 and variance 1 over each group of places."""
    out = [0.0] * len(values)
    for group in groups:
        mean = math.fsum(values[i] for i in group) / len(group)
        variance = math.fsum((values[i] - mean) ** 2 for i in group) / len(group)
        for i in group:
            out[i] = (values[i] - mean) / math.sqrt(variance + epsilon)
    return out


def probe_layernorm() -> None:
    made, rows, columns = program(), 30, 48
    values = numbers(rows * columns, 12, 3, 9)
    out = made.floats(rows * columns)
    made.start_threads("normalize", rows, made.upload(values), out, rows, 1, 0, columns, columns, 1e-5)
    groups = [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
    close(made.read_floats(out, rows * columns), normalized(values, groups, 1e-5), 1e-4)


def probe_gather_scatter() -> None:
    made, count = program(), 3000
    generator = random.Random(13)
    values = numbers(count, 14)
    places = array("I", [generator.randrange(count // 10) for _ in range(count)])
    out, counts = made.floats(count), made.floats(count)
    made.start_threads("gather_and_scatter", count, made.upload(values), made.upload(places), out, counts, count)
    same(
        array("I", made.read(out, 4 * count)), array("I", array("f", [values[i] for i in places]).tobytes()), "gathered"
    )
    right = [0] * count
    for i, place in enumerate(places):
        right[place] += i
    same(array("I", made.read(counts, 4 * count)), right, "scattered sums")


def random_bits(counter: int, stream: int, key: int) -> int:
    """The generator of kernels/device.h."""
    for _ in range(10):
        wide = counter * 0xD256D193
        counter, stream = (wide >> 32) ^ key ^ stream, wide & 0xFFFFFFFF
        key = (key + 0x9E3779B9) & 0xFFFFFFFF
    return counter


def probe_random() -> None:
    made, count = program(), 20_000
    out = made.floats(count)
    made.start_threads("draw", count, out, count, 5, 99)
    found = array("I", made.read(out, 4 * count))
    same(found[:500], [random_bits(i, 5, 99) for i in range(500)], "random bits")
    mean = sum(found) / count / 2**32
    require(abs(mean - 0.5) < 0.01, f"their mean is {mean}")
    require(len(set(found)) > count - 10, f"only {len(set(found))} different numbers of {count}")
