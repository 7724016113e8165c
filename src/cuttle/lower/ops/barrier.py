"""Barriers, fences, scheduling hints (PTX ISA 9.0, 9.7.13.1 to 9.7.13.4, 9.7.19)."""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.ptx.ir import Instruction

CLUSTER_BARRIER = 16  # a number that no barrier of a block has
_SCOPES = ("cta", "cluster", "gpu", "sys")


def bar(machine: Machine, instruction: Instruction, barrier_number: Value, *rest: Value) -> Value | None:
    """`bar.sync`, `bar.arrive`, `bar.red`. 9.7.13.1."""
    if not instruction.has("red"):
        kind = "arrive" if instruction.has("arrive") else "sync"
        return machine.barrier(kind, barrier_number, rest[0] if rest else None)
    kind = "red." + next(name for name in ("popc", "and", "or") if instruction.has(name))
    threads = rest[0] if len(rest) == 2 else None
    return machine.barrier(kind, barrier_number, threads, rest[-1])


def barrier(machine: Machine, instruction: Instruction, barrier_number: Value, *rest: Value) -> Value | None:
    """`barrier`: as `bar`, also where a warp is divergent. 9.7.13.1."""
    return bar(machine, instruction, barrier_number, *rest)


def barrier_cluster(machine: Machine, instruction: Instruction) -> None:
    """`barrier.cluster.arrive`, `.wait`: the barrier of all threads of a cluster. 9.7.13.3."""
    kind = "cluster.arrive" if instruction.has("arrive") else "cluster.wait"
    machine.barrier(kind, machine.emitter.const("i32", CLUSTER_BARRIER), None)


def bar_warp_sync(machine: Machine, instruction: Instruction, member_mask: Value) -> None:
    """`bar.warp.sync`. 9.7.13.2."""
    machine.warp_sync(member_mask)


def membar(machine: Machine, instruction: Instruction) -> None:
    """`membar`: `fence.sc` at the scope. 9.7.13.4."""
    scope = "cta" if instruction.has("cta") else "sys" if instruction.has("sys") else "gpu"
    machine.fence(scope, "sc")


def fence(machine: Machine, instruction: Instruction, *operands: Any) -> None:
    """`fence`: `.sc` or `.acq_rel` at a scope; the other proxies see memory as the generic one does. 9.7.13.4."""
    scope = next((name for name in _SCOPES if instruction.has(name)), "sys")
    machine.fence(scope, "sc" if instruction.has("sc") else "acq_rel")


def griddepcontrol(machine: Machine, instruction: Instruction) -> None:
    """`griddepcontrol`: grids of a stream do not overlap here. 9.7.13.13."""


def nanosleep(machine: Machine, instruction: Instruction, duration: Value) -> None:
    """`nanosleep`. 9.7.19.2."""
    machine.service("nanosleep", [machine.emitter.resize(duration, 64)])


def pmevent(machine: Machine, instruction: Instruction, event: Any) -> None:
    """`pmevent`: no performance monitors. 9.7.19.3."""


def setmaxnreg(machine: Machine, instruction: Instruction, count: Any) -> None:
    """`setmaxnreg`: registers are not limited. 9.7.19.5."""
