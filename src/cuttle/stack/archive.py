"""Unpacking zip and tar archives that may be hostile: everything is checked by name first, then counted while it is written.

No link is ever made. A link in a tar archive whose target is a file of the same archive becomes a copy of it (ZLUDA's Linux archives name libraries so);
every other link refuses the archive.
"""

from __future__ import annotations

import errno
import hashlib
import posixpath
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cuttle.errors import StackError

MOST_MEMBERS = 50_000
# Of archives whose manifest gives no limit: the larger of a fixed amount and a multiple of the archive's own size.
LEAST_LIMIT_BYTES = 1 << 30
LIMIT_RATIO = 12
CHUNK_BYTES = 1 << 20

_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\.|$)", re.IGNORECASE)

Progress = Callable[[int, int | None], None]


class UnpackedFile:
    """A file that was written: its path below the folder with `/`, its size in bytes, its SHA-256."""

    __slots__ = ("path", "sha256", "size_bytes")

    def __init__(self, path: str, size_bytes: int, sha256: str) -> None:
        self.path, self.size_bytes, self.sha256 = path, size_bytes, sha256


@dataclass(frozen=True, slots=True)
class Member:
    """A member to be written. `source` is the member whose bytes it gets: itself, or what a link leads to."""

    path: str
    size_bytes: int
    executable: bool
    source: str


def safe_path(name: str) -> str:
    """The path of a member below the folder, with `/`. Raises STK-0301 for whatever could lead elsewhere, here or on Windows."""
    path = name.replace("\\", "/").rstrip("/")
    parts = path.split("/")
    problem = ""
    if not path or len(path) > 512 or path.startswith("/"):
        problem = "an absolute, empty or very long path"
    elif any(part in ("", ".", "..") for part in parts):
        problem = "a path that leaves the folder"
    elif re.search(r'[\x00-\x1f\x7f:*?"<>|]', path):
        problem = "a drive, a stream or characters that Windows does not allow"
    elif any(_DEVICES.match(part) or part.endswith((".", " ")) for part in parts):
        problem = "a device name or an end that Windows drops"
    if problem:
        raise StackError("STK-0301", f"member {name!r}: {problem}")
    return path


def _check_collisions(members: list[Member], folders: set[str]) -> None:
    seen: dict[str, str] = {}
    for member in members:
        key = member.path.casefold()
        if key in seen:
            raise StackError("STK-0301", f"members {seen[key]!r} and {member.path!r} would be one file on Windows")
        seen[key] = member.path
    for member in members:
        parts = member.path.casefold().split("/")
        for length in range(1, len(parts)):
            if "/".join(parts[:length]) in seen:
                raise StackError("STK-0301", f"member {member.path!r} lies in what is a file")
    for folder in folders:
        if folder.casefold() in seen:
            raise StackError("STK-0301", f"member {folder!r} is a file and a folder")


def _zip_members(archive: zipfile.ZipFile) -> tuple[list[Member], set[str]]:
    members, folders = [], set()
    for info in archive.infolist():
        # `filename` is what zipfile made of it (it cuts at NUL); the name as stored decides.
        path = safe_path(info.orig_filename)
        mode = info.external_attr >> 16
        if info.flag_bits & 1:
            raise StackError("STK-0301", f"member {path!r} is encrypted")
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise StackError("STK-0301", f"member {path!r} is a link or a device")
        if info.is_dir():
            folders.add(path)
        else:
            members.append(Member(path, info.file_size, bool(mode & 0o100), info.filename))
    return members, folders


def _tar_members(archive: tarfile.TarFile) -> tuple[list[Member], set[str]]:
    plain: dict[str, Member] = {}
    links: dict[str, str] = {}
    folders = set()
    for count, info in enumerate(archive):
        if count >= MOST_MEMBERS:
            raise StackError("STK-0303", f"more than {MOST_MEMBERS:,} members")
        if info.isdir() and posixpath.normpath(info.name) == ".":
            continue
        path = safe_path(info.name.removeprefix("./"))
        if path in plain or path in links:
            raise StackError("STK-0301", f"member {path!r} stands twice")
        if info.isdir():
            folders.add(path)
        elif info.isreg():
            plain[path] = Member(path, info.size, bool(info.mode & 0o100), info.name)
        elif info.issym() or info.islnk():
            base = posixpath.dirname(path) if info.issym() else ""
            target = posixpath.normpath(posixpath.join(base, info.linkname))
            if posixpath.isabs(info.linkname) or target.startswith(".."):
                raise StackError("STK-0301", f"member {path!r} is a link to {info.linkname!r}, outside the archive")
            links[path] = target
        else:
            raise StackError("STK-0301", f"member {path!r} is neither file nor folder")
    members = list(plain.values())
    for path, target in links.items():
        for _ in range(8):
            if target not in links:
                break
            target = links[target]
        if target not in plain:
            raise StackError("STK-0301", f"member {path!r} is a link to {target!r}, which is no file of the archive")
        end = plain[target]
        members.append(Member(path, end.size_bytes, end.executable, end.source))
    return members, folders


def unpack(
    archive: Path, folder: Path, bytes_limit: int | None = None, progress: Progress = lambda done, total: None
) -> list[UnpackedFile]:
    """Unpacks a zip or tar archive into `folder`, which must not exist, and returns its files.

    Raises STK-0301 (dangerous), STK-0302 (damaged), STK-0303 (too large), STK-0401 (disk full), STK-0406 (cannot write). What was written is
    then the caller's to remove: it lies in `folder` and nowhere else.
    """
    limit = bytes_limit or max(LEAST_LIMIT_BYTES, LIMIT_RATIO * archive.stat().st_size)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                if len(opened.infolist()) > MOST_MEMBERS:
                    raise StackError("STK-0303", f"more than {MOST_MEMBERS:,} members")
                members, folders = _zip_members(opened)
                return _write(members, folders, folder, limit, progress, lambda member: opened.open(member.source))
        with tarfile.open(archive, "r:*") as bundle:
            members, folders = _tar_members(bundle)

            def open_member(member: Member) -> IO[bytes]:
                stream = bundle.extractfile(member.source)
                if stream is None:
                    raise tarfile.TarError(f"{member.path} is no file")
                return stream

            return _write(members, folders, folder, limit, progress, open_member)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, UnicodeError) as error:
        raise StackError("STK-0302", f"{archive.name}: {type(error).__name__}: {error}") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StackError("STK-0401", f"{folder}: no room to unpack {archive.name}") from None
        if error.errno is None:  # gzip, bz2 and lzma say so when data is damaged
            raise StackError("STK-0302", f"{archive.name}: {error}") from None
        raise StackError("STK-0406", f"{error.filename or folder}: {error.strerror}") from None


def _write(
    members: list[Member], folders: set[str], folder: Path, limit: int, progress: Progress, open_member: Callable[[Member], IO[bytes]]
) -> list[UnpackedFile]:  # fmt: skip
    _check_collisions(members, folders)
    total = sum(member.size_bytes for member in members)
    if total > limit:
        raise StackError("STK-0303", f"it unpacks to {total:,} bytes; the limit is {limit:,}")
    folder.mkdir(parents=True)
    for name in sorted(folders):
        (folder / name).mkdir(parents=True, exist_ok=True)
    written, done = [], 0
    for member in members:
        path = folder / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        size = 0
        with open_member(member) as source, path.open("xb") as target:
            for chunk in _chunks(source, member):
                target.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                done += len(chunk)
                progress(done, total)
        if size != member.size_bytes:
            raise StackError("STK-0302", f"member {member.path!r} has {size:,} bytes, not {member.size_bytes:,}")
        path.chmod(0o755 if member.executable else 0o644)
        written.append(UnpackedFile(member.path, size, digest.hexdigest()))
    return written


def _chunks(source: IO[bytes], member: Member) -> Iterator[bytes]:
    """The bytes of a member; no more of them than its header says."""
    left = member.size_bytes
    while chunk := source.read(min(CHUNK_BYTES, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise StackError("STK-0303", f"member {member.path!r} is longer than its header says")
        yield chunk
