"""The workloads of `cuttle stack bench`: right answers, and the loss and gradient of `ppo` against NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cuttle.stack.workloads.ppo import SIZES, PpoSettings

ROOT = Path(__file__).parents[2]


def under_cuttle(*command: str, cache: Path) -> str:
    """Standard output of a Python module under `cuttle run`."""
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--", sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "CUTTLE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def metrics(workload: str, iterations: int, cache: Path) -> list[dict[str, float]]:
    text = under_cuttle(
        "cuttle.stack.workloads", workload, "--size", "small", "--iterations", str(iterations), cache=cache
    )
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["iteration"] for line in lines] == list(range(iterations))
    return [line["metrics"] for line in lines]


@pytest.mark.parametrize(("workload", "rate"), [("gemm", "gflops"), ("nbody", "interactions_per_second")])
def test_answers_are_right(workload: str, rate: str, tmp_path: Path) -> None:
    for found in metrics(workload, 2, tmp_path):
        assert 0 < found["largest_error"] < 1e-5
        assert found[rate] > 0 and found["device_seconds"] > 0


def test_it_learns(tmp_path: Path) -> None:
    found = metrics("ppo", 20, tmp_path)
    assert found[0]["steps"] == 2048
    assert found[-1]["reward"] > 0.6 * found[0]["reward"]  # rewards are negative
    assert found[-1]["value_loss"] < 0.2 * found[0]["value_loss"]
    assert found[-1]["entropy"] < found[0]["entropy"] <= np.log(9)


def test_forty_iterations_take_the_course_of_an_h200(tmp_path: Path) -> None:
    """Rewards, losses, entropy: every bit as recorded there (driver 580.159.04), so every weight on the way is the same.

    The record: `python -m cuttle.stack.workloads ppo --size small --iterations 40`, without times and rates.
    """
    recorded = [json.loads(line) for line in (Path(__file__).parent / "h200_ppo.jsonl").read_text().splitlines()]
    found = metrics("ppo", len(recorded), tmp_path)
    assert [{name: row[name] for name in recorded[0]} for row in found] == recorded


def test_the_full_size_is_that_of_the_public_benchmark() -> None:
    assert (SIZES["full"].parameters, SIZES["full"].samples) == (2_216_347, 65_536)


def forwards(parameters: np.ndarray, widths: tuple[int, ...], seen: np.ndarray) -> np.ndarray:
    at, values = 0, seen
    for number, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        weights = parameters[at : at + before * after].reshape(before, after)
        at += before * after
        values = values @ weights + parameters[at : at + after]
        at += after
        if number < len(widths) - 2:
            values = np.maximum(values, 0)
    return values


def loss(parameters: np.ndarray, found: dict[str, np.ndarray], settings: PpoSettings) -> tuple[float, float, float]:
    """Policy loss, value loss, entropy of the batch, in double precision."""
    actors = sum((a + 1) * b for a, b in zip(settings.actor, settings.actor[1:], strict=False))
    seen, rows = found["seen"].reshape(settings.batch, settings.features), found["rows"]
    logits = forwards(parameters[:actors], settings.actor, seen)
    values = forwards(parameters[actors:], settings.critic, seen)[:, 0]
    logits = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    entropy = -(np.exp(log_probabilities) * log_probabilities).sum(axis=1).mean()
    advantages = found["advantages"]
    advantages = ((advantages - advantages.mean()) / (advantages.std() + 1e-8))[rows]
    own = log_probabilities[np.arange(settings.batch), found["actions"][rows]]
    ratio = np.exp(own - found["old"][rows])
    policy = -np.minimum(ratio * advantages, np.clip(ratio, 1 - settings.clip, 1 + settings.clip) * advantages).mean()
    return float(policy), float(((values - found["returns"][rows]) ** 2).mean()), float(entropy)


def test_gradient_and_advantages(tmp_path: Path) -> None:
    """Loss and advantages computed again, the gradient by differences, all in double precision."""
    settings, path = SIZES["small"], tmp_path / "found.npz"
    under_cuttle("tests.stack.gradients", str(path), cache=tmp_path / "cache")
    with np.load(path) as file:
        found = {name: file[name].astype(np.float64) if file[name].dtype == np.float32 else file[name] for name in file}
    told = found["told"].reshape(4, settings.batch).mean(axis=1)
    assert 0 < told[3] < 1, "some ratios are to be clipped"
    np.testing.assert_allclose(loss(found["parameters"], found, settings), told[:3], rtol=1e-4, atol=1e-6)
    assert sorted(set(found["rows"])) == sorted(found["rows"]), "a batch has no row twice"

    def whole(parameters: np.ndarray) -> float:
        policy, value, entropy = loss(parameters, found, settings)
        return policy + settings.value_weight * value - settings.entropy_weight * entropy

    generator = np.random.default_rng(5)
    chosen = generator.choice(settings.parameters, 60, replace=False)
    differences = []
    for place in chosen:
        step = np.zeros(settings.parameters)
        step[place] = 1e-6
        differences.append((whole(found["parameters"] + step) - whole(found["parameters"] - step)) / 2e-6)
    scale = np.abs(found["gradient"]).max()
    np.testing.assert_allclose(found["gradient"][chosen], differences, rtol=1e-3, atol=1e-4 * scale)

    shape = (settings.steps, settings.worlds)
    rewards, ended = found["rewards"].reshape(shape), found["ended"].reshape(shape)
    values = found["values"].reshape(settings.steps + 1, settings.worlds)
    advantage, right = np.zeros(settings.worlds), np.zeros(shape)
    for step in reversed(range(settings.steps)):
        goes_on = 1.0 - ended[step]
        error = rewards[step] + settings.discount * goes_on * values[step + 1] - values[step]
        advantage = error + settings.discount * settings.decay * goes_on * advantage
        right[step] = advantage
    np.testing.assert_allclose(found["advantages"].reshape(shape), right, rtol=1e-4, atol=1e-5)
    assert ended.sum() > 0


def test_kernels_are_what_their_sources_give() -> None:
    done = subprocess.run(
        [sys.executable, "tools/emit_stack_ptx.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_driver_library_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cuttle.stack.workloads", "gemm", "--library", "libnothing.so.1"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "libnothing.so.1" in done.stderr and "Traceback" not in done.stderr
