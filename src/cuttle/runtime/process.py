"""Start-up of the device process: from four descriptors to a Control page that says ready."""

from __future__ import annotations

import faulthandler
import os
from _thread import start_new_thread
from collections.abc import Callable
from errno import EFBIG
from importlib import import_module
from select import POLLRDHUP, poll
from time import sleep

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.abi.attributes import ATTRIBUTES
from cuttle.device.cpu.device import CpuDevice, available_cores, require_executor
from cuttle.device.shared import SharedMemory, allow_large_files
from cuttle.runtime import results
from cuttle.runtime.connection import NoConnection, open_connection
from cuttle.runtime.dispatcher import Dispatcher
from cuttle.runtime.memory import choose_budget
from cuttle.runtime.messages import say
from cuttle.runtime.session import Session

# Sparse; room for fragmentation and for reserved addresses without memory.
ARENA_EXTRA_BYTES = 256 << 30
_SMALLEST_ARENA_BYTES = 64 << 20
_LOW_END = 1 << 32  # addresses of 32-bit programs
# What the loop has to end by itself when the client is gone.
_GRACE_SECONDS = 0.3

_MULTIPROCESSORS = 16
_MAJOR, _MINOR = 75, 76
_SHARED_OPTIN, _SHARED_PER_MULTIPROCESSOR = 97, 81
_THREADS_PER_MULTIPROCESSOR = 39
_CLUSTER_LAUNCH = 120
_HOST_REGISTER = 99
_LDS_BYTES = 65536  # what a group has on an AMD GPU

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


def device_maker(name: str) -> Callable[[SharedMemory, int, int], CpuDevice]:
    """What makes the device that CUTTLE_DEVICE names. Other devices are imported only when they are asked for.

    Raises CuttleError if there is no such device here, or nothing that could run its kernels."""
    if name == "cpu":
        require_executor()
        return CpuDevice
    kind, _, which = name.partition(":")
    make: Callable[[SharedMemory, int, int], CpuDevice] = import_module(f"cuttle.device.{kind}.device").choose(which)
    return make


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
    name = (session.device.title or f"Cuttle CPU ({workers} thread{'s' * (workers > 1)})").encode()[:250]
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


def _end_with_client(socket: int) -> None:
    """Ends this process when the client is gone, whatever it is doing: a long parse, a wait for a child.

    The loop normally sees the end of the socket itself and tidies up; it gets a moment for that. Children follow by
    themselves: they asked the kernel to be killed with us.
    """

    def watch() -> None:
        poller = poll()
        poller.register(socket, POLLRDHUP)
        poller.poll()
        sleep(_GRACE_SECONDS)
        os._exit(0)

    try:
        start_new_thread(watch, ())
    except RuntimeError:
        pass  # no more threads to be had: then the loop alone looks


def _write_end(shared: SharedMemory, reason: str) -> None:
    """The client shows this when it finds us gone."""
    data = reason.encode("utf-8", "replace")[:250]
    at = wire.STATUS_END_TEXT_AT
    shared.status.bytes[at : at + len(data) + 1] = data + b"\0"


def _refuse(shared: SharedMemory, socket: int, result: int, reason: str) -> int:
    say(reason)
    _say_ready(shared, socket, result)
    return 1


def _open_arena(shared: SharedMemory, budget: int) -> int:
    """Makes the arena, smaller where the address space is limited (`ulimit -v`); returns the budget that it allows."""
    most = shared.control.u64[wire.CONTROL_ARENA_BYTES_AT // 8] or 1 << 47  # what the client could reserve
    extra = ARENA_EXTRA_BYTES
    while True:
        size = min(extra + 2 * budget, most)
        try:
            shared.open_arena(size)
            if shared.arena_base + size <= _LOW_END:
                return min(budget, size - size // 8)  # a 32-bit program: nothing to spare
            return min(budget, size // 2)
        except OSError:
            if size <= _SMALLEST_ARENA_BYTES:
                raise
        extra //= 8
        if extra < 1 << 30:
            extra, budget = 0, max(budget // 2, _SMALLEST_ARENA_BYTES // 2)


def main(arguments: list[str]) -> int:
    faulthandler.enable(2)
    try:
        connection = open_connection(arguments, os.environ)
    except NoConnection as error:
        say(str(error))
        return 1
    socket = connection.socket
    os.set_blocking(socket, False)
    shared = SharedMemory(connection.control, connection.status, connection.arena)
    if shared.control.u32[wire.CONTROL_VERSION_AT // 4] != wire.PROTOCOL_VERSION:
        reason = "the client library and the device process are of different versions"
        return _refuse(shared, socket, results.SYSTEM_NOT_READY, reason)
    _end_with_client(socket)
    try:
        knobs.check_all()  # also those that are read later, or by the client, which says nothing about a bad value
        workers = knobs.THREADS.whole() or available_cores()
        capability = knobs.COMPUTE_CAPABILITY.version()
        budget = choose_budget(knobs.MEMORY.whole())
        timeout_ms = -int(-knobs.TIMEOUT.seconds() * 1000 // 1)  # rounded up: 0 is no limit
        make_device = device_maker(knobs.DEVICE.choice())
    except knobs.KnobError as error:
        from cuttle.errors import DeviceError

        name = str(error).partition("=")[0]
        refusal = DeviceError("CLI-0104", str(error), hint=f"`cuttle explain {name}`")
        return _refuse(shared, socket, results.INVALID_VALUE, refusal.render())
    except Exception as error:
        if not hasattr(error, "render"):
            raise
        return _refuse(shared, socket, results.NO_DEVICE, error.render())
    try:
        try:
            budget = _open_arena(shared, budget)
            device = make_device(shared, workers, timeout_ms)
        except OSError as error:
            if error.errno != EFBIG:
                raise
            before = allow_large_files()
            budget = _open_arena(shared, budget)
            device = make_device(shared, workers, timeout_ms)
            allow_large_files(before)
    except OSError as error:
        reason = f"device memory cannot be made: {error.strerror}\n  hint: look at `ulimit -a`: limits on file size and memory"
        return _refuse(shared, socket, results.OUT_OF_MEMORY, reason)
    attributes = attribute_values(workers, capability)
    if device.memory_bytes:
        budget = min(budget, device.memory_bytes)
    if connection.remote:
        attributes[_HOST_REGISTER] = 0  # no part of an allocation of Windows can be given to something else
    if device.code_options:
        attributes[_SHARED_OPTIN] = attributes[_SHARED_PER_MULTIPROCESSOR] = _LDS_BYTES
        attributes[_CLUSTER_LAUNCH] = 0
    session = Session(shared, device, budget, capability, workers, attributes[_SHARED_OPTIN])
    # The libraries are above the runtime in the house: they are found by name.
    table = import_module("cuttle.libs.cuda.requests")
    dispatcher = Dispatcher(session, socket, table.find_handler)
    _write_control(shared, session, attributes)
    _say_ready(shared, socket, 0)
    try:
        dispatcher.run(_import_for_modules)
        _write_end(shared, "the program closed its connection")
    except BaseException as error:
        import traceback

        _write_end(shared, f"{type(error).__name__}: {error}")
        say(traceback.format_exc())
        return 1
    finally:
        session.close()
    return 0
