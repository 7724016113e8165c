"""The loop of a worker process: one JSON object per line in, one out.

The measured code runs in processes of its own, one per contender, which live through the whole run and take turns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from cuttle.bench.problems import BY_NAME, Arrays, Case


class Absent(Exception):
    """This contender cannot run this kernel; the text says why."""


class Backend(Protocol):
    """What a contender has to do. `load` prepares the arrays, `compile` the kernel; the others refer to them."""

    def describe(self) -> str: ...

    def load(self, case: Case) -> None: ...

    def compile(self, kernel: str) -> None: ...

    def reset(self) -> None:
        """Brings the outputs back to their first contents."""

    def run(self, launches: int) -> None:
        """Launches that often and waits for the end."""

    def outputs(self) -> Arrays: ...

    def unload(self) -> None: ...


def serve(make: Callable[[], Backend]) -> None:
    """Answers requests until the input ends. Whatever a runtime prints goes to stderr."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    state: dict[str, Any] = {}
    for line in sys.stdin:
        try:
            reply = _answer(state, make, json.loads(line))
        except Absent as absent:
            reply = {"absent": str(absent)}
        except Exception as error:  # a runtime may raise anything; the harness reports it and goes on
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _answer(state: dict[str, Any], make: Callable[[], Backend], request: dict[str, Any]) -> dict[str, Any]:
    if "backend" not in state:
        state["backend"] = make()
    backend: Backend = state["backend"]
    match request["do"]:
        case "describe":
            return {"text": backend.describe()}
        case "load":
            case_ = BY_NAME[request["problem"]].make(request["small"])
            state["case"] = case_
            backend.load(case_)
            started = time.perf_counter_ns()
            backend.compile(request["problem"])
            backend.run(1)
            return {"first_ns": time.perf_counter_ns() - started}
        case "check":
            backend.reset()
            backend.run(1)
            return {"wrong": state["case"].check(backend.outputs())}
        case "time":
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            backend.run(request["launches"])
            return {"cpu_ns": time.process_time_ns() - cpu, "wall_ns": time.perf_counter_ns() - wall}
        case "unload":
            backend.unload()
            return {}
    raise ValueError(f"no request {request['do']}")
