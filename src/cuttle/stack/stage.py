"""Placing an engine's libraries beside a program, and taking them away again.

`.cuttle-stage.json` in the folder says what was placed; it is there before the first file and goes after the last, so whatever is killed in between can
be undone. A file that was not placed by us is never touched: new names are linked in with a call that fails if the name exists.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from cuttle.errors import StackError
from cuttle.stack.file_lock import folder_lock
from cuttle.stack.journal import encode, write_atomically, write_error
from cuttle.stack.manifest import hash_file

RECORD_NAME = ".cuttle-stage.json"
TEMPORARY = ".cuttle-stage-new"
SCHEMA = 1

Step = Callable[[str], None]
PlainName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$(?!\n)")]


class StagedFile(msgspec.Struct, frozen=True):
    """A file that was (or is about to be) placed."""

    name: PlainName
    size_bytes: int
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class StageRecord(msgspec.Struct, frozen=True):
    """`.cuttle-stage.json`. `state` `placing`: a stage was not finished."""

    schema: int
    state: Literal["placing", "placed"]
    engine: str
    version: str
    files: list[StagedFile]


class StageResult(msgspec.Struct, frozen=True):
    """What `stage` and `unstage` did. `kept`: files that were there already with the same content (stage), or that were changed since (unstage)."""

    folder: str
    engine: str
    version: str
    placed: list[str]
    removed: list[str]
    kept: list[str]


def no_step(name: str) -> None:
    """Steps outside of tests."""


def read_record(folder: Path) -> StageRecord | None:
    """What is staged in a folder. Raises STK-0505."""
    path = folder / RECORD_NAME
    try:
        record = msgspec.json.decode(path.read_bytes(), type=StageRecord)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StackError("STK-0505", f"{path}: {error}") from None
    except OSError as error:
        raise StackError("STK-0505", f"{path}: {error.strerror}") from None
    if record.schema != SCHEMA:
        raise StackError("STK-0505", f"{path} has schema {record.schema}, not {SCHEMA}")
    return record


def _describe(path: Path) -> StagedFile:
    digest, size = hash_file(path)
    return StagedFile(path.name, size, digest)


def _same(path: Path, file: StagedFile) -> bool:
    """Whether a regular file has the recorded content. A link never has."""
    try:
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and status.st_size == file.size_bytes and hash_file(path)[0] == file.sha256
    except OSError:
        return False


def _existing(folder: Path) -> dict[str, str]:
    """Names in a folder by their lower-case form: Windows does not tell them apart."""
    return {name.lower(): name for name in os.listdir(folder)}


def stage(folder: Path, engine: str, version: str, sources: Sequence[Path], step: Step = no_step) -> StageResult:
    """Places libraries in `folder`; all of them or, if it cannot, none.

    Several at once wait for each other. Raises STK-0501 (a file is in the way), STK-0503 (not writable), STK-0505, STK-0506 (another engine is staged), STK-0603 (no libraries).
    """
    with folder_lock(folder):
        return _stage(folder, engine, version, sources, step)


def _stage(folder: Path, engine: str, version: str, sources: Sequence[Path], step: Step) -> StageResult:
    if not sources:
        raise StackError("STK-0603", f"the engine {engine} has no libraries here")
    if not folder.is_dir():
        raise StackError("STK-0503", f"{folder} is no folder")
    try:
        # Hashing leaves the interpreter's lock: several at a time.
        with ThreadPoolExecutor(4) as pool:
            files = list(pool.map(_describe, sources))
    except OSError as error:
        raise StackError("STK-0603", f"{error.filename}: {error.strerror}") from None
    record = read_record(folder)
    if record is not None and record.state == "placing":
        _unstage(folder, step)
        record = None
    if record is not None:
        if (record.engine, record.version) != (engine, version):
            raise StackError("STK-0506", f"{record.engine} {record.version} is staged in {folder}")
        with ThreadPoolExecutor(4) as pool:
            in_place = record.files == files and all(pool.map(lambda file: _same(folder / file.name, file), files))
        if in_place:
            return StageResult(str(folder), engine, version, [], [], [file.name for file in files])
        # Files are missing, were changed, or the engine was rebuilt.
        if changed := _unstage(folder, step).kept:
            raise StackError("STK-0504", f"{folder / changed[0]} was changed since it was staged")
    return _place(folder, engine, version, sources, files, step)


def _place(
    folder: Path, engine: str, version: str, sources: Sequence[Path], files: list[StagedFile], step: Step
) -> StageResult:
    try:
        existing = _existing(folder)
    except OSError as error:
        raise StackError("STK-0503", f"{folder}: {error.strerror}") from None
    kept, to_place, blocked = [], [], []
    for source, file in zip(sources, files, strict=True):
        there = existing.get(file.name.lower())
        if there is None:
            to_place.append((source, file))
        elif _same(folder / there, file):
            kept.append(there)  # it is the very library, but somebody else put it there: not ours to remove
        else:
            blocked.append(there)
    if blocked:
        raise StackError("STK-0501", f"{folder} already holds {', '.join(sorted(blocked))}")
    placed = [file for _, file in to_place]
    placing = StageRecord(SCHEMA, "placing", engine, version, placed)
    try:
        write_atomically(folder / RECORD_NAME, encode(placing))
    except StackError as error:
        raise StackError("STK-0503", error.message) from None
    step("recorded")
    try:
        for source, file in to_place:
            _place_one(source, folder / file.name, folder / TEMPORARY, step)
    except OSError as error:
        _undo(folder, step)
        if error.errno == errno.EEXIST:
            raise StackError("STK-0501", f"{error.filename2 or error.filename} appeared meanwhile") from None
        raise StackError("STK-0503", write_error(error, folder).message) from None
    write_atomically(folder / RECORD_NAME, encode(msgspec.structs.replace(placing, state="placed")))
    step("placed")
    return StageResult(str(folder), engine, version, [file.name for file in placed], [], kept)


def _place_one(source: Path, target: Path, temporary: Path, step: Step) -> None:
    """Copies a file under another name and gives it its own only if that is free. Raises OSError."""
    temporary.unlink(missing_ok=True)
    shutil.copyfile(source, temporary)
    os.chmod(temporary, 0o755)
    step(f"copied {target.name}")
    try:
        if os.name == "nt":
            os.rename(temporary, target)  # fails there if the name exists
        else:
            os.link(temporary, target)
            temporary.unlink()
    except OSError as error:
        if os.name == "nt" or error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links (FAT): exclusive creation has the same promise, but can be killed half-way, which `unstage` sees.
        with target.open("xb") as file, temporary.open("rb") as copy:
            shutil.copyfileobj(copy, file)
        temporary.unlink()
    step(f"placed {target.name}")


def _undo(folder: Path, step: Step) -> None:
    """Takes back a stage that failed; what cannot be taken back now stays recorded."""
    with contextlib.suppress(StackError, OSError):
        _unstage(folder, step)


def unstage(folder: Path, step: Step = no_step) -> StageResult:
    """Removes what was staged. Files whose content changed since stay and are named in `kept`.

    Raises STK-0502 (nothing is staged), STK-0503, STK-0505.
    """
    with folder_lock(folder):
        return _unstage(folder, step)


def _unstage(folder: Path, step: Step) -> StageResult:
    record = read_record(folder)
    if record is None:
        raise StackError("STK-0502", f"nothing is staged in {folder}")
    removed, kept = [], []
    try:
        (folder / TEMPORARY).unlink(missing_ok=True)
        for file in record.files:
            path = folder / file.name
            if not os.path.lexists(path):
                continue
            if not _same(path, file):
                kept.append(file.name)
                continue
            try:
                path.unlink()
            except PermissionError:  # read-only on Windows
                path.chmod(0o600)
                path.unlink()
            removed.append(file.name)
            step(f"removed {file.name}")
        (folder / RECORD_NAME).unlink()
        with contextlib.suppress(OSError):
            (folder / (RECORD_NAME + ".tmp")).unlink(missing_ok=True)
        step("unstaged")
    except OSError as error:
        raise StackError("STK-0503", f"{error.filename or folder}: {error.strerror}") from None
    return StageResult(str(folder), record.engine, record.version, [], removed, kept)
