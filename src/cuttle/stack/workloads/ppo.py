"""The reference workload of `cuttle stack bench`: proximal policy optimisation, the whole of it on the device.

The full size has 2,216,347 parameters and 65,536 time steps per iteration, as the public benchmark that users compare
with; that one's layers are not published, so the widths here are ours: actor 226-1024-640-320-90, critic the same with one
output. The world is a small one (`kernels/ppo.c`), so that what is measured is the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from cuttle.stack.device_program import DeviceProgram, Stopwatch, offset
from cuttle.stack.workloads.network import MOMENT_BLOCKS, Adam, Network, find_moments, parameter_count

STATE = 6


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Sizes and rates. `worlds * steps` is a power of two, and a multiple of `batch`."""

    worlds: int = 1024
    steps: int = 64
    features: int = 226
    hidden: tuple[int, ...] = (1024, 640, 320)
    across: int = 10  # accelerations along x
    up: int = 9  # ... along y
    batch: int = 16384
    epochs: int = 1
    length: int = 48  # steps of an episode
    rate: float = 3e-4
    discount: float = 0.95
    decay: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.003
    value_weight: float = 0.5
    largest_norm: float = 1.0

    @property
    def samples(self) -> int:
        return self.worlds * self.steps

    @property
    def choices(self) -> int:
        return self.across * self.up

    @property
    def actor(self) -> tuple[int, ...]:
        return (self.features, *self.hidden, self.choices)

    @property
    def critic(self) -> tuple[int, ...]:
        return (self.features, *self.hidden, 1)

    @property
    def parameters(self) -> int:
        return parameter_count(self.actor) + parameter_count(self.critic)


SIZES = {
    "full": PpoSettings(),
    "small": PpoSettings(
        worlds=64, steps=32, features=24, hidden=(64, 32), across=3, up=3, batch=512, epochs=4, length=24, rate=1e-3
    ),
}


class Training:
    """Networks, worlds and buffers on a device."""

    def __init__(self, settings: PpoSettings, seed: int = 1, library: str = "") -> None:
        if settings.samples & (settings.samples - 1) or settings.samples % settings.batch:
            raise ValueError("worlds * steps must be a power of two and a multiple of batch")
        self.settings, self.seed = settings, seed
        self.program = program = DeviceProgram("matrix", "ppo", library=library)
        actors = parameter_count(settings.actor)
        self.parameters = program.floats(settings.parameters)
        self.gradient = program.floats(settings.parameters)
        rows = max(settings.batch, settings.worlds)
        self.actor = Network(program, settings.actor, rows, self.parameters, self.gradient)
        self.critic = Network(
            program, settings.critic, rows, offset(self.parameters, actors), offset(self.gradient, actors)
        )
        self.actor.begin(0, seed, 0.01)
        self.critic.begin(100, seed, 1.0)
        self._adam = Adam(program, self.parameters, self.gradient, settings.parameters)
        samples = settings.samples
        self._states = program.floats(settings.worlds * STATE)
        program.start_threads("begin_worlds", settings.worlds, self._states, settings.worlds, seed)
        self._seen = program.floats((samples + settings.worlds) * settings.features)
        self._values = program.floats(samples + settings.worlds)
        self._actions, self._ended = program.floats(samples), program.floats(samples)
        self._rewards, self._log_probabilities = program.floats(samples), program.floats(samples)
        self._advantages, self._returns = program.floats(samples), program.floats(samples)
        self._partial, self._moments = program.floats(2 * MOMENT_BLOCKS), program.floats(2)
        self._reward_moments = program.floats(2)
        self._batch_seen = program.floats(settings.batch * settings.features)
        self._batch_rows = program.floats(settings.batch)
        self._told = program.floats(4 * settings.batch)
        self._told_moments = program.floats(2 * 4)
        self._inference = Stopwatch(program)
        self._time = 0

    def collect(self) -> None:
        """Plays `steps` steps in every world."""
        settings, program = self.settings, self.program
        worlds = settings.worlds
        for step in range(settings.steps + 1):
            at = step * worlds
            seen = offset(self._seen, at * settings.features)
            program.start_threads("observe", worlds * settings.features, self._states, seen, worlds, settings.features)
            self._inference.mark()
            self.critic.forwards(seen, worlds)
            if step < settings.steps:
                self.actor.forwards(seen, worlds)
            self._inference.mark()
            program.call("cuMemcpyDtoDAsync_v2", offset(self._values, at), self.critic.output, 4 * worlds, None)
            if step == settings.steps:
                break
            program.start_threads(
                "choose", worlds, self.actor.output, offset(self._actions, at), offset(self._log_probabilities, at),
                worlds, settings.choices, self._time, self.seed,
            )  # fmt: skip
            program.start_threads(
                "step_worlds", worlds, self._states, offset(self._actions, at), offset(self._rewards, at),
                offset(self._ended, at), worlds, settings.across, settings.up, self._time, settings.length, self.seed,
            )  # fmt: skip
            self._time += 1

    def learn(self) -> None:
        """Advantages, then `epochs` times through all samples, shuffled, in batches."""
        settings, program = self.settings, self.program
        samples, batch = settings.samples, settings.batch
        program.start_threads(
            "find_advantages", settings.worlds, self._rewards, self._ended, self._values, self._advantages, self._returns,
            settings.worlds, settings.steps, settings.discount, settings.decay,
        )  # fmt: skip
        find_moments(program, self._rewards, samples, self._partial, self._reward_moments)
        find_moments(program, self._advantages, samples, self._partial, self._moments)
        for epoch in range(settings.epochs):
            for first in range(0, samples, batch):
                program.start_threads(
                    "gather", batch * settings.features, self._seen, self._batch_seen, self._batch_rows,
                    first, batch, settings.features, samples.bit_length() - 1, self._time * 64 + epoch,
                )  # fmt: skip
                self.find_gradient()
                self._adam.step(settings.rate, settings.largest_norm)

    def find_gradient(self) -> None:
        """The loss and its gradient by all parameters, for the batch that was gathered last."""
        settings, program = self.settings, self.program
        self.actor.forwards(self._batch_seen, settings.batch)
        self.critic.forwards(self._batch_seen, settings.batch)
        program.start_threads(
            "find_loss", settings.batch, self.actor.output, self.critic.output, self._batch_rows, self._actions,
            self._log_probabilities, self._advantages, self._returns, self._moments,
            self.actor.output_gradient, self.critic.output_gradient, self._told,
            settings.batch, settings.choices, settings.samples, settings.clip, settings.entropy_weight,
            settings.value_weight,
        )  # fmt: skip
        self.actor.backwards(self._batch_seen, settings.batch)
        self.critic.backwards(self._batch_seen, settings.batch)

    def iterate(self) -> Iterator[dict[str, float]]:
        """One iteration after the other: times, rates in steps per second, and how well it learns."""
        settings, program = self.settings, self.program
        while True:
            program.synchronize()
            began = perf_counter()
            self.collect()
            program.synchronize()
            collected = perf_counter()
            self.learn()
            program.synchronize()
            ended = perf_counter()
            inference = self._inference.take()
            for number in range(4):
                find_moments(
                    program, offset(self._told, number * settings.batch), settings.batch, self._partial,
                    offset(self._told_moments, 2 * number),
                )  # fmt: skip
            policy, value, entropy, clipped = (
                total / settings.batch for total in program.read_floats(self._told_moments, 8)[::2]
            )
            reward = program.read_floats(self._reward_moments, 1)[0] / settings.samples
            yield {
                "steps": settings.samples,
                "parameters": settings.parameters,
                "total_seconds": ended - began,
                "collection_seconds": collected - began,
                "inference_seconds": inference,
                "learning_seconds": ended - collected,
                "total_rate": settings.samples / (ended - began),
                "collection_rate": settings.samples / (collected - began),
                "inference_rate": settings.samples / inference,
                "learning_rate": settings.samples / (ended - collected),
                "reward": reward,
                "policy_loss": policy,
                "value_loss": value,
                "entropy": entropy,
                "clipped": clipped,
            }


def iterations(size: str, seed: int, library: str = "") -> Iterator[dict[str, float]]:
    """A training of that size from its beginning."""
    return Training(SIZES[size], seed, library).iterate()
