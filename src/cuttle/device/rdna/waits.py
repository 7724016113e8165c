"""The check for missing waits: registers that an outstanding load will write may not be touched before a wait covers it.

Counters (AMD, RDNA3 Instruction Set Architecture, section "Data Dependency Resolution"; RDNA4: the same): loads, stores, LDS accesses and scalar loads
are counted up when they are issued and down when they are done. gfx11 counts the last two together (`lgkmcnt`), gfx12 apart (`dscnt`, `kmcnt`). Loads of
one counter are done in order, except scalar and flat ones: only a wait for 0 covers those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.atomics import ATOMICS
from cuttle.device.rdna.decode import NULL, SCALAR_RESULT, VCC, VECTOR, Instruction
from cuttle.device.rdna.errors import MissingWait
from cuttle.device.rdna.memory_operations import BYTES
from cuttle.device.rdna.semantics import Run
from cuttle.device.rdna.waves import SCALARS, View, Waves

Array = NDArray[Any]
Registers = list[tuple[int, int]]  # operand code of the first, count
LOAD, STORE, SHARE, SCALAR = range(4)
_NAMES = {"gfx11": ("vmcnt", "vscnt", "lgkmcnt", "lgkmcnt"), "gfx12": ("loadcnt", "storecnt", "dscnt", "kmcnt")}


def waited(instruction: Instruction, family: str) -> Iterator[tuple[int, int]]:
    """(counter, how many may stay outstanding) of a wait instruction."""
    word, name = instruction.immediate, instruction.mnemonic
    if name == "s_waitcnt":
        yield LOAD, word >> 10 & 63
        yield SHARE, word >> 4 & 63
    elif name in ("s_waitcnt_vmcnt", "s_wait_loadcnt"):
        yield LOAD, word & 63
    elif name in ("s_waitcnt_vscnt", "s_wait_storecnt"):
        yield STORE, word & 63
    elif name in ("s_waitcnt_lgkmcnt", "s_wait_dscnt"):
        yield SHARE, word & 63
    elif name == "s_wait_kmcnt":
        yield SCALAR, word & 31
    elif name in ("s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt"):
        yield LOAD if "load" in name else STORE, word >> 8 & 63
        yield SHARE, word & 63
    elif name == "s_wait_idle":
        for counter in range(4):
            yield counter, 0


def _dwords(name: str) -> int:
    """Registers of the data of a memory instruction."""
    kind = name.rpartition("_")[2]
    size = {"b256": 32, "b512": 64}.get(kind) or BYTES.get(kind)
    if size is None:
        size = 8 if kind.endswith("64") else 4
    return max(1, size // 4) * (2 if "2addr" in name else 1)


def memory_registers(instruction: Instruction) -> tuple[Registers, Registers]:
    """(read, written) by a memory instruction; what is written is written when the operation is done."""
    name, encoding = instruction.mnemonic, instruction.encoding
    count = _dwords(name.replace("_d16", "").replace("_hi", ""))
    if encoding == "SMEM":
        if not name.startswith("s_load"):
            return [], []
        reads = [(instruction.sources[0], 2)]
        if instruction.scalar_address != NULL:
            reads.append((instruction.scalar_address, 1))
        return reads, [(instruction.destination, count)]
    reads = []
    if encoding == "DS":
        reads.append((instruction.sources[0], 1))
        if "store" in name or "rtn" in name or name.partition("_")[2] in ATOMICS or "permute" in name:
            part = count // 2 if "2addr" in name else count
            reads.append((instruction.sources[1], part))
            if "2addr" in name or "cmpstore" in name or "mskor" in name or "wrap" in name:
                reads.append((instruction.sources[2], part))
        writes = (
            "load" in name
            or "rtn" in name
            or "permute" in name
            or name in ("ds_swizzle_b32", "ds_append", "ds_consume")
        )
        return reads, [(instruction.destination, count)] if writes else []
    if instruction.scalar_address != NULL:
        reads.append((instruction.scalar_address, 1 if encoding == "SCRATCH" else 2))
    if instruction.has_vector_address:
        wide = encoding == "FLAT" or (encoding == "GLOBAL" and instruction.scalar_address == NULL)
        reads.append((instruction.sources[0], 2 if wide else 1))
    atomic = "atomic" in name
    if atomic or "store" in name:
        reads.append((instruction.sources[1], count * (2 if "cmpswap" in name else 1)))
    written = "load" in name or instruction.returns
    return reads, [(instruction.destination, count)] if written else []


def _operand_registers(instruction: Instruction) -> Registers:
    """All registers that an arithmetic instruction reads or writes. Widths: the rows of `abi/rdna/opcodes.py`."""
    encodings = {"VOP3": ("VOP3", "VOP2", "VOP1", "VOPC")}.get(instruction.encoding, (instruction.encoding,))
    shapes = [row for e in encodings if (row := OPCODES.get(e, {}).get(instruction.mnemonic))]
    shape = "" if not shapes else shapes[0][2] or shapes[0][3]
    operands = (
        [instruction.destination] if instruction.destination != NULL or instruction.encoding.startswith("SOP") else []
    )
    if instruction.scalar_destination != NULL:
        operands.append(instruction.scalar_destination)
    if instruction.encoding in ("SOPC", "SOPP"):
        operands = []
    if instruction.encoding == "VOPC":
        operands = [instruction.scalar_destination]
    found: Registers = []
    sources = () if instruction.mnemonic == "s_getpc_b64" else instruction.sources  # the field says s0, but is not used
    for index, code in enumerate([*operands, *sources]):
        letter = shape[index] if index < len(shape) else "1"
        count = 1 if letter in ".H" else int(letter, 36)
        if instruction.encoding in ("VOP1", "VOP2", "VOPC") and letter == "H" and code >= VECTOR:
            code = VECTOR + (code - VECTOR & 127)
        if code < 128 or code >= VECTOR:
            found.append((code, count))
    return found


class WaitChecker:
    """Wraps the closures of instructions with bookkeeping; `begin` is called for each batch."""

    def __init__(self, family: str) -> None:
        self._family = family
        self._waves: Waves | None = None

    def begin(self, waves: Waves) -> None:
        registers = SCALARS + len(waves.vectors)
        self._waves = waves
        self._issued = np.zeros((4, waves.count), np.int32)
        self._done = np.zeros((4, waves.count), np.int32)
        self._accessed = np.zeros(waves.count, np.int32)  # the last operation that reads or writes LDS
        self._unordered = np.zeros((4, waves.count), np.int32)  # the last operation that comes back out of order
        self._tickets = np.zeros((4, registers, waves.count), np.int32)

    def _counter(self, counter: int) -> int:
        return SHARE if counter == SCALAR and self._family == "gfx11" else counter

    def wrap(self, instruction: Instruction, run: Run) -> Run:
        """The closure with its checks."""
        name = instruction.mnemonic
        if name.startswith(("s_wait", "s_waitcnt")):
            waits = [(self._counter(counter), n) for counter, n in waited(instruction, self._family)]
            return lambda w: self._wait(w, waits)
        if name in ("s_barrier", "s_barrier_signal", "s_barrier_signal_isfirst"):
            return self._checked_barrier(run)
        if instruction.encoding in ("DS", "FLAT", "GLOBAL", "SCRATCH", "SMEM"):
            return self._memory(instruction, run)
        if name.startswith("s_sendmsg_rtn"):
            written: Registers = [(instruction.destination, 2 if name.endswith("64") else 1)]
            return self._tracked(run, [], written, [(self._counter(SCALAR), True)])
        touched: Registers = []
        for part in instruction.parts or (instruction,):
            touched += _operand_registers(part)
        if name in SCALAR_RESULT or not touched:
            touched = [x for x in touched if x[0] != NULL]
        if "vcc" in name:
            touched.append((VCC, 1))
        return self._tracked(run, touched, [], [])

    def _memory(self, instruction: Instruction, run: Run) -> Run:
        reads, writes = memory_registers(instruction)
        encoding = instruction.encoding
        counters: list[tuple[int, bool]] = []
        if encoding == "SMEM":
            counters = [(self._counter(SCALAR), True)] if writes else []
        elif encoding == "DS":
            counters = [(SHARE, False)]
        elif "load" in instruction.mnemonic or "store" in instruction.mnemonic or "atomic" in instruction.mnemonic:
            flat = encoding == "FLAT"
            counters = [(LOAD if writes else STORE, flat)]
            if flat:
                counters.append((SHARE, True))
        # Permutations count as LDS operations, but touch registers only.
        share = (
            encoding == "FLAT"
            or encoding == "DS"
            and not ("permute" in instruction.mnemonic or "swizzle" in instruction.mnemonic)
        )
        return self._tracked(run, reads, writes, counters, share=share)

    def _tracked(
        self, run: Run, reads: Registers, writes: Registers, counters: list[tuple[int, bool]], *, share: bool = False
    ) -> Run:
        touched, written = _rows(reads), _rows(writes)
        own = {counter for counter, _ in counters}

        def checked(w: View) -> Any:
            for counter in range(4):
                self._check(w, counter, touched)
                if counter not in own:
                    self._check(w, counter, written)
            if share:
                self._accessed[w.selection] = self._issued[SHARE][w.selection] + 1
            for counter, unordered in counters:
                self._issued[counter][w.selection] += 1
                issued = self._issued[counter][w.selection]
                if unordered:
                    self._unordered[counter][w.selection] = issued
                for row in written:
                    self._tickets[counter][row][w.selection] = issued
            return run(w)

        return checked

    def _check(self, w: View, counter: int, rows: list[int]) -> None:
        if not rows:
            return
        done = self._done[counter][w.selection]
        for row in rows:
            if (self._tickets[counter][row][w.selection] > done).any():
                register = f"s{row}" if row < SCALARS else f"v{row - SCALARS}"
                raise MissingWait(f"{register} is used before {_NAMES[self._family][counter]} was waited for")

    def _wait(self, w: View, waits: list[tuple[int, int]]) -> None:
        for counter, allowed in waits:
            issued, done = self._issued[counter][w.selection], self._done[counter][w.selection]
            reached = issued - allowed
            if allowed:
                reached = np.where(self._unordered[counter][w.selection] > done, done, reached)
            self._done[counter][w.selection] = np.maximum(done, reached)

    def _checked_barrier(self, run: Run) -> Run:
        def checked(w: View) -> Any:
            if (self._accessed[w.selection] > self._done[SHARE][w.selection]).any():
                raise MissingWait(f"a barrier is reached before {_NAMES[self._family][SHARE]} was waited for")
            return run(w)

        return checked


def _rows(registers: Registers) -> list[int]:
    """Operand codes to rows of the ticket table."""
    rows = []
    for code, count in registers:
        first = code if code < 128 else SCALARS + code - VECTOR
        rows += [first + n for n in range(count) if code != NULL]
    return rows
