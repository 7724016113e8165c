"""Start-up of the device process: from four descriptors to a Control page that says ready."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.abi.attributes import ATTRIBUTES
from cuttle.device.cpu.device import CpuDevice, available_cores
from cuttle.device.shared import SharedMemory
from cuttle.runtime import results
from cuttle.runtime.dispatcher import Dispatcher
from cuttle.runtime.memory import choose_budget
from cuttle.runtime.session import Session

# Sparse; room for fragmentation and for reserved addresses without memory.
ARENA_EXTRA_BYTES = 256 << 30

_MULTIPROCESSORS = 16
_MAJOR, _MINOR = 75, 76
_SHARED_OPTIN, _SHARED_PER_MULTIPROCESSOR = 97, 81
_THREADS_PER_MULTIPROCESSOR = 39
_CLUSTER_LAUNCH = 120

# Shared memory per block that a kernel may ask for, by compute capability (CUDA C++ Programming Guide, table of technical
# specifications); one block's 1 KiB of reserve is the difference to what a multiprocessor has.
_OPTIN_KIB = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99, (9, 0): 227, (10, 0): 227}


def attribute_values(workers: int, capability: tuple[int, int]) -> dict[int, int]:
    """All device attributes of this machine, by number."""
    values = {number: value for number, value in ATTRIBUTES.items() if value is not None}
    values[_MULTIPROCESSORS] = workers
    values[_MAJOR], values[_MINOR] = capability
    optin = _OPTIN_KIB.get(capability, 99 if capability >= (12, 0) else 227 if capability >= (9, 0) else 48) << 10
    values[_SHARED_OPTIN] = optin
    values[_SHARED_PER_MULTIPROCESSOR] = optin + 1024
    if capability in ((8, 6), (8, 9)) or capability >= (12, 0):
        values[_THREADS_PER_MULTIPROCESSOR] = 1536
    values[_CLUSTER_LAUNCH] = 1 if capability >= (9, 0) else 0
    return values


def _write_control(shared: SharedMemory, session: Session, attributes: dict[int, int]) -> None:
    control = shared.control
    workers, capability = session.worker_count, session.capability
    control.u32[wire.CONTROL_DEVICE_PID_AT // 4] = os.getpid()
    control.u64[wire.CONTROL_ARENA_BYTES_AT // 8] = shared.arena_bytes
    control.u64[wire.CONTROL_BUDGET_BYTES_AT // 8] = session.budget
    control.u32[wire.CONTROL_DEVICE_COUNT_AT // 4] = 1
    # The same on every start: programs compare it, and the CUDA runtime hashes it.
    uuid = b"Cuttle CPU dev 0"
    control.bytes[wire.CONTROL_UUID_AT : wire.CONTROL_UUID_AT + 16] = uuid
    name = f"Cuttle CPU ({workers} thread{'s' * (workers > 1)})".encode()
    control.bytes[wire.CONTROL_DEVICE_NAME_AT : wire.CONTROL_DEVICE_NAME_AT + len(name)] = name
    control.u32[wire.CONTROL_COMPUTE_MAJOR_AT // 4], control.u32[wire.CONTROL_COMPUTE_MINOR_AT // 4] = capability
    for number, value in attributes.items():
        if number < wire.ATTRIBUTE_COUNT:
            control.u32[wire.ATTRIBUTES_AT // 4 + number] = value & 0xFFFF_FFFF
    fifo = min(knobs.PRINTF_FIFO.whole() or wire.TEXT_FIFO_BYTES, wire.TEXT_FIFO_BYTES)
    shared.status.u64[wire.STATUS_TEXT_LIMIT_AT // 8] = fifo


def _say_ready(shared: SharedMemory, socket: int, error: int) -> None:
    shared.control.u32[wire.CONTROL_READY_ERROR_AT // 4] = error
    shared.control.u32[wire.CONTROL_MAGIC_AT // 4] = wire.READY_MAGIC
    try:
        os.write(socket, b"r")
    except OSError:
        pass


def _import_for_modules() -> None:
    """The first thing most programs do next is to load a module: have what that needs."""
    for name in ("cuttle.runtime.modules", "cuttle.runtime.kernels", "cuttle.ptx.parser", "cuttle.libs.cuda.module"):
        import_module(name)


def main(arguments: list[str]) -> int:
    socket, control, status, arena = (int(text) for text in arguments[1:5])
    for descriptor in (socket, control, status, arena):
        os.set_inheritable(descriptor, False)
    os.set_blocking(socket, False)
    shared = SharedMemory(control, status, arena)
    if shared.control.u32[wire.CONTROL_VERSION_AT // 4] != wire.PROTOCOL_VERSION:
        sys.stderr.write("cuttle: the client library and the device process are of different versions\n")
        _say_ready(shared, socket, results.SYSTEM_NOT_READY)
        return 1
    try:
        workers = knobs.THREADS.whole() or available_cores()
        capability = knobs.COMPUTE_CAPABILITY.version()
        budget = choose_budget(knobs.MEMORY.whole())
        timeout_ms = int(knobs.TIMEOUT.seconds() * 1000)
    except knobs.KnobError as error:
        sys.stderr.write(f"cuttle: {error}\n")
        _say_ready(shared, socket, results.INVALID_VALUE)
        return 1
    shared.open_arena(ARENA_EXTRA_BYTES + 2 * budget)
    device = CpuDevice(shared, workers, timeout_ms)
    attributes = attribute_values(workers, capability)
    session = Session(shared, device, budget, capability, workers, attributes[_SHARED_OPTIN])
    # The libraries are above the runtime in the house: they are found by name.
    table = import_module("cuttle.libs.cuda.requests")
    dispatcher = Dispatcher(session, socket, table.find_handler)
    _write_control(shared, session, attributes)
    _say_ready(shared, socket, 0)
    try:
        dispatcher.run(_import_for_modules)
    finally:
        session.close()
    return 0
