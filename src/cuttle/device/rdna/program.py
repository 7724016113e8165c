"""Loading a code object and running its kernels: `load(code, memory).run(...)`. The interface: docs/design/rdna_emulator.md."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.code_object import CodeObject, Kernel, place
from cuttle.device.rdna.compile import compile_instruction
from cuttle.device.rdna.decode import Decoder, Instruction
from cuttle.device.rdna.disassemble import disassemble
from cuttle.device.rdna.errors import IllegalAddress, IllegalInstruction, LaunchError, NoProgress, RdnaFault
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program_control import STOP
from cuttle.device.rdna.schedule import Scheduler, open_barriers
from cuttle.device.rdna.semantics import OPERATIONS, Run
from cuttle.device.rdna.waits import WaitChecker
from cuttle.device.rdna.waves import LANES, PRIVATE_APERTURE, SHARED_APERTURE, Shape, View, Waves

Array = NDArray[Any]
LDS_LIMIT = 65536
GROUP_LIMIT = 1024
_BATCH_WAVES = 512
_SLICE = 1 << 14  # instructions between looks at `interrupted`
_BATCH_BYTES = 256 << 20
_TTMP7, _TTMP8, _TTMP9 = 115, 116, 117
POISON = 0xBADBADBADBADBAD0  # hidden arguments that nobody supplied: an address that faults


@dataclass(slots=True)
class Report:
    """What a launch executed. `mnemonics` counts executions by a set of waves, `lane_instructions` those of single lanes."""

    instructions: int = 0
    lane_instructions: int = 0
    mnemonics: Counter[str] = field(default_factory=Counter)

    @property
    def approximate(self) -> int:
        """Executions of instructions whose last bit hardware does not share."""
        return sum(n for name, n in self.mnemonics.items() if name in OPERATIONS and OPERATIONS[name].approximate)


class _Step:
    """A compiled instruction and where to go on."""

    __slots__ = ("count", "instruction", "lanes", "next", "run")

    def __init__(self, instruction: Instruction, run: Run) -> None:
        self.instruction = instruction
        self.run = run
        self.next = instruction.address + instruction.size
        self.count = 0
        self.lanes = 0


class Program:
    """A code object in memory. Instructions are decoded when they are first reached."""

    def __init__(self, code: CodeObject, memory: Memory) -> None:
        self.code = code
        self.memory = memory
        self.base, self._segments = place(code, memory)
        self._decoder = Decoder(code.family)
        self._steps: dict[tuple[int, bool], _Step] = {}

    def unload(self) -> None:
        """Takes the image out of memory."""
        for address in self._segments:
            self.memory.unmap(address)
        self._steps.clear()

    def symbol(self, name: str) -> tuple[int, int]:
        """Address and size of a symbol, KeyError if there is none."""
        address, size = self.code.symbols[name]
        return self.base + address, size

    def run(
        self, name: str, kernarg: bytes, grid: tuple[int, int, int], block: tuple[int, int, int], *,
        dynamic_lds_bytes: int = 0, stack_bytes: int = 4096, hidden: Mapping[str, int] | None = None,
        schedule: str = "lockstep", check_waits: bool = False, instruction_limit: int = 1 << 40, resident: bool = False,
        interrupted: Callable[[], bool] | None = None
    ) -> Report:  # fmt: skip
        """Runs a kernel to its end. `grid`: groups, `block`: work-items of one; `kernarg`: the explicit arguments;
        `stack_bytes`: scratch a lane beyond the fixed part, for kernels with a dynamic stack; `resident`: all groups at once (cooperative launches);
        `interrupted`: asked now and then, ends the kernel. Raises LaunchError and RdnaFault."""
        kernel = self.code.kernels.get(name)
        if kernel is None:
            raise LaunchError(f"no kernel {name!r} in the code object")
        launch = _Launch(self, kernel, kernarg, grid, block, dynamic_lds_bytes, stack_bytes, hidden or {})
        machine = _Machine(self, kernel, Scheduler(schedule), check_waits, instruction_limit, interrupted)
        try:
            groups = launch.group_count
            batch = groups if resident else launch.groups_per_batch
            with np.errstate(all="ignore"):
                for first in range(0, groups, batch):
                    machine.run(launch.start_waves(first, min(batch, groups - first)), launch.entry)
        finally:
            launch.release()
        return machine.report()

    def step(self, pc: int, checker: WaitChecker | None) -> _Step:
        """The compiled instruction at an address."""
        found = self._steps.get((pc, checker is not None))
        if found is None:
            try:
                code = self.memory.code_at(pc)
            except RdnaFault:
                raise IllegalInstruction(f"no code at {pc:#x}") from None
            instruction = self._decoder.decode(code, 0, pc)
            try:
                run = compile_instruction(instruction, self.code.family)
            except RdnaFault as fault:
                fault.place("", disassemble(instruction, self.code.family), pc)
                raise
            if checker is not None:
                run = checker.wrap(instruction, run)
            found = self._steps[pc, checker is not None] = _Step(instruction, run)
        return found


def load(code: CodeObject, memory: Memory) -> Program:
    """Places a code object in memory."""
    return Program(code, memory)


class _Launch:
    """Everything a launch puts into memory and registers."""

    def __init__(
        self, program: Program, kernel: Kernel, kernarg: bytes, grid: tuple[int, int, int], block: tuple[int, int, int],
        dynamic_lds: int, stack_bytes: int, hidden: Mapping[str, int]
    ) -> None:  # fmt: skip
        threads = block[0] * block[1] * block[2]
        if (
            min(grid) < 1
            or min(block) < 1
            or max(grid) > 0xFFFFFFFF
            or threads > min(GROUP_LIMIT, kernel.largest_group)
        ):
            raise LaunchError(
                f"grid {grid} of blocks {block}: kernel {kernel.name} allows {kernel.largest_group} work-items a group"
            )
        self.lds_bytes = kernel.lds_bytes + dynamic_lds
        if dynamic_lds < 0 or self.lds_bytes > LDS_LIMIT:
            raise LaunchError(f"{self.lds_bytes} bytes of LDS; a group has {LDS_LIMIT}")
        if len(kernarg) > kernel.kernarg_bytes:
            raise LaunchError(f"{len(kernarg)} bytes of arguments; kernel {kernel.name} takes {kernel.kernarg_bytes}")
        self.program, self.kernel, self.grid, self.block, self.threads = program, kernel, grid, block, threads
        self.group_count = grid[0] * grid[1] * grid[2]
        self.waves_per_group = -(-threads // LANES)
        self.scratch_bytes = kernel.scratch_bytes + (stack_bytes if kernel.dynamic_stack else 0)
        self.entry = program.base + kernel.entry
        memory = program.memory
        self._owned = [memory.allocate(max(16, kernel.kernarg_bytes)), memory.allocate(64, 0), memory.allocate(256, 0)]
        self._kernarg, self._packet, self._queue = self._owned
        memory.write(self._kernarg, self._arguments(kernarg, dynamic_lds, hidden))
        memory.write(self._packet, struct.pack(
            "<HHHHHHIIIIIQQQQ", 2, 3, *block, 0, *(g * b & 0xFFFFFFFF for g, b in zip(grid, block, strict=True)),
            self.scratch_bytes, self.lds_bytes, 0, self._kernarg, 0, 0
        ))  # fmt: skip
        memory.write(self._queue + 64, struct.pack("<II", SHARED_APERTURE >> 32, PRIVATE_APERTURE >> 32))

    def release(self) -> None:
        for address in self._owned:
            self.program.memory.unmap(address)

    def _arguments(self, kernarg: bytes, dynamic_lds: int, hidden: Mapping[str, int]) -> bytes:
        """The kernel argument segment: explicit bytes, then hidden values by the metadata."""
        segment = bytearray(b"\xa5" * self.kernel.kernarg_bytes)
        segment[: len(kernarg)] = kernarg
        values = {"hidden_grid_dims": 3 if self.grid[2] * self.block[2] > 1 else 2 if self.grid[1] * self.block[1] > 1 else 1,
                  "hidden_dynamic_lds_size": dynamic_lds, "hidden_private_base": PRIVATE_APERTURE >> 32,
                  "hidden_shared_base": SHARED_APERTURE >> 32, "hidden_queue_ptr": self._queue, "hidden_none": 0}  # fmt: skip
        for axis, name in enumerate("xyz"):
            values[f"hidden_block_count_{name}"] = self.grid[axis]
            values[f"hidden_group_size_{name}"] = self.block[axis]
            values[f"hidden_remainder_{name}"] = 0
            values[f"hidden_global_offset_{name}"] = 0
        values.update(hidden)
        for argument in self.kernel.arguments:
            if argument.kind.startswith("hidden_"):
                value = values.get(argument.kind, POISON) & (1 << 8 * argument.size) - 1
                segment[argument.offset : argument.offset + argument.size] = value.to_bytes(argument.size, "little")
        return bytes(segment)

    @property
    def groups_per_batch(self) -> int:
        bytes_per_wave = (
            LANES * (4 * self.kernel.vector_registers + self.scratch_bytes) + self.lds_bytes // self.waves_per_group
        )
        return max(1, min(_BATCH_WAVES, _BATCH_BYTES // bytes_per_wave) // self.waves_per_group)

    def start_waves(self, first: int, count: int) -> Waves:
        """Groups `first` to `first + count`, with the registers that hardware sets."""
        kernel, family = self.kernel, self.program.code.family
        shape = Shape(kernel.vector_registers, count, self.waves_per_group, self.lds_bytes, self.scratch_bytes)
        mode = kernel.mode if family == "gfx11" else kernel.mode & 0xFF | 0x100
        waves = Waves(shape, self.program.memory, mode)
        waves.pc[:] = self.entry
        waves.first_group = first
        number = np.arange(first, first + count, dtype=np.int64)
        ids = [number % self.grid[0], number // self.grid[0] % self.grid[1], number // (self.grid[0] * self.grid[1])]
        group_ids = [np.repeat(x, self.waves_per_group).astype(np.uint32) for x in ids]
        wave = np.tile(np.arange(self.waves_per_group, dtype=np.int64), count)
        register = self._user_registers(waves)
        if family == "gfx11":
            for axis in range(3):
                if kernel.rsrc2 >> 7 + axis & 1:
                    waves.scalars[register] = group_ids[axis]
                    register += 1
        else:
            waves.scalars[_TTMP9] = group_ids[0]
            waves.scalars[_TTMP7] = group_ids[1] | group_ids[2] << np.uint32(16)
            waves.scalars[_TTMP8] = wave.astype(np.uint32) << np.uint32(25)
        self._work_item_ids(waves, wave)
        return waves

    def _user_registers(self, waves: Waves) -> int:
        """Sets the user registers; returns the number of the next one."""
        register = 0
        properties = self.kernel.properties
        for bit, size, value in ((0, 4, None), (1, 2, self._packet), (2, 2, self._queue), (3, 2, self._kernarg), (4, 2, 1),
                                 (5, 2, None), (6, 1, self.scratch_bytes)):  # fmt: skip
            if not properties >> bit & 1:
                continue
            if value is None:
                raise LaunchError("the kernel wants a scratch descriptor, which these targets do not have")
            for n in range(size):
                waves.scalars[register + n] = value >> 32 * n & 0xFFFFFFFF
            register += size
        return max(register, self.kernel.rsrc2 >> 1 & 31)

    def _work_item_ids(self, waves: Waves, wave: Array) -> None:
        """v0 packs the ids, 10 bits each, as many as the kernel asked for; EXEC has the lanes that exist."""
        linear = wave[:, None] * LANES + np.arange(LANES)
        packed = linear % self.block[0]
        dimensions = self.kernel.rsrc2 >> 11 & 3
        if dimensions >= 1:
            packed = packed | (linear // self.block[0] % self.block[1]) << 10
        if dimensions >= 2:
            packed = packed | (linear // (self.block[0] * self.block[1])) << 20
        waves.vectors[0] = packed.astype(np.uint32)
        alive = linear < self.threads
        waves.scalars[126] = np.packbits(alive, axis=1, bitorder="little").view(np.uint32).reshape(-1)


def _lane_name(view: View, position: int, scalar: bool) -> str:
    """Group (by its linear number), wave in the group, lane."""
    wave, lane = (int(view.indices[position]), -1) if scalar else view.lane_of_active(position)
    waves = view.waves
    text = f"group {waves.first_group + int(waves.group[wave])}, wave {wave % waves.shape.waves_per_group}"
    return text if lane < 0 else f"{text}, lane {lane}"


class _Machine:
    """The loop that executes batches."""

    def __init__(
        self, program: Program, kernel: Kernel, scheduler: Scheduler, check_waits: bool, limit: int,
        interrupted: Callable[[], bool] | None
    ) -> None:  # fmt: skip
        self._program, self._kernel, self._scheduler, self._limit = program, kernel, scheduler, limit
        self._checker = WaitChecker(program.code.family) if check_waits else None
        self._interrupted = interrupted
        self._steps: dict[int, _Step] = {}
        self._executed = 0

    def run(self, waves: Waves, entry: int) -> None:
        if self._checker:
            self._checker.begin(waves)
        while True:
            try:
                choice = self._scheduler.choose(waves)
            except RdnaFault as fault:
                fault.place(self._kernel.name, "waiting", int(waves.pc[0]))
                raise
            if choice is None:
                return
            indices, stop_at, budget = choice
            view = View(waves, indices)
            self._execute(view, int(waves.pc[indices[0]]), stop_at, budget)

    def _execute(self, view: View, pc: int, stop_at: int, budget: int) -> None:
        """Runs the waves of a view until they part, stop, meet others, or have used their budget."""
        steps, waves, lanes = self._steps, view.waves, view.count * LANES
        left = min(budget, _SLICE, self._limit - self._executed)
        begin = left
        step = None
        try:
            while left > 0:
                step = steps.get(pc)
                if step is None:
                    step = steps[pc] = self._program.step(pc, self._checker)
                    step.count = step.lanes = 0
                step.count += 1
                step.lanes += lanes
                left -= 1
                result = step.run(view)
                if result is None:
                    pc = step.next
                elif result is STOP:
                    open_barriers(waves)
                    return
                elif isinstance(result, int):
                    pc = result
                else:
                    waves.pc[view.selection] = result
                    return
                if pc >= stop_at:
                    waves.pc[view.selection] = pc
                    return
            waves.pc[view.selection] = pc
            self._scheduler.used_up()
        except RdnaFault as fault:
            text = fault.where.instruction.partition(": ")[2]
            if not text and step is not None:
                text = disassemble(step.instruction, self._program.code.family)
                if isinstance(fault, IllegalAddress) and fault.position >= 0:
                    fault.name_lane(_lane_name(view, fault.position, step.instruction.encoding == "SMEM"))
            fault.place(self._kernel.name, text or "?", pc)
            raise
        finally:
            self._executed += begin - left
        if self._executed >= self._limit:
            self._end(f"{self._limit} instructions executed without an end", pc)
        if self._interrupted is not None and self._interrupted():
            self._end("the kernel was interrupted", pc)

    def _end(self, reason: str, pc: int) -> NoReturn:
        fault = NoProgress(reason)
        fault.place(self._kernel.name, "running", pc)
        raise fault

    def report(self) -> Report:
        report = Report()
        for step in self._steps.values():
            report.instructions += step.count
            report.lane_instructions += step.lanes
            parts = step.instruction.parts or (step.instruction,)
            for part in parts:
                report.mnemonics[part.mnemonic] += step.count
            step.count = step.lanes = 0
        return report
