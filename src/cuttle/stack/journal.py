"""The records of an installation and the steps between them, written so that a kill at any point is finished or undone by the next run.

A change is announced in `journal.json` before it is made. States: `unpacking` (nothing visible yet: undo), `placing` (the new folder is complete below
`staging/`: finish), `removing` (finish). Each transition is one atomic rename.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from cuttle.errors import StackError
from cuttle.stack.archive import safe_path
from cuttle.stack.file_lock import try_lock

SCHEMA = 1
MOST_RECORD_BYTES = 64 << 20

# Called with the name of every point at which a kill must do no harm; tests kill there.
Step = Callable[[str], None]

RelativePath = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
FolderName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][A-Za-z0-9.+_-]{0,80}$(?!\n)")]


class InstalledFile(msgspec.Struct, frozen=True):
    """A file as it was unpacked: path below the component's folder with `/`, size in bytes, SHA-256."""

    path: RelativePath
    size_bytes: int
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """What one asset became. `folder` is its name below the root, `home` the folder in it that holds the libraries."""

    name: str
    kind: Literal["engine", "libtorch"]
    version: str
    folder: FolderName
    home: str
    asset_file: str
    asset_sha256: str
    files: list[InstalledFile]


class Installed(msgspec.Struct, frozen=True):
    """`installed.json`: all components, by name."""

    schema: int = SCHEMA
    channel: str = ""
    engine: str = ""
    components: dict[str, Component] = {}


class Journal(msgspec.Struct, frozen=True):
    """`journal.json`: the change that is going on.

    `staging` is the folder's name below `staging/`; `before` the folder of another version that goes when the new one is recorded.
    """

    state: Literal["unpacking", "placing", "removing"]
    staging: FolderName
    component: Component | None = None
    before: FolderName | None = None


def no_step(name: str) -> None:
    """Steps outside of tests."""


def write_atomically(path: Path, data: bytes) -> None:
    """All or nothing, also when the machine loses power. Raises STK-0401 or STK-0406."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        error.filename = None  # of the temporary file, which says nothing to a user
        raise write_error(error, path) from None


def write_error(error: OSError, path: Path) -> StackError:
    """What an OSError while writing means to a user."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StackError("STK-0401", f"{path}: no room")
    return StackError("STK-0406", f"{error.filename or path}: {error.strerror or error}")


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder last. Windows has no such thing and needs none."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Record = TypeVar("Record")


def encode(record: msgspec.Struct) -> bytes:
    """The JSON of a record, as it stands in files."""
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """A record from its file, checked; None if there is none. Raises STK-0403."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RECORD_BYTES + 1)
        if len(data) > MOST_RECORD_BYTES:
            raise StackError("STK-0403", f"{path} is longer than {MOST_RECORD_BYTES:,} bytes")
        return msgspec.json.decode(data, type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StackError("STK-0403", f"{path}: {error}") from None
    except OSError as error:
        raise StackError("STK-0403", f"{path}: {error.strerror}") from None


def _check(component: Component) -> None:
    """Paths of a record must stay in its folder: they are removed and compared. Raises STK-0403."""
    try:
        for file in component.files:
            safe_path(file.path)
        if component.home:
            safe_path(component.home)
    except StackError as error:
        raise StackError("STK-0403", f"record of {component.folder}: {error.message}") from None


def _unlink(path: Path) -> None:
    """Removes a file, read-only ones of Windows too."""
    try:
        path.unlink()
    except PermissionError:
        os.chmod(path, 0o600)
        path.unlink()


def remove_tree(folder: Path) -> None:
    """Removes a folder of ours with all that is in it; a link is removed, not what it leads to. Raises STK-0406."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return

    def again(function: Callable[[str], object], path: str, _: object) -> None:
        os.chmod(path, 0o700)
        function(path)

    try:
        if folder.exists():
            shutil.rmtree(folder, onerror=again)
    except OSError as error:
        raise write_error(error, folder) from None


class Root:
    """The folder of an installation."""

    def __init__(self, path: Path, step: Step = no_step) -> None:
        self.path, self.step = path, step

    @property
    def downloads(self) -> Path:
        """Verified archives, and parts of them that the next try goes on with."""
        return self.path / "downloads"

    @property
    def staging(self) -> Path:
        """What is being unpacked; never holds anything that is installed."""
        return self.path / "staging"

    @property
    def results(self) -> Path:
        """`<verb>.json`: the data of the last scan, check, probe and bench."""
        return self.path / "results"

    @contextlib.contextmanager
    def locked(self) -> Iterator[str]:
        """Holds the lock and first settles what a killed process left; gives what had to be done (`recover`). Raises STK-0402, STK-0403, STK-0406."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("a+b")
        except OSError as error:
            raise write_error(error, self.path) from None
        with file:
            try:
                try_lock(file.fileno())
            except OSError:
                raise StackError("STK-0402", f"{self.path} is in use by another process") from None
            yield self.recover()

    def settle_leftovers(self) -> str:
        """For commands that only read: finishes or undoes what a killed process left, unless somebody is at work right now."""
        if not (self.path / "journal.json").exists():
            return ""
        try:
            with self.locked() as recovered:
                return recovered
        except StackError as error:
            if error.code == "STK-0402":
                return ""
            raise

    def installed(self) -> Installed:
        """What is installed; nothing if there is no record. Raises STK-0403."""
        record = read_record(self.path / "installed.json", Installed) or Installed()
        if record.schema != SCHEMA:
            raise StackError("STK-0403", f"{self.path / 'installed.json'} has schema {record.schema}, not {SCHEMA}")
        for component in record.components.values():
            _check(component)
        return record

    def write_installed(self, record: Installed) -> None:
        """Replaces `installed.json`."""
        write_atomically(self.path / "installed.json", encode(record))

    def journal(self) -> Journal | None:
        """The change that was going on, if any. Raises STK-0403."""
        record = read_record(self.path / "journal.json", Journal)
        if record is not None and record.component is not None:
            _check(record.component)
        return record

    def announce(self, journal: Journal) -> None:
        """Writes the journal; from here on the next run knows."""
        write_atomically(self.path / "journal.json", encode(journal))
        self.step(f"announced {journal.state}")

    def settle(self) -> None:
        """The change is complete: removes the journal."""
        (self.path / "journal.json").unlink(missing_ok=True)
        sync_folder(self.path)
        self.step("settled")

    def recover(self) -> str:
        """Finishes or undoes what the journal says; what it did, or an empty string."""
        journal = self.journal()
        (self.path / "journal.json.tmp").unlink(missing_ok=True)
        (self.path / "installed.json.tmp").unlink(missing_ok=True)
        if journal is None:
            remove_tree(self.staging)  # what a kill before the first announcement or after the last left
            return ""
        if journal.state == "unpacking":
            remove_tree(self.staging)
            self.settle()
            return "rolled back"
        if journal.component is None:
            raise StackError("STK-0403", f"{self.path / 'journal.json'} names no component")
        if journal.state == "placing":
            self.place(journal)
        else:
            self.remove(journal.component)
        return "finished"

    def place(self, journal: Journal) -> None:
        """From `placing` to the end; every step may have been done already."""
        component = journal.component
        assert component is not None
        fresh, final = self.staging / journal.staging, self.path / component.folder
        try:
            if fresh.exists():
                if final.exists():
                    # Another version of the same component that was damaged: out of the way first.
                    old = self.staging / "replaced"
                    remove_tree(old)
                    os.rename(final, old)
                    self.step("moved the old folder away")
                os.rename(fresh, final)
                sync_folder(self.path)
                self.step("renamed into place")
        except OSError as error:
            raise write_error(error, final) from None
        record = self.installed()
        components = {**record.components, component.name: component}
        self.write_installed(msgspec.structs.replace(record, components=components))
        self.step("recorded")
        if journal.before is not None and journal.before != component.folder:
            remove_tree(self.path / journal.before)
            self.step("removed the version before")
        remove_tree(self.staging)
        self.step("removed staging")
        self.settle()

    def remove(self, component: Component) -> None:
        """From `removing` to the end: the files that are recorded, then empty folders. Files of others stay."""
        folder = self.path / component.folder
        if folder.is_symlink():
            raise StackError("STK-0403", f"{folder} is a link; its files are left alone")
        for file in component.files:
            with contextlib.suppress(FileNotFoundError):
                _unlink(folder / file.path)
        self.step("removed files")
        for parent, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(parent)
        record = self.installed()
        components = {name: other for name, other in record.components.items() if name != component.name}
        engine = "" if record.engine == component.name else record.engine
        self.write_installed(msgspec.structs.replace(record, components=components, engine=engine))
        self.step("recorded")
        self.settle()
