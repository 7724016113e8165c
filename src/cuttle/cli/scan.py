"""`cuttle scan`: which files carry device code, and whether Cuttle can run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, count_text, size_text
from cuttle.cli.result import FINDINGS, Block, Problem, Remark, Result, Table, Text, failure
from cuttle.errors import CuttleError, visible
from cuttle.ptx.scan import ScanFile, ScanReport, scan_path

RUNNABLE = ("runs", "libraries only")


def unsupported_reason(root: str, modifiers: tuple[str, ...]) -> str | None:
    """Why an instruction is not translated, or None."""
    from cuttle.ptx.refusals import reason_against

    found = reason_against(root, modifiers)
    return found[1] if found is not None else None


def code_text(file: ScanFile, kind: str) -> str:
    """Targets of one kind of code with version and compression: `compute_80 (8.8, zstd)`."""
    parts = []
    for code in file.code:
        if (code.kind == "ptx") != (kind == "ptx"):
            continue
        extra = ", ".join(
            part for part in (code.version, code.compression if code.compression != "none" else "") if part
        )
        parts.append(f"{code.target} ({extra})" if extra else code.target)
    return " ".join(dict.fromkeys(parts)) or "-"


def details(file: ScanFile, verbose: bool) -> list[str]:
    """Lines under the table about one file: what is wrong and what can be done."""
    lines = []
    if verbose:
        lines += [f"kernel: {name}" for name in file.kernels]
        lines += [f"CUDA library: {name}" for name in file.libraries]
        lines += [
            f"{code.kind} {code.target} {code.version}: {code.entries} entries, {size_text(code.stored_bytes)}"
            f"{'' if code.compression == 'none' else ' ' + code.compression}"
            for code in file.code
        ]
    for use in file.unsupported:
        examples = ", ".join(use.examples[:3])
        lines.append(f"{use.instruction}: {use.reason}; in {use.functions} functions ({examples})")
    lines += [f"note: {note}" for note in file.notes]
    if file.hint:
        lines.append(f"hint: {file.hint}")
    return lines


def blocks_of(report: ScanReport, verbose: bool) -> list[Block]:
    if not report.files:
        return [Remark(f"no device code in {count_text(report.files_seen, 'file')}")]
    root = Path(report.root)
    base = root if root.is_dir() else root.parent
    rows = []
    remarks = []
    for file in report.files:
        name = os.path.relpath(file.path, base)
        rows.append(
            (
                name,
                file.format,
                str(len(file.kernels)),
                code_text(file, "ptx"),
                code_text(file, "machine"),
                file.verdict,
            )
        )
        lines = details(file, verbose)
        if lines:
            remarks.append("\n".join([f"{name}:", *(f"  {line}" for line in lines)]))
    columns = ("file", "format", "kernels", "PTX", "machine code", "verdict")
    blocks: list[Block] = [Table(columns, rows, frozenset({"kernels"}))]
    blocks += [Text("\n" + remark) for remark in remarks]
    return blocks


@verb("scan")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--compute-capability", "capability", default="8.0", metavar="X.Y", help="Choose PTX as for this device.")
def command(style: Style, path: Path, capability: str) -> Result:
    """Say which programs and libraries in FILE or DIR carry device code, for which targets, and whether it can run.

    Exit 1 if some of it cannot.
    """
    if not path.exists():
        return failure("scan", CuttleError("CLI-0501", f"{path}: no such file or folder"), FINDINGS)
    major, _, minor = capability.partition(".")
    if not (major.isdigit() and (minor or "0").isdigit()):
        raise click.BadParameter(f"{capability} is no compute capability such as 8.0")

    def progress(name: str) -> None:
        if sys.stderr.isatty() and not style.quiet and not style.json:
            sys.stderr.write(f"\r\x1b[K{visible(name[-100:])}")
            sys.stderr.flush()

    report = scan_path(path, unsupported_reason, (int(major), int(minor or 0)), progress)
    progress("")
    problems = [Problem("CLI-0501", text) for text in report.unreadable]
    bad = [file for file in report.files if file.verdict not in RUNNABLE]
    code = FINDINGS if bad or problems else 0
    return Result("scan", report.as_json(), blocks_of(report, style.verbose), problems, code)
