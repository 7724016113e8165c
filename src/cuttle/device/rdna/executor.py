"""The executor of the emulated GPU: runs the jobs of `device/job_loop.py` on the arena itself."""

from __future__ import annotations

import time
from struct import unpack_from

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.device.amdgpu_launch import (
    OUTPUT_AREA_BYTES,
    STRING_LIMIT,
    WORKSPACE_BYTES,
    Image,
    Launch,
    fresh_heap,
    fresh_output,
    kernel_arguments,
    read_launch,
    read_load,
)
from cuttle.device.arena_jobs import ArenaJobs
from cuttle.device.device_output import OUTPUT_BYTES, read_fault, read_records
from cuttle.device.job_loop import (
    DEADLOCK,
    ILLEGAL_ADDRESS,
    ILLEGAL_INSTRUCTION,
    LOAD_FAILED,
    TIME_OUT,
    TRAP,
    Fault,
    serve,
)
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.errors import IllegalAddress, IllegalInstruction, LaunchError, MissingWait, NoProgress, Trap
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import Program, load
from cuttle.errors import CuttleError


class Executor(ArenaJobs):
    """Jobs on the emulator's memory, of which the arena is one region."""

    def __init__(self, status: int, arena: int, jobs: int, socket: int) -> None:
        super().__init__(status, arena, jobs, socket)
        self._memory = Memory()
        self._memory.map(self.arena_base, self.arena)
        self._memory.give_out(self.arena_base, lambda: self.jobs.u64[wire.JOBS_ARENA_USED_AT // 8])
        self._images: dict[int, tuple[Image, Program]] = {}
        self._output = self._memory.allocate(OUTPUT_BYTES + OUTPUT_AREA_BYTES, 0)
        self._workspace = self._memory.allocate(WORKSPACE_BYTES, 0)
        self._grid_id = 0
        self._heap_base = 0

    # -- images and launches -----------------------------------------------------------------------------------------

    def load(self, at: int) -> None:
        number, image, code = read_load(self.jobs.bytes, at)
        try:
            self._images[number] = image, load(CodeObject.parse(code), self._memory)
        except CuttleError as error:
            raise Fault(LOAD_FAILED, f"{type(error).__name__}: {error}") from None

    def unload(self, at: int) -> None:
        found = self._images.pop(unpack_from("<I", self.jobs.bytes, at + 16)[0], None)
        if found is not None:
            found[1].unload()

    def launch(self, at: int) -> None:
        launch = read_launch(self.jobs.bytes, at)
        if launch.image not in self._images:
            raise Fault(LOAD_FAILED, "a launch names an image that is not loaded")
        image, program = self._images[launch.image]
        if launch.empty:
            return
        self.running = launch.image, image.name
        self._grid_id += 1
        if launch.cooperative:
            self._memory.write(self._workspace, bytes(WORKSPACE_BYTES))
        self._memory.write(self._output, fresh_output())
        symbols = self._memory.read(image.symbols, 8 * image.symbol_count) if image.symbol_count else b""
        arguments = kernel_arguments(
            image, launch, symbols, grid_id=self._grid_id, workspace=self._workspace, output=self._output, heap=self._heap()
        )  # fmt: skip
        self._execute(image, program, arguments, launch)
        self.running = None

    def _execute(self, image: Image, program: Program, arguments: bytes, launch: Launch) -> None:
        timeout_ms = self.timeout_ms
        end = time.monotonic() + timeout_ms / 1000 if timeout_ms else 0.0
        late = False

        def interrupted() -> bool:
            nonlocal late
            late = bool(end) and time.monotonic() > end
            return late

        try:
            program.run(
                image.name, arguments, launch.grid, launch.block, dynamic_lds_bytes=launch.dynamic_bytes,
                resident=launch.cooperative, interrupted=interrupted, stack_bytes=self.stack_bytes,
                schedule=knobs.RDNA_SCHEDULE.text(), check_waits=knobs.RDNA_CHECK_WAITS.switch(),
            )  # fmt: skip
        except NoProgress as error:
            if late:
                raise Fault(TIME_OUT, f"a kernel ran for more than {timeout_ms} ms (CUTTLE_TIMEOUT)") from None
            raise Fault(DEADLOCK, _line(error)) from None
        except IllegalAddress as error:
            raise Fault(ILLEGAL_ADDRESS, _line(error)) from None
        except Trap as error:
            raise Fault(TRAP, _line(error)) from None
        except (IllegalInstruction, MissingWait) as error:
            raise Fault(ILLEGAL_INSTRUCTION, _line(error)) from None
        except LaunchError as error:
            raise Fault(LOAD_FAILED, _line(error)) from None
        finally:
            self._drain(launch)
        kind, line, where, thread = read_fault(self._memory.read(self._output, OUTPUT_BYTES))
        if kind:
            name = wire.FAULTS[kind][0] if kind in wire.FAULTS else "fault"
            raise Fault(kind, f"{name} at PTX line {line}" if line else name, where, thread)

    def _heap(self) -> int:
        """The heap of device malloc, made ready at its first launch; 0 if there is none."""
        base, size = self.heap
        header = fresh_heap(base, size)
        if not header:
            return 0
        if self._heap_base != base:
            self._heap_base = base
            self._memory.write(base, header)
        return base

    # -- text --------------------------------------------------------------------------------------------------------

    def _drain(self, launch: Launch) -> None:
        capacity, cursor = unpack_from("<QQ", self._memory.read(self._output, 16))
        used = min(capacity, cursor, OUTPUT_AREA_BYTES)
        if not used:
            return
        area = self._memory.read(self._output + OUTPUT_BYTES, used)
        for channel, text in read_records(area, launch.block, self._string_at):
            self.write_text(channel, text)
        self._memory.write(self._output + OUTPUT_BYTES, bytes(used))

    def _string_at(self, address: int) -> bytes:
        """A string of the device, up to its end or the end of what can be read."""
        try:
            region = self._memory.region_at(address)
        except IllegalAddress:
            return b"(bad address)"
        start = address - region.base
        return bytes(region.bytes[start : start + STRING_LIMIT]).split(b"\0", 1)[0]


def _line(error: CuttleError) -> str:
    return f"{error.message}, {error.where}"


def main(arguments: list[str]) -> None:
    serve(Executor, arguments, "the emulator")
