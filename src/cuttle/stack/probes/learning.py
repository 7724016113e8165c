"""Capability tests of what learning needs, with kernels of our own."""

from __future__ import annotations

import math
from array import array

from cuttle.stack.device_program import DeviceProgram
from cuttle.stack.probes.algebra import transposed
from cuttle.stack.probes.arrays import normalized, numbers, product, softmax
from cuttle.stack.probes.checking import close, require
from cuttle.stack.workloads.network import Adam, Network, parameter_count

ROWS, WIDTH = 64, 16  # of attention


def program() -> DeviceProgram:
    return DeviceProgram("arrays", "matrix", "ppo", "learning")


def outputs(parameters: list[float], widths: tuple[int, ...], row: list[float]) -> list[float]:
    """What a network of rectified layers makes of one row, in double precision."""
    at = 0
    for number, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        bias = at + before * after
        row = [
            math.fsum(row[k] * parameters[at + k * after + j] for k in range(before)) + parameters[bias + j]
            for j in range(after)
        ]
        at = bias + after
        if number < len(widths) - 2:
            row = [max(value, 0.0) for value in row]
    return row


def probe_autograd_backward() -> None:
    made, widths, batch = program(), (5, 9, 7, 3), 12
    count = parameter_count(widths)
    seen, wanted = numbers(batch * 5, 41), numbers(batch * 3, 42)
    parameters, gradient = made.floats(count), made.floats(count)
    network = Network(made, widths, batch, parameters, gradient)
    network.begin(0, 7, 1.0)
    pointer = made.upload(seen)
    network.forwards(pointer, batch)
    out = made.read_floats(network.output, batch * 3)
    made.write_floats(network.output_gradient, array("f", [a - b for a, b in zip(out, wanted, strict=True)]))
    network.backwards(pointer, batch)

    def loss(values: list[float]) -> float:
        total = 0.0
        for row in range(batch):
            found = outputs(values, widths, list(seen[row * 5 : row * 5 + 5]))
            total += math.fsum((a - b) ** 2 / 2 for a, b in zip(found, wanted[row * 3 : row * 3 + 3], strict=True))
        return total

    values, right, step = list(made.read_floats(parameters, count)), [], 1e-6
    for place in range(count):
        near = [loss(values[:place] + [values[place] + way] + values[place + 1 :]) for way in (step, -step)]
        right.append((near[0] - near[1]) / (2 * step))
    close(made.read_floats(gradient, count), right, 1e-3)


def probe_optimizer_sgd() -> None:
    made, count = program(), 1000
    values, slopes = numbers(count, 43), numbers(count, 44)
    parameters, gradient, momentum = made.upload(values), made.upload(slopes), made.floats(count)
    right, moving = list(values), [0.0] * count
    for _ in range(5):
        made.start_threads("descend", count, parameters, gradient, momentum, count, 0.1, 0.9)
        moving = [0.9 * m + g for m, g in zip(moving, slopes, strict=True)]
        right = [value - 0.1 * m for value, m in zip(right, moving, strict=True)]
    close(made.read_floats(parameters, count), right, 1e-5)


def probe_optimizer_adam() -> None:
    made, count = program(), 1000
    values, slopes = numbers(count, 45), numbers(count, 46)
    parameters, gradient = made.upload(values), made.upload(slopes)
    adam = Adam(made, parameters, gradient, count)
    right, first, second = list(values), [0.0] * count, [0.0] * count
    for step in range(1, 6):
        adam.step(0.01, 1e9)
        first = [0.9 * m + 0.1 * g for m, g in zip(first, slopes, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, slopes, strict=True)]
        right = [
            value - 0.01 * (m / (1 - 0.9**step)) / (math.sqrt(v / (1 - 0.999**step)) + 1e-5)
            for value, m, v in zip(right, first, second, strict=True)
        ]
    close(made.read_floats(parameters, count), right, 1e-4)


def probe_amp() -> None:
    made, count = program(), 1000
    slopes = numbers(count, 47, -1e-3, 1e-3)
    gradient, halves, overflow, back = made.upload(slopes), made.floats(count), made.floats(1), made.floats(count)
    scale, skipped = 2.0**28, 0
    while True:
        made.call("cuMemsetD32_v2", overflow, 0, 1)
        made.start_threads("to_half", count, gradient, halves, overflow, count, scale)
        if not array("I", made.read(overflow, 4))[0]:
            break
        scale, skipped = scale / 2, skipped + 1
        require(skipped < 30, "every scale overflows")
    top = max(abs(value) for value in slopes)
    require(top * scale < 65520 <= top * scale * 2, f"a scale of {scale:g} was kept for gradients up to {top:g}")
    made.start_threads("from_half", count, halves, back, count, scale)
    close(made.read_floats(back, count), slopes, 2**-10)


def probe_conv2d() -> None:
    made, (count, channels, outs, height, width) = program(), (2, 3, 4, 7, 9)
    images, filters = numbers(count * channels * height * width, 48), numbers(outs * channels * 9, 49)
    out = made.floats(count * outs * height * width)
    made.start_threads(
        "convolve", count * outs * height * width, made.upload(images), made.upload(filters), out,
        count, channels, outs, height, width,
    )  # fmt: skip

    def pixel(n: int, c: int, y: int, x: int) -> float:
        inside = 0 <= y < height and 0 <= x < width
        return images[((n * channels + c) * height + y) * width + x] if inside else 0.0

    right = [
        math.fsum(
            pixel(n, c, y + dy - 1, x + dx - 1) * filters[((o * channels + c) * 3 + dy) * 3 + dx]
            for c in range(channels)
            for dy in range(3)
            for dx in range(3)
        )
        for n in range(count)
        for o in range(outs)
        for y in range(height)
        for x in range(width)
    ]
    close(made.read_floats(out, len(right)), right, 1e-5)


def probe_batch_norm() -> None:
    made, (count, channels, inner) = program(), (6, 5, 20)
    values = numbers(count * channels * inner, 50, 2, 7)
    out = made.floats(len(values))
    made.start_threads(
        "normalize", channels, made.upload(values), out, channels, count, channels * inner, inner, inner, 1e-5
    )
    groups = [[(n * channels + c) * inner + i for n in range(count) for i in range(inner)] for c in range(channels)]
    close(made.read_floats(out, len(values)), normalized(values, groups, 1e-5), 1e-4)


def attention_inputs() -> tuple[array[float], array[float], array[float]]:
    return numbers(ROWS * WIDTH, 51, -2, 2), numbers(ROWS * WIDTH, 52, -2, 2), numbers(ROWS * WIDTH, 53)


def attention() -> list[float]:
    """Softmax of the scaled scores times the values, in double precision."""
    queries, keys, values = attention_inputs()
    scores = [value / 4 for value in product(queries, transposed(keys, ROWS, WIDTH), ROWS, WIDTH, ROWS)]
    return product(array("d", softmax(scores, ROWS)), values, ROWS, ROWS, WIDTH)


def probe_sdpa_math() -> None:
    made = program()
    queries, keys, values = (made.upload(part) for part in attention_inputs())
    scores, weights, out = made.floats(ROWS * ROWS), made.floats(ROWS * ROWS), made.floats(ROWS * WIDTH)
    nothing = type(out)(0)
    made.start_threads("find_scores", ROWS * ROWS, queries, keys, scores, ROWS)
    made.start_threads("softmax_rows", ROWS, scores, weights, ROWS, ROWS)
    made.start("multiply", (1, 1, 1), (16, 16, 1), weights, values, nothing, out, ROWS, WIDTH, ROWS, 0)
    close(made.read_floats(out, ROWS * WIDTH), attention(), 1e-5)


def probe_sdpa_flash() -> None:
    made = program()
    queries, keys, values = (made.upload(part) for part in attention_inputs())
    out = made.floats(ROWS * WIDTH)
    made.start("attend_tiled", (ROWS // 32, 1, 1), (32, 1, 1), queries, keys, values, out, ROWS)
    close(made.read_floats(out, ROWS * WIDTH), attention(), 1e-5)


def probe_sdpa_mem_efficient() -> None:
    made, chunk = program(), 24
    queries, keys, values = (made.upload(part) for part in attention_inputs())
    carried = made.floats(ROWS * (WIDTH + 2))
    for first in range(0, ROWS, chunk):
        made.start_threads("attend_chunk", ROWS, queries, keys, values, carried, ROWS, first, min(chunk, ROWS - first))
    found = made.read_floats(carried, ROWS * (WIDTH + 2))
    rows = [found[row * (WIDTH + 2) : (row + 1) * (WIDTH + 2)] for row in range(ROWS)]
    close([value / row[WIDTH + 1] for row in rows for value in row[:WIDTH]], attention(), 1e-5)
