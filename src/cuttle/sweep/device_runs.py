"""Runs items on the device behind the driver API and compares what it answers: one function per kind of domain."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cuttle.abi.cuda_errors import CUDA_ERROR_INVALID_PTX
from cuttle.errors import CuttleError, SweepError
from cuttle.lower.ops.forms import Form, synthesise
from cuttle.sweep import cells, golden, matrix
from cuttle.sweep.domains import FILES, dense_name
from cuttle.sweep.driver import Driver, DriverFailure
from cuttle.sweep.exhaustive import THREADS, Digests, block_bits, digest_kernel, digests_of, recorded_digests
from cuttle.sweep.forms import result_operands, source_operands, storage_bytes
from cuttle.sweep.golden import CellRecord, MatrixRecord, Record
from cuttle.sweep.kernels import HEADER, kernel
from cuttle.sweep.reference import FUNCTIONS, errors, operands
from cuttle.sweep.verdict import Verdict, admitted_ulp, outcome_of

u32, u64 = ctypes.c_uint32, ctypes.c_uint64
TARGET = "sm_90"
BLOCKS_AT_ONCE = 8
Progress = Callable[[float], None]
AnyRecord = Record | MatrixRecord | CellRecord | Digests


def outcome_of_refusal(reason: str) -> str:
    """What is recorded runs, unless a rule of a list says that it does not (PTX-05xx, on AMD GPUs PTX-06xx, of which the driver API
    tells nothing but CUDA_ERROR_INVALID_PTX): any other refusal by our compiler is a bug."""
    by_rule = not reason.startswith("PTX-") or reason.startswith(("PTX-05", "PTX-06"))
    return "refused" if by_rule else "failed"


class Runs:
    """A device and the recordings that its answers are held against. `run` never raises for what a form does."""

    def __init__(self, folder: Path, library: str = "libcuda.so.1") -> None:
        self.driver = Driver(library)
        self.folder = folder
        self._recorded: dict[str, dict[str, AnyRecord]] = {}

    # -- recordings --------------------------------------------------------------------------------------------------

    def recorded(self, domain: str, name: str) -> AnyRecord:
        """What was recorded for an item; a domain is read when first asked for."""
        self.prepare(domain)
        if name not in self._recorded[domain]:
            raise SweepError("SWP-0102", f"{self.folder / FILES[domain]} has no {name}")
        return self._recorded[domain][name]

    def prepare(self, domain: str) -> None:
        """Read a domain's recording, which may take seconds, if it has one and is not read yet."""
        if domain in FILES and domain not in self._recorded:
            path = self.folder / FILES[domain]
            if domain == "dense":
                names = [dense_name(item) for item in golden.load_dense(path)[0]["sweeps"]]
                self._recorded[domain] = dict(zip(names, golden.dense(path), strict=True))
            elif domain == "exhaustive":
                self._recorded[domain] = {item.form.name: item for item in recorded_digests(path)}
            elif domain.startswith("cells"):
                self._recorded[domain] = {item.form.name: item for item in golden.cell_records(path)}
            elif domain.startswith("matrix"):
                self._recorded[domain] = {item.name: item for item in golden.matrix_records(path)}
            else:
                self._recorded[domain] = {item.form.name: item for item in golden.records(path)}

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, domain: str, names: Sequence[str], progress: Progress = lambda share: None) -> list[Verdict]:
        """The verdicts of some items of a domain. Items that are cheap share a module, so that their compilation overlaps."""
        begin = time.monotonic()
        together = self._run_cells if domain.startswith("cells") else self._run_columns
        if domain in ("golden", "second", "dense", "cells", "cells-second") and len(names) > 1:
            try:
                verdicts = together(domain, names)
                share = (time.monotonic() - begin) / len(names)
                return [replace(verdict, seconds=share) for verdict in verdicts]
            except DriverFailure:
                self._recover()
        return [self._run_alone(domain, name, progress) for name in names]

    def _run_cells(self, domain: str, names: Sequence[str]) -> list[Verdict]:
        driver = self.driver
        records = [record for name in names if isinstance(record := self.recorded(domain, name), CellRecord)]
        text = HEADER.format(target=TARGET) + "\n".join(
            cells.cell_kernel(r.form, f"k{i}") for i, r in enumerate(records)
        )
        module = driver.load(text.encode())
        memory: list[ctypes.c_uint64] = []
        for index, record in enumerate(records):
            packed = cells.packed_inputs(record.form, record.seed)
            source, target = driver.allocate(len(packed)), driver.allocate(len(record.results))
            memory += [source, target]
            driver.write(source, packed)
            driver.write(target, bytes(len(record.results)))
            driver.launch(module, f"k{index}", [source, target], cells.COUNT)
        driver.synchronize()
        verdicts = [
            compared_cells(domain, name, record, driver.read(memory[2 * index + 1], len(record.results)))
            for index, (name, record) in enumerate(zip(names, records, strict=True))
        ]
        for pointer in memory:
            driver.free(pointer)
        driver.unload(module)
        return verdicts

    def _run_alone(self, domain: str, name: str, progress: Progress) -> Verdict:
        begin = time.monotonic()
        try:
            if domain == "exhaustive":
                verdict = self._run_digests(name, progress)
            elif domain == "reference":
                verdict = self._run_reference(name)
            elif domain.startswith("matrix"):
                verdict = self._run_matrix(domain, name)
            elif domain.startswith("cells"):
                verdict = self._run_cells(domain, [name])[0]
            else:
                verdict = self._run_columns(domain, [name])[0]
        except DriverFailure as failure:
            verdict = self._failure(domain, name, failure)
            self._recover()
        return replace(verdict, seconds=time.monotonic() - begin)

    def _recover(self) -> None:
        """A fault is sticky: begin again. A device that is gone for good ends the worker (DriverFailure)."""
        self.driver.reset()

    def _failure(self, domain: str, name: str, failure: DriverFailure) -> Verdict:
        if failure.result == CUDA_ERROR_INVALID_PTX:
            reason = failure.text or self._reason(domain, name)
            return Verdict(domain, name, outcome_of_refusal(reason), text=reason)
        return Verdict(domain, name, "failed", text=str(failure))

    def _reason(self, domain: str, name: str) -> str:
        """Why our own compiler refuses the kernel: the driver API has no place for it behind a launch."""
        from cuttle.lower.cpu.compile_kernel import compile_kernel
        from cuttle.lower.cpu.options import CompileOptions
        from cuttle.ptx.parser import parse_module

        try:
            module = parse_module(HEADER.format(target=TARGET) + self.kernel_text(domain, name))
            compile_kernel(module, "k", CompileOptions(block_shape=(128, 1, 1)))
        except CuttleError as error:
            return f"{error.code}: {error.message}"
        return "CUDA_ERROR_INVALID_PTX"

    def kernel_text(self, domain: str, name: str) -> str:
        """The PTX of an item's kernel, named `k`."""
        if domain == "reference":
            return kernel(synthesise(name), "k")
        record = self.recorded(domain, name)
        if isinstance(record, CellRecord):
            return cells.cell_kernel(record.form, "k")
        if isinstance(record, MatrixRecord):
            return matrix.kernel(matrix.recorded_of(record.name), "k")
        return digest_kernel(record.form, "k") if isinstance(record, Digests) else kernel(record.form, "k")

    # -- columns of recorded results ---------------------------------------------------------------------------------

    def _run_columns(self, domain: str, names: Sequence[str]) -> list[Verdict]:
        driver = self.driver
        records: list[Record] = []
        for name in names:
            record = self.recorded(domain, name)
            assert isinstance(record, Record)
            records.append(record)
        text = HEADER.format(target=TARGET) + "\n".join(kernel(r.form, f"k{i}") for i, r in enumerate(records))
        module = driver.load(text.encode())
        memory: list[ctypes.c_uint64] = []
        verdicts: list[Verdict] = []
        for index, record in enumerate(records):
            packed, count = packed_columns(record.form, record.columns), len(record.columns[0])
            size = count * sum(storage_bytes(width) for _, width in result_operands(record.form))
            source, target = driver.allocate(max(len(packed), 1)), driver.allocate(size)
            memory += [source, target]
            driver.write(source, packed)
            driver.launch(module, f"k{index}", [source, target, u32(count), u64(0), u64(0)], count)
        driver.synchronize()
        for index, record in enumerate(records):
            sizes = [storage_bytes(width) for _, width in result_operands(record.form)]
            count = len(record.columns[0])
            raw = driver.read(memory[2 * index + 1], count * sum(sizes))
            verdicts.append(compared(domain, names[index], record, golden.split(raw, sizes, count)))
        for pointer in memory:
            driver.free(pointer)
        driver.unload(module)
        return verdicts

    # -- matrices ----------------------------------------------------------------------------------------------------

    def _run_matrix(self, domain: str, name: str) -> Verdict:
        driver, record = self.driver, self.recorded(domain, name)
        assert isinstance(record, MatrixRecord)
        try:
            item = matrix.recorded_of(record.name)
        except ValueError as error:
            raise SweepError("SWP-0101", f"{self.folder / FILES[domain]}: {error}") from None
        if len(record.results) != record.calls * item.result_bytes:  # the kernel would write behind its buffer
            raise SweepError(
                "SWP-0101", f"{self.folder / FILES[domain]}: {name}: recorded with another number of calls"
            )
        module = driver.load((HEADER.format(target=TARGET) + matrix.kernel(item, "k")).encode())
        packed = b"".join(matrix.inputs_of(item, call, record.seed) for call in range(record.calls))
        source, target = driver.allocate(len(packed)), driver.allocate(len(record.results))
        driver.write(source, packed)
        driver.launch(module, "k", [source, target, u32(record.calls)], record.calls * 32)
        raw = driver.read(target, len(record.results))
        driver.free(source)
        driver.free(target)
        driver.unload(module)
        size = item.width // 8
        ours = [int.from_bytes(raw[at : at + size], "little") for at in range(0, len(raw), size)]
        theirs = [int.from_bytes(record.results[at : at + size], "little") for at in range(0, len(raw), size)]
        wrong = [index for index, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
        first = ""
        far = 0
        if wrong:
            kind = item.form.d_kind if item.form.d_kind in ("f32", "f64") else "b32"
            far = max(golden.distance(kind, ours[index], theirs[index]) for index in wrong)
            call, rest = divmod(wrong[0] * size, item.result_bytes)
            register, lane = divmod(rest // size, 32)
            first = (
                f"call {call}, register {register}, lane {lane}: {ours[wrong[0]]:#x}, expected {theirs[wrong[0]]:#x}"
            )
        outcome = outcome_of(len(wrong), far, admitted_ulp(item.form.opcode))
        return Verdict(domain, name, outcome, len(ours), len(wrong), far, first)

    # -- everything --------------------------------------------------------------------------------------------------

    def _run_digests(self, name: str, progress: Progress) -> Verdict:
        driver, record = self.driver, self.recorded("exhaustive", name)
        assert isinstance(record, Digests)
        blocks, bits = len(record.blocks), block_bits(record.form)
        module = driver.load((HEADER.format(target=TARGET) + digest_kernel(record.form, "k")).encode())
        target = driver.allocate(8 * blocks)
        driver.write(target, bytes(8 * blocks))
        for first in range(0, blocks, BLOCKS_AT_ONCE):
            some = min(BLOCKS_AT_ONCE, blocks - first)
            driver.launch(module, "k", [u64(target.value + 8 * first), u32(first)], some * THREADS)
            driver.synchronize()
            progress((first + some) / blocks)
        ours = digests_of(driver.read(target, 8 * blocks))
        driver.free(target)
        driver.unload(module)
        wrong = [index for index in range(blocks) if ours[index] != record.blocks[index]]
        text = ""
        if wrong:
            low, high = wrong[0] << bits, (wrong[0] + 1 << bits) - 1
            text = f"between operands {low:#x} and {high:#x}"
        outcome = "differs" if wrong else "exact"
        return Verdict("exhaustive", name, outcome, blocks << bits, len(wrong), -1 if wrong else 0, text)

    # -- the reference -----------------------------------------------------------------------------------------------

    def _run_reference(self, name: str) -> Verdict:
        driver, form = self.driver, synthesise(name)
        module = driver.load((HEADER.format(target=TARGET) + kernel(form, "k")).encode())
        worst, total, over, first = 0.0, 0, 0, ""
        for function in FUNCTIONS[name]:
            inputs = operands(function)
            packed = inputs.tobytes()
            source, target = driver.allocate(len(packed)), driver.allocate(len(packed))
            driver.write(source, packed)
            driver.launch(module, "k", [source, target, u32(len(inputs)), u64(0), u64(0)], len(inputs))
            raw = driver.read(target, len(packed))
            driver.free(source)
            driver.free(target)
            found = errors(function, inputs, raw)
            bound = abs(function.bound)
            wrong = found > bound
            total += len(inputs)
            over += int(wrong.sum())
            if function.bound > 0:
                worst = max(worst, float(found.max()))
            if wrong.any() and not first:
                at = int(wrong.argmax())
                operand, answer = (int.from_bytes(raw_[4 * at : 4 * at + 4], "little") for raw_ in (packed, raw))
                first = f"({operand:#x}): {answer:#x}, error {float(found[at]):.4g}, the manual admits {bound:.4g}"
        driver.unload(module)
        outcome = "differs" if over else "ulp" if worst > 0.5 else "exact"
        return Verdict("reference", name, outcome, total, over, worst, first)


def packed_columns(form: Form, columns: Sequence[Sequence[int]]) -> bytes:
    """Operand columns as the kernels read them: one after the other."""
    sizes = [storage_bytes(width) for _, width in source_operands(form)]
    return b"".join(
        value.to_bytes(size, "little") for column, size in zip(columns, sizes, strict=True) for value in column
    )


def compared_cells(domain: str, name: str, record: CellRecord, raw: bytes) -> Verdict:
    """The verdict on results and cells: the number of threads for which something differs."""
    form = record.form
    wrong: dict[int, str] = {}
    at = 0
    for index, (_, width) in enumerate(form.destinations):
        size = storage_bytes(width)
        for thread in range(cells.COUNT):
            ours, theirs = (data[at + thread * size :][:size] for data in (raw, record.results))
            if ours != theirs:
                wrong.setdefault(thread, f"result {index}: 0x{ours[::-1].hex()}, expected 0x{theirs[::-1].hex()}")
        at += size * cells.COUNT
    at = len(raw) - cells.COUNT * cells.CELL_BYTES
    for thread in range(cells.COUNT):
        ours, theirs = (data[at + thread * cells.CELL_BYTES :][: cells.CELL_BYTES] for data in (raw, record.results))
        if ours != theirs:
            wrong.setdefault(thread, f"cell {ours.hex()}, expected {theirs.hex()}")
    if not wrong:
        return Verdict(domain, name, "exact", cells.COUNT)
    thread = min(wrong)
    columns, before = cells.columns_of(form, record.seed)
    given = " ".join([f"cell {before[thread].hex()}", *(f"{column[thread]:#x}" for column in columns)])
    return Verdict(domain, name, "differs", cells.COUNT, len(wrong), 1, f"({given}): {wrong[thread]}")


def compared(domain: str, name: str, record: Record, answers: list[list[int]]) -> Verdict:
    """The verdict on result columns."""
    count = len(record.results[0])
    found = golden.mismatches(record, answers)
    if not found:
        return Verdict(domain, name, "exact", count)
    kinds = [kind for kind, _ in result_operands(record.form)]
    far = max(
        golden.distance(kind, ours, theirs)
        for _, left, right in found
        for kind, ours, theirs in zip(kinds, left, right, strict=True)
    )
    given, ours, theirs = (" ".join(f"{value:#x}" for value in values) for values in found[0])
    outcome = outcome_of(len(found), far, admitted_ulp(record.form.instruction.opcode))
    return Verdict(domain, name, outcome, count, len(found), far, f"({given}): {ours}, expected {theirs}")
