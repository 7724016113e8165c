"""Every environment variable of Cuttle, as frozen typed rows, read in one place.

Plain slotted classes instead of dataclasses: the device process imports this on its way to readiness, and `dataclasses`
alone costs a third of its start-up time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_ON, _OFF = ("1", "yes", "on", "true"), ("0", "no", "off", "false")
_MOST_SECONDS = 4_000_000  # milliseconds travel in 32 bits
_MOST_MAJOR = 20  # of a version: `86` is a slip for `8.6`, and would be believed


class KnobError(ValueError):
    """A knob has a value that it cannot have."""


class Knob:
    """One environment variable: its name, its kind, its default, and what it means.

    `kind`: `text`, `path`, `whole` (a whole number), `bytes` (a whole number with an optional suffix k, m, g, t), `seconds`,
    `switch` (0 or 1), `version` (`8.0`), `choice` (one of `choices`; `name:N` stands for a name and any number).
    """

    __slots__ = ("choices", "default", "kind", "meaning", "name")

    def __init__(self, name: str, kind: str, default: str, meaning: str, choices: tuple[str, ...] = ()) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "default", default)
        object.__setattr__(self, "meaning", meaning)
        object.__setattr__(self, "choices", choices)

    name: str
    kind: str
    default: str
    meaning: str
    choices: tuple[str, ...]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"knob rows are frozen: {name}")

    def text(self, environment: Mapping[str, str] | None = None) -> str:
        """The value as written, or the default."""
        value = (os.environ if environment is None else environment).get(self.name, "")
        return value if value else self.default

    def _refuse(self, value: str, wanted: str) -> KnobError:
        return KnobError(f"{self.name}={value}: {wanted} expected ({self.meaning})")

    def whole(self, environment: Mapping[str, str] | None = None) -> int:
        """A whole number; of `bytes` knobs with the suffix applied. 0 if empty."""
        value = self.text(environment).strip().lower()
        if not value:
            return 0
        digits = value.removesuffix("b").removesuffix("i") if self.kind == "bytes" else value
        unit = ""
        if self.kind == "bytes" and digits and digits[-1] in _UNITS:
            digits, unit = digits[:-1], digits[-1]
        try:
            number = float(digits) if "." in digits and unit else int(digits)
        except ValueError:
            raise self._refuse(value, "a whole number") from None
        if number < 0:
            raise self._refuse(value, "a number that is not negative")
        return int(number * _UNITS[unit])

    def seconds(self, environment: Mapping[str, str] | None = None) -> float:
        """A time in seconds; 0 if empty."""
        value = self.text(environment).strip()
        try:
            time = float(value) if value else 0.0
        except ValueError:
            time = -1.0
        if not 0 <= time <= _MOST_SECONDS:  # neither is `nan`
            raise self._refuse(value, f"a time in seconds, up to {_MOST_SECONDS:,},")
        return time

    def switch(self, environment: Mapping[str, str] | None = None) -> bool:
        """Whether it is on."""
        value = self.text(environment).strip().lower()
        if value not in _ON and value not in _OFF:
            raise self._refuse(value, "0 or 1")
        return value in _ON

    def version(self, environment: Mapping[str, str] | None = None) -> tuple[int, int]:
        """A version of two numbers."""
        value = self.text(environment).strip()
        major, _, minor = value.partition(".")
        digits = major + minor
        if not (major and digits.isascii() and digits.isdigit() and 0 < int(major) <= _MOST_MAJOR and int(minor or 0) < 10):
            raise self._refuse(value, "a version such as 8.0")
        return int(major), int(minor or 0)

    def choice(self, environment: Mapping[str, str] | None = None) -> str:
        """One of the choices."""
        value = self.text(environment).strip()
        head, colon, number = value.partition(":")
        numbered = number.isascii() and number.isdigit() and f"{head}:N" in self.choices
        if not numbered and (value not in self.choices or value.endswith(":N")):
            raise self._refuse(value, " or ".join(self.choices))
        return value

    def check(self, environment: Mapping[str, str] | None = None) -> None:
        """Raises KnobError if it has a value that it cannot have."""
        if self.kind in ("whole", "bytes"):
            self.whole(environment)
        elif self.kind == "seconds":
            self.seconds(environment)
        elif self.kind == "switch":
            self.switch(environment)
        elif self.kind == "version":
            self.version(environment)
        elif self.kind == "choice":
            self.choice(environment)


PYTHON = Knob("CUTTLE_PYTHON", "path", "python3", "interpreter that the client library starts the device process with")
THREADS = Knob("CUTTLE_THREADS", "whole", "", "worker threads that run kernels; empty: as many as there are cores")
MEMORY = Knob("CUTTLE_MEMORY", "bytes", "", "device memory, such as 4g; empty: 60 % of what the machine has to give")
COMPUTE_CAPABILITY = Knob("CUTTLE_COMPUTE_CAPABILITY", "version", "8.0", "compute capability that programs see")
DRIVER_VERSION = Knob(
    "CUTTLE_DRIVER_VERSION", "version", "13.0",
    "CUDA version of the driver that programs see; some compile to machine code, not PTX, for a driver older than their compiler",
)  # fmt: skip
TIMEOUT = Knob("CUTTLE_TIMEOUT", "seconds", "", "longest time one kernel may run; empty: no limit")
CACHE_DIR = Knob("CUTTLE_CACHE_DIR", "path", "", "folder of compiled kernels; empty: the platform's cache folder")
CACHE_BYTES = Knob("CUTTLE_CACHE_BYTES", "bytes", "2g", "size of that folder at which the oldest entries are removed")
CACHE = Knob("CUTTLE_CACHE", "switch", "1", "0: compiled kernels are not kept on disk")
COMPILE_WORKERS = Knob("CUTTLE_COMPILE_WORKERS", "whole", "", "processes that compile kernels; empty: chosen by cores")
COMPILE_TIMEOUT = Knob(
    "CUTTLE_COMPILE_TIMEOUT", "seconds", "600", "longest time the compilation of one kernel may take"
)
TIERS = Knob(
    "CUTTLE_TIERS", "choice", "both",
    "both: kernels start with quickly compiled code and go on with optimised code when that is ready; fast or optimised: one only",
    ("both", "fast", "optimised"),
)  # fmt: skip
AFFINE = Knob("CUTTLE_AFFINE", "switch", "1", "0: kernels are compiled without proofs about indices (slower)")
PLAIN = Knob("CUTTLE_PLAIN", "switch", "0", "1: kernels take the plain leg, a second way of compiling that is slow and obviously right, to find out who is wrong")
EXACT_NAN = Knob("CUTTLE_EXACT_NAN", "switch", "1", "0: NaN results may have other bits than NVIDIA's")
FAST_MATH = Knob(
    "CUTTLE_FAST_MATH", "switch", "0", "1: `.approx` f32 instructions and f16 `mma` keep PTX's error bounds, not NVIDIA's bits (faster)"
)
SPECIALISE = Knob("CUTTLE_SPECIALISE", "switch", "1", "0: kernels are compiled for any block shape, once")
EXECUTOR = Knob("CUTTLE_EXECUTOR", "path", "", "executor program; empty: the one beside the client library")
DEVICE = Knob(
    "CUTTLE_DEVICE", "choice", "cpu",
    "device to run on; hip: the first AMD GPU that AMD's HIP library sees and Cuttle supports, hip:N: its GPU N; rdna: an emulated AMD GPU "
    "(both need NumPy: `pip install numpy`)",
    ("cpu", "hip", "hip:N", "rdna:gfx1100", "rdna:gfx1200"),
)  # fmt: skip
HIP_LIBRARY = Knob("CUTTLE_HIP_LIBRARY", "path", "", "AMD's HIP library (libamdhip64.so.N, amdhip64_N.dll); empty: searched for")
RDNA_SCHEDULE = Knob(
    "CUTTLE_RDNA_SCHEDULE", "choice", "lockstep", "order of waves on an emulated GPU; random:N: by chance, N is the seed",
    ("lockstep", "serial", "reverse", "random:N"),
)  # fmt: skip
RDNA_CHECK_WAITS = Knob("CUTTLE_RDNA_CHECK_WAITS", "switch", "0", "1: emulated GPUs report missing waits for memory")
TRACE = Knob("CUTTLE_TRACE", "switch", "0", "1: say on stderr what the program asks for that is not supported")
STACK_DIR = Knob(
    "CUTTLE_STACK_DIR", "path", "", "folder of what `cuttle stack` installs; empty: the platform's folder for data of programs"
)
PRINTF_FIFO = Knob(
    "CUTTLE_PRINTF_FIFO", "bytes", "8m", "room for device printf between two synchronisations, at most 8m"
)
LAUNCH_BLOCKING = Knob(
    "CUDA_LAUNCH_BLOCKING", "switch", "0", "1: every launch waits for its kernel (NVIDIA's variable)"
)

KNOBS: tuple[Knob, ...] = (
    PYTHON, THREADS, MEMORY, COMPUTE_CAPABILITY, DRIVER_VERSION, TIMEOUT, CACHE_DIR, CACHE_BYTES, CACHE, COMPILE_WORKERS, COMPILE_TIMEOUT,
    TIERS, AFFINE, PLAIN, EXACT_NAN, FAST_MATH, SPECIALISE, EXECUTOR, DEVICE, HIP_LIBRARY, RDNA_SCHEDULE, RDNA_CHECK_WAITS, TRACE, STACK_DIR, PRINTF_FIFO, LAUNCH_BLOCKING,
)  # fmt: skip


def check_all(environment: Mapping[str, str] | None = None) -> None:
    """Raises KnobError for the first variable of ours that has a value it cannot have: at a start, not when it is first needed."""
    variables = os.environ if environment is None else environment
    for row in KNOBS:
        if row.name.startswith("CUTTLE_") and row.name in variables:
            row.check(variables)
