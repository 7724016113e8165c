"""`cuttle stack scan`: the AMD GPUs of this machine, its HIPs and math libraries."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, size_text
from cuttle.cli.result import FINDINGS, Block, Problem, Remark, Result, Table
from cuttle.cli.stack import root_option
from cuttle.errors import StackError
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.machine import Gpu, Machine, select
from cuttle.stack.scan import keep, read_machine
from cuttle.stack.scan import scan as scan_machine


def gpu_row(gpu: Gpu, chosen: Gpu | None) -> tuple[str, ...]:
    memory = size_text(gpu.memory_bytes) if gpu.memory_bytes else "-"
    states = (gpu.support[engine].state if engine in gpu.support else "-" for engine in ("cuttle", "zluda"))
    mark = "*" if chosen is not None and gpu.index == chosen.index else ""
    hip = str(gpu.hip_index) if gpu.hip_index is not None else "-"
    kind = "integrated" if gpu.integrated else "discrete"
    return (f"{gpu.index}{mark}", gpu.name, gpu.target or "?", gpu.generation, kind, memory, hip, *states)


def machine_blocks(machine: Machine, verbose: bool) -> list[Block]:
    """What a person wants to see of a machine."""
    blocks: list[Block] = []
    if machine.gpus:
        chosen = select(machine)
        columns = ("#", "name", "target", "generation", "kind", "memory", "HIP", "cuttle", "zluda")
        rows = [gpu_row(gpu, chosen) for gpu in machine.gpus]
        blocks.append(Table(columns, rows, frozenset({"memory"})))
    details = [("system", f"{machine.platform} {machine.os_version}{' (WSL)' if machine.wsl else ''}")]
    details += [("HIP", f"{hip.version or hip.major or '?'} ({hip.origin})") for hip in machine.hip] or [
        ("HIP", "not found")
    ]
    if machine.platform == "linux":
        details.append(("/dev/kfd", machine.kfd))
    if verbose:
        details += [
            (library.name, library.version if library.state == "found" else library.problem)
            for library in machine.math_libraries
        ]
        details += [
            (f"{gpu.index}: {name}", f"{found.state}: {found.evidence}")
            for gpu in machine.gpus
            for name, found in gpu.support.items()
        ]
        details += [
            (f"{gpu.index}: driver", " ".join((gpu.driver, gpu.driver_version)).strip()) for gpu in machine.gpus
        ]
    blocks.append(Table(("property", "value"), details))
    blocks += [Remark(f"note: {problem}") for problem in machine.problems]
    return blocks  # fmt: skip


@verb("stack scan")
@root_option
@click.option("--from", "stored", type=click.Path(path_type=Path, dir_okay=False), help="Show a stored scan.")
@click.option("--gpu-report", type=click.Path(path_type=Path, dir_okay=False), help="Also write gpu-report.json here.")
def command(style: Style, root_path: Path | None, stored: Path | None, gpu_report: Path | None) -> Result:
    """Show AMD GPUs with their targets, drivers, HIP and math libraries, and what is known of each under each engine.

    Records nothing personal: no names of users, hosts or files. Exit 1 if there is no AMD GPU.
    """
    problems = []
    machine = read_machine(stored) if stored is not None else scan_machine()
    blocks = machine_blocks(machine, style.verbose)
    if stored is None:
        try:
            keep(Root(root_path or default_root()), "scan", machine)
        except StackError as error:
            blocks.append(Remark(f"note: not stored: {error.message}"))
    if gpu_report is not None:
        from cuttle.stack.runtime_config import write_report
        from cuttle.stack.setup import scripts_report

        write_report(gpu_report, scripts_report(machine, "zluda"))
    if not machine.gpus:
        problems.append(Problem("STK-0701", "no AMD GPU was found", StackError("STK-0701", "").hint))
    data = msgspec.to_builtins(machine)
    return Result("stack scan", data, blocks, problems, FINDINGS if problems else 0)
