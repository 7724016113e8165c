"""Dense networks on a device: forwards, backwards, Adam. Single precision, rectified layers, the last one linear."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import sqrt

from cuttle.stack.device_program import DeviceProgram, offset

TILE = 64  # rows and columns of a product that one block computes
MOMENT_BLOCKS = 64
BIAS_PARTS = 32


def parameter_count(widths: Sequence[int]) -> int:
    """Weights and biases of a network with these layer widths, its input first."""
    return sum((before + 1) * after for before, after in zip(widths, widths[1:], strict=False))


def _tiles(rows: int, columns: int, parts: int = 1) -> tuple[int, int, int]:
    return -(-columns // TILE), -(-rows // TILE), parts


def _weight_parts(rows: int, columns: int) -> int:
    """Into how many parts the sum over a batch is cut, so that small layers have blocks enough."""
    tiles = -(-rows // TILE) * -(-columns // TILE)
    return max(1, min(16, 256 // tiles))


class Network:
    """One network: its parameters lie in `parameters`, layer by layer, weights [inputs][outputs] and then biases.

    `largest_batch` rows fit through it. `gradient` has the parameters' layout.
    """

    def __init__(
        self,
        program: DeviceProgram,
        widths: Sequence[int],
        largest_batch: int,
        parameters: ctypes.c_uint64,
        gradient: ctypes.c_uint64,
    ) -> None:
        self.widths = list(widths)
        self._program = program
        self._layers: list[tuple[int, int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64]] = []
        at = 0
        for before, after in zip(widths, widths[1:], strict=False):
            bias_at = at + before * after
            self._layers.append(
                (before, after, offset(parameters, at), offset(parameters, bias_at), offset(gradient, at), offset(gradient, bias_at))
            )  # fmt: skip
            at = bias_at + after
        self._outputs = [program.floats(largest_batch * after) for after in widths[1:]]
        self._gradients = [program.floats(largest_batch * after) for after in widths[1:]]
        partial = max(
            max(_weight_parts(before, after) * before * after, BIAS_PARTS * after)
            for before, after in zip(widths, widths[1:], strict=False)
        )
        self._partial = program.floats(partial)

    @property
    def output(self) -> ctypes.c_uint64:
        """[batch][last width], of the last `forwards`."""
        return self._outputs[-1]

    @property
    def output_gradient(self) -> ctypes.c_uint64:
        """To be filled before `backwards`: [batch][last width]."""
        return self._gradients[-1]

    def begin(self, stream: int, seed: int, last_scale: float) -> None:
        """Random weights: even within sqrt(3 / inputs) * sqrt(2), the last layer's within `last_scale` of that; biases 0."""
        for number, (before, after, weights, _, _, _) in enumerate(self._layers):
            bound = sqrt(6 / before) * (last_scale if number == len(self._layers) - 1 else 1.0)
            count = before * after
            self._program.start_threads("begin_weights", count, weights, count, bound, stream + number, seed)

    def forwards(self, seen: ctypes.c_uint64, batch: int) -> None:
        """Output of `batch` rows."""
        below = seen
        for number, (before, after, weights, bias, _, _) in enumerate(self._layers):
            out = self._outputs[number]
            rectify = int(number < len(self._layers) - 1)
            self._program.start(
                "multiply", _tiles(batch, after), (16, 16, 1), below, weights, bias, out, batch, after, before, rectify
            )
            below = out

    def backwards(self, seen: ctypes.c_uint64, batch: int) -> None:
        """The gradient of all parameters from `output_gradient`, for the rows of the last `forwards`."""
        start = self._program.start
        for number in range(len(self._layers) - 1, -1, -1):
            before, after, weights, _, weights_gradient, bias_gradient = self._layers[number]
            below = self._outputs[number - 1] if number else seen
            above = self._gradients[number]
            parts = _weight_parts(before, after)
            start(
                "multiply_weights", _tiles(before, after, parts), (16, 16, 1),
                below, above, self._partial, before, after, batch,
            )  # fmt: skip
            self._program.start_threads(
                "add_parts", before * after, self._partial, weights_gradient, before * after, parts
            )
            start("add_rows", (-(-after // 64), 1, BIAS_PARTS), (64, 1, 1), above, self._partial, batch, after)
            self._program.start_threads("add_parts", after, self._partial, bias_gradient, after, BIAS_PARTS)
            if number:
                start(
                    "multiply_back", _tiles(batch, before), (16, 16, 1),
                    above, weights, below, self._gradients[number - 1], batch, before, after,
                )  # fmt: skip


class Adam:
    """Adam over one range of parameters, with the gradient's norm limited."""

    def __init__(
        self, program: DeviceProgram, parameters: ctypes.c_uint64, gradient: ctypes.c_uint64, count: int
    ) -> None:
        self._program = program
        self._parameters, self._gradient, self._count = parameters, gradient, count
        self._first, self._second = program.floats(count), program.floats(count)
        self._partial, self._moments = program.floats(2 * MOMENT_BLOCKS), program.floats(2)
        self._steps = 0

    def step(self, rate: float, largest_norm: float) -> None:
        self._steps += 1
        find_moments(self._program, self._gradient, self._count, self._partial, self._moments)
        self._program.start_threads(
            "adam", self._count, self._parameters, self._gradient, self._first, self._second, self._moments,
            self._count, rate, 1 - 0.9**self._steps, 1 - 0.999**self._steps, largest_norm,
        )  # fmt: skip


def find_moments(
    program: DeviceProgram, values: ctypes.c_uint64, count: int, partial: ctypes.c_uint64, moments: ctypes.c_uint64
) -> None:
    """Sum and sum of squares of values into `moments`; `partial` has room for 2 * MOMENT_BLOCKS."""
    program.start("add_values", (MOMENT_BLOCKS, 1, 1), (256, 1, 1), values, partial, count)
    program.start("add_moments", (1, 1, 1), (1, 1, 1), partial, moments, MOMENT_BLOCKS)
