"""`scan`: this machine, with what may be said of each of its GPUs. Results are kept so that `plan` and `report` need not look again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from cuttle.abi.stack_engines import ENGINES
from cuttle.errors import StackError
from cuttle.stack.journal import Root, encode, write_atomically, write_error
from cuttle.stack.machine import Machine
from cuttle.stack.support import VERIFIED_FOLDER, support

MOST_RESULT_BYTES = 16 << 20


def with_support(machine: Machine, folder: Path = VERIFIED_FOLDER) -> Machine:
    """The machine with the support state of every GPU under every engine."""
    gpus = [
        msgspec.structs.replace(gpu, support={engine.name: support(engine.name, gpu.target, folder) for engine in ENGINES})
        for gpu in machine.gpus
    ]  # fmt: skip
    return msgspec.structs.replace(machine, gpus=gpus)


def scan() -> Machine:
    """This machine. Nothing is changed and no library of AMD's is loaded; on Windows hipInfo, PowerShell and reg are run."""
    if sys.platform == "win32":
        from cuttle.device.hip.find_library import Place
        from cuttle.stack.scan_windows import collect, scan_windows

        return with_support(scan_windows(collect(), Place(True, os.environ)))
    from cuttle.stack.scan_linux import scan_linux

    return with_support(scan_linux())


def keep(root: Root, verb: str, result: msgspec.Struct) -> None:
    """Stores the data of a verb below the root."""
    try:
        root.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(error, root.results) from None
    write_atomically(root.results / f"{verb}.json", encode(result))


def read_machine(path: Path) -> Machine:
    """A stored scan, checked. Raises STK-0703."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RESULT_BYTES + 1)
        return msgspec.json.decode(data, type=Machine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StackError("STK-0703", f"{path.name}: {error}") from None
    except OSError as error:
        raise StackError("STK-0703", f"{path.name}: {error.strerror}") from None


def known_machine(root: Root) -> Machine:
    """The stored scan, or a new one where there is none."""
    path = root.results / "scan.json"
    return read_machine(path) if path.exists() else scan()
