"""Runs one iteration of the `ppo` workload on the driver library at hand and writes what the gradient was computed from.

Started by test_workloads.py under Cuttle: `python -m tests.stack.gradients FILE.npz`.
"""

from __future__ import annotations

import sys

import numpy as np

from cuttle.stack.workloads.ppo import SIZES, Training


def main(path: str) -> None:
    settings = SIZES["small"]
    training = Training(settings, seed=3)
    training.collect()
    training.learn()  # so that ratios are not all 1 and some are clipped
    training.find_gradient()
    read = training.program.read_floats
    samples, batch = settings.samples, settings.batch
    np.savez(
        path,
        parameters=read(training.parameters, settings.parameters),
        gradient=read(training.gradient, settings.parameters),
        seen=read(training._batch_seen, batch * settings.features),
        rows=np.frombuffer(training.program.read(training._batch_rows, 4 * batch), np.uint32),
        actions=np.frombuffer(training.program.read(training._actions, 4 * samples), np.uint32),
        old=read(training._log_probabilities, samples),
        rewards=read(training._rewards, samples),
        ended=np.frombuffer(training.program.read(training._ended, 4 * samples), np.uint32),
        values=read(training._values, samples + settings.worlds),
        advantages=read(training._advantages, samples),
        returns=read(training._returns, samples),
        told=read(training._told, 4 * batch),
    )


main(sys.argv[1])
