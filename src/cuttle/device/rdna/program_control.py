"""Branches, calls, barriers, modes, messages and waits.

A closure returns None to go on with the next instruction, a program counter (int) or one for each wave (array) to jump, or STOP
after it has set `waves.pc` and states itself, so that the scheduler looks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.decode import EXEC, NULL, VCC, Instruction
from cuttle.device.rdna.errors import IllegalInstruction, Trap
from cuttle.device.rdna.operands import scalar_reader, scalar_writer
from cuttle.device.rdna.semantics import Run, special
from cuttle.device.rdna.waves import AT_BARRIER, ENDED, View

Array = NDArray[Any]
U32, U64 = np.uint32, np.uint64


class Stop:
    """What a closure returns when the scheduler has to choose again."""


STOP = Stop()


def _next(instruction: Instruction) -> int:
    return instruction.address + instruction.size


def _target(instruction: Instruction) -> int:
    offset = instruction.immediate - 0x10000 if instruction.immediate >> 15 else instruction.immediate
    return _next(instruction) + 4 * offset


def _leave(w: View, instruction: Instruction) -> None:
    w.waves.pc[w.selection] = _next(instruction)


# -- branches ----------------------------------------------------------------------------------------------------------


@special("s_branch")
def build_branch(instruction: Instruction, target: str) -> Run:
    to = _target(instruction)
    return lambda w: to


_CONDITIONS: dict[str, Callable[[View], Array]] = {
    "s_cbranch_scc0": lambda w: w.condition() == 0,
    "s_cbranch_scc1": lambda w: w.condition() != 0,
    "s_cbranch_vccz": lambda w: w.scalar(VCC) == 0,
    "s_cbranch_vccnz": lambda w: w.scalar(VCC) != 0,
    "s_cbranch_execz": lambda w: w.scalar(EXEC) == 0,
    "s_cbranch_execnz": lambda w: w.scalar(EXEC) != 0,
}


@special(" ".join(_CONDITIONS))
def build_conditional_branch(instruction: Instruction, target: str) -> Run:
    condition = _CONDITIONS[instruction.mnemonic]
    to, on = _target(instruction), _next(instruction)

    def run(w: View) -> Any:
        taken = condition(w)
        if taken.all():
            return to
        return np.where(taken, to, on) if taken.any() else None

    return run


def _jump(addresses: Array) -> Any:
    first = int(addresses[0])
    return first if (addresses == U64(first)).all() else addresses.astype(np.int64)


@special("s_setpc_b64 s_swappc_b64 s_rfe_b64")
def build_jump(instruction: Instruction, target: str) -> Run:
    if instruction.mnemonic == "s_rfe_b64":
        raise IllegalInstruction("s_rfe_b64 belongs to trap handlers")
    read = scalar_reader(instruction.sources[0], "u64")
    destination = instruction.destination if instruction.mnemonic == "s_swappc_b64" else NULL
    back = _next(instruction)

    def run(w: View) -> Any:
        addresses = read(w).copy()
        if destination != NULL:
            w.set_scalar64(destination, np.full(w.count, back, np.uint64))
        return _jump(addresses)

    return run


@special("s_call_b64")
def build_call(instruction: Instruction, target: str) -> Run:
    to, back, destination = _target(instruction), _next(instruction), instruction.destination

    def run(w: View) -> Any:
        w.set_scalar64(destination, np.full(w.count, back, np.uint64))
        return to

    return run


@special("s_getpc_b64")
def build_get_pc(instruction: Instruction, target: str) -> Run:
    here, destination = _next(instruction), instruction.destination
    return lambda w: w.set_scalar64(destination, np.full(w.count, here, np.uint64))


# -- ends, barriers, pauses --------------------------------------------------------------------------------------------


@special("s_endpgm s_endpgm_saved")
def build_end(instruction: Instruction, target: str) -> Run:
    def run(w: View) -> Any:
        w.waves.state[w.selection] = ENDED
        _leave(w, instruction)
        return STOP

    return run


@special("s_barrier")
def build_barrier(instruction: Instruction, target: str) -> Run:
    def run(w: View) -> Any:
        w.waves.signals[w.selection] += 1
        return _wait_at_barrier(w, instruction)

    return run


def _wait_at_barrier(w: View, instruction: Instruction) -> Stop:
    w.waves.waits[w.selection] += 1
    w.waves.state[w.selection] = AT_BARRIER
    _leave(w, instruction)
    return STOP


def _whole_group(instruction: Instruction, barrier: int) -> None:
    if barrier & 0xFFFF != 0xFFFF:
        raise IllegalInstruction(f"{instruction.mnemonic} of barrier {barrier}: only -1, the group's own, is executed")


@special("s_barrier_signal s_barrier_signal_isfirst")
def build_barrier_signal(instruction: Instruction, target: str) -> Run:
    # The operand is an inline constant; 193 is -1.
    _whole_group(instruction, -1 if instruction.sources[0] == 193 else instruction.sources[0])
    tells = instruction.mnemonic.endswith("isfirst")

    def run(w: View) -> None:
        waves = w.waves
        for wave in w.indices.tolist() if tells else ():
            mine = waves.signals[wave] + 1
            waves.condition[wave] = not (waves.signals[waves.group == waves.group[wave]] >= mine).any()
            waves.signals[wave] = mine
        if not tells:
            waves.signals[w.selection] += 1

    return run


@special("s_barrier_wait")
def build_barrier_wait(instruction: Instruction, target: str) -> Run:
    _whole_group(instruction, instruction.immediate)
    return lambda w: _wait_at_barrier(w, instruction)


@special("s_sleep s_sleep_var")
def build_sleep(instruction: Instruction, target: str) -> Run:
    """Gives other waves a turn."""

    def run(w: View) -> Any:
        w.waves.resting[w.selection] = True
        _leave(w, instruction)
        return STOP

    return run


@special("s_trap")
def build_trap(instruction: Instruction, target: str) -> Run:
    def run(w: View) -> None:
        raise Trap(instruction.immediate & 255)

    return run


@special(
    "s_nop s_clause s_delay_alu s_set_inst_prefetch_distance s_setprio s_icache_inv s_wakeup s_version s_ttracedata s_ttracedata_imm "
    "s_incperflevel s_decperflevel s_wait_idle s_wait_event"
)
def build_hint(instruction: Instruction, target: str) -> Run:
    """Without effect on results."""
    return lambda w: None


@special(
    "s_waitcnt s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt s_waitcnt_lgkmcnt s_waitcnt_depctr s_wait_alu s_wait_loadcnt "
    "s_wait_storecnt s_wait_samplecnt s_wait_bvhcnt s_wait_expcnt s_wait_dscnt s_wait_kmcnt s_wait_loadcnt_dscnt s_wait_storecnt_dscnt"
)
def build_wait(instruction: Instruction, target: str) -> Run:
    """Memory operations are done when they are executed; `waits.py` checks that they are waited for."""
    return lambda w: None


@special("s_sendmsg")
def build_message(instruction: Instruction, target: str) -> Run:
    """Message 3 gives registers back early. Others talk to a host interrupt handler that is not there."""
    message = instruction.immediate & 255
    if message != 3:
        raise IllegalInstruction(f"s_sendmsg {message}: only 3 (deallocate registers) is executed")
    return lambda w: None


# -- clocks, modes, hardware registers ---------------------------------------------------------------------------------


def _realtime() -> int:
    """The constant 100 MHz counter."""
    return time.monotonic_ns() // 10


@special("s_sendmsg_rtn_b32 s_sendmsg_rtn_b64")
def build_message_with_answer(instruction: Instruction, target: str) -> Run:
    message, destination = instruction.sources[0], instruction.destination
    if message != 131:
        raise IllegalInstruction(f"{instruction.mnemonic} {message}: only 131 (the real-time counter) is executed")
    wide = instruction.mnemonic.endswith("64")

    def run(w: View) -> None:
        now = np.full(w.count, _realtime(), np.uint64)
        if wide:
            w.set_scalar64(destination, now)
        else:
            w.set_scalar(destination, now.astype(np.uint32))

    return run


@special("s_round_mode")
def build_round_mode(instruction: Instruction, target: str) -> Run:
    return lambda w: _change_mode(w, 0, 4, np.full(w.count, instruction.immediate & 15), instruction)


@special("s_denorm_mode")
def build_denormal_mode(instruction: Instruction, target: str) -> Run:
    return lambda w: _change_mode(w, 4, 4, np.full(w.count, instruction.immediate & 15), instruction)


def _change_mode(w: View, offset: int, size: int, value: Array, instruction: Instruction) -> Stop | None:
    mask = (1 << size) - 1 << offset
    modes = (w.waves.mode[w.selection] & ~mask) | (value.astype(np.int64) << offset & mask)
    w.waves.mode[w.selection] = modes
    first = int(modes[0])
    if (modes == first).all():
        w.mode = first
        return None
    _leave(w, instruction)  # waves of different modes go on apart
    return STOP


_MODE, _CYCLES, _CYCLES_HIGH = 1, 29, 30


def _register_field(instruction: Instruction) -> tuple[int, int, int]:
    """hwreg(number, offset, size) of the immediate."""
    word = instruction.immediate
    return word & 63, word >> 6 & 31, (word >> 11 & 31) + 1


@special("s_getreg_b32")
def build_get_register(instruction: Instruction, target: str) -> Run:
    number, offset, size = _register_field(instruction)
    write = scalar_writer(instruction.destination, "u32")
    if number not in (_MODE, _CYCLES, _CYCLES_HIGH) or (number == _CYCLES_HIGH and target == "gfx11"):
        raise IllegalInstruction(f"hardware register {number} is not emulated")

    def run(w: View) -> None:
        if number == _MODE:
            value = w.waves.mode[w.selection]
        else:
            value = np.full(w.count, _realtime() * 25 >> (0 if number == _CYCLES else 32), np.int64)
            if target == "gfx11":
                value &= (1 << 20) - 1
        write(w, (value >> offset & (1 << size) - 1).astype(np.uint32))

    return run


@special("s_setreg_b32 s_setreg_imm32_b32")
def build_set_register(instruction: Instruction, target: str) -> Run:
    number, offset, size = _register_field(instruction)
    if number != _MODE:
        raise IllegalInstruction(f"hardware register {number} is not emulated")
    if instruction.mnemonic == "s_setreg_imm32_b32":
        literal = np.full(1, instruction.literal, np.int64)
        return lambda w: _change_mode(w, offset, size, np.broadcast_to(literal, (w.count,)), instruction)
    read = scalar_reader(instruction.destination, "u32")
    return lambda w: _change_mode(w, offset, size, np.broadcast_to(read(w), (w.count,)), instruction)
