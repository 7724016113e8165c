"""Fetching one asset: resumed, retried, from mirrors, and not a file before its SHA-256 is right.

httpx2 does HTTP and stamina the retries (extra `stack`). What is ours: the `.part` file with the validator of the server's version, the
manifest's size as a limit, and the rule that no redirect leaves HTTPS.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urljoin

import msgspec

from cuttle.errors import StackError
from cuttle.stack.manifest import MOST_DOWNLOAD_BYTES, Asset, allowed_address, hash_file

MOST_REDIRECTS = 8
# A connection that brought this much before it broke does not count as a failed try.
PROGRESS_BYTES = 1 << 16

Progress = Callable[[int, int | None], None]


class Retryable(Exception):
    """A try failed in a way that may pass."""


class Abandon(Exception):
    """This address is of no use; another may be."""

    def __init__(self, error: StackError) -> None:
        super().__init__(str(error))
        self.error = error


def say_nothing(text: str) -> None:
    """For callers that nobody watches."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try. `tries` without progress for each address; seconds of the first and the longest pause; time-outs of the network.

    `tell` is called with a sentence when something failed and is tried again.
    """

    tries: int = 5
    first_pause: float = 0.5
    longest_pause: float = 20.0
    connect_seconds: float = 15.0
    read_seconds: float = 30.0
    tell: Callable[[str], None] = say_nothing


class PartRecord(msgspec.Struct):
    """What a `.part` file is a part of: its address and the server's validator (a strong ETag or a date)."""

    url: str
    validator: str


def take(asset: Asset, file: Path) -> Path:
    """A file at hand instead of a download: `file` itself, if it is what the manifest pins. Raises STK-0102, STK-0202, STK-0406."""
    digest = asset.require_hash()
    try:
        found, _ = hash_file(file)
    except OSError as error:
        raise StackError("STK-0406", f"{file}: {error.strerror}") from None
    if found != digest:
        raise StackError(
            "STK-0202",
            f"{file}: SHA-256 is {found}, not {digest}",
            hint="`cuttle stack pin` makes a manifest of it, if you trust it.",
        )
    return file


def addresses(asset: Asset, mirrors: Sequence[str]) -> list[str]:
    """Where to look, in order: mirrors (their folder plus the file's name), then the manifest's addresses. Raises STK-0204."""
    found = []
    for mirror in mirrors:
        found.append(mirror if mirror.endswith(asset.file) else mirror.rstrip("/") + "/" + quote(asset.file))
    found += asset.urls
    for url in found:
        if not allowed_address(url):
            raise StackError("STK-0204", f"{url} is no HTTPS address")
    return found


def fetch(
    asset: Asset, folder: Path, mirrors: Sequence[str] = (), progress: Progress = lambda done, total: None, patience: Patience | None = None
) -> Path:  # fmt: skip
    """The verified file of an asset in `folder`, fetched unless it is there. `progress(done, total)` in bytes.

    Raises STK-0102 (no hash), STK-0201 (cannot be had), STK-0202 (wrong hash), STK-0203 (wrong size), STK-0204 (insecure), STK-0401 (disk full).
    """
    digest = asset.require_hash()
    path = folder / f"{digest}-{asset.file}"
    if path.is_file() and hash_file(path)[0] == digest:
        progress(path.stat().st_size, path.stat().st_size)
        return path
    problems: list[StackError] = []
    for url in addresses(asset, mirrors):
        # A resumed file may be pieced together of two versions that the server did not tell apart: then once more from the start.
        for attempt in range(2):
            try:
                resumed = _fetch_from(url, asset, path, progress, patience or Patience())
                _settle(path, digest)
                return path
            except Abandon as abandoned:
                problems.append(abandoned.error)
                if abandoned.error.code != "STK-0202" or attempt or not resumed:
                    break
    if not problems:
        raise StackError("STK-0201", f"{asset.file} has no address")
    # The most telling reason: a wrong file is worth more than a dead server.
    worst = next((problem for problem in problems if problem.code in ("STK-0202", "STK-0203")), problems[-1])
    raise worst


def _settle(path: Path, digest: str) -> None:
    """Renames the `.part` file if its hash is right; else deletes it."""
    part = _part(path)
    found, _ = hash_file(part)
    if found != digest:
        _forget(path)
        raise Abandon(StackError("STK-0202", f"{path.name.partition('-')[2]}: SHA-256 is {found}, not {digest}"))
    os.replace(part, path)
    _record_path(path).unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + ".part.json")


def _forget(path: Path) -> None:
    _part(path).unlink(missing_ok=True)
    _record_path(path).unlink(missing_ok=True)


def _read_record(path: Path) -> PartRecord | None:
    try:
        return msgspec.json.decode(_record_path(path).read_bytes(), type=PartRecord)
    except (OSError, msgspec.DecodeError):
        return None


def _fetch_from(url: str, asset: Asset, path: Path, progress: Progress, patience: Patience) -> bool:
    """Brings the `.part` file to its full length from one address; whether some of it was there before. Raises Abandon."""
    try:
        import httpx2
        import stamina
    except ImportError as error:
        raise StackError("STK-0105", f"the package {error.name} is missing") from None
    # The library's own way to report retries; without hooks it logs them.
    stamina.instrumentation.set_on_retry_hooks(
        [lambda details: patience.tell(f"{details.caused_by}; next try in {details.wait_for:.1f} s")]
    )
    timeout = httpx2.Timeout(patience.read_seconds, connect=patience.connect_seconds)
    resumed = _part(path).exists()
    with httpx2.Client(timeout=timeout, follow_redirects=False, headers={"Accept-Encoding": "identity"}) as client:
        try:
            for attempt in stamina.retry_context(
                on=Retryable,
                attempts=patience.tries,
                timeout=None,
                wait_initial=patience.first_pause,
                wait_max=patience.longest_pause,
                wait_jitter=patience.first_pause / 2,
            ):
                with attempt:
                    while True:
                        before = _size(_part(path))
                        try:
                            _one_try(client, url, asset, path, progress)
                            return resumed
                        except httpx2.TransportError as error:
                            if _size(_part(path)) < before + PROGRESS_BYTES:
                                raise Retryable(f"{type(error).__name__}: {error}") from None
                            patience.tell(f"{type(error).__name__}: {error}; going on from there")
                            resumed = True
                        except httpx2.HTTPError as error:
                            raise Abandon(StackError("STK-0201", f"{url}: {type(error).__name__}: {error}")) from None
        except Retryable as error:
            raise Abandon(StackError("STK-0201", f"{url}: {error}, after {patience.tries} tries")) from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StackError("STK-0401", f"{path.parent}: no room for {asset.file}") from None
            raise StackError("STK-0406", f"{path.parent}: {error.strerror or error}") from None
    return resumed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _one_try(client: object, url: str, asset: Asset, path: Path, progress: Progress) -> None:
    """One request, from where the `.part` file ends. Raises httpx2's errors, Retryable, Abandon, OSError."""
    import httpx2

    assert isinstance(client, httpx2.Client)
    limit = asset.size_bytes or MOST_DOWNLOAD_BYTES
    start, record = _size(_part(path)), _read_record(path)
    if start and (record is None or record.url != url or start > limit):
        _forget(path)
        start = 0
    if start and asset.size_bytes == start:
        return
    headers = {}
    if start and record is not None:
        headers = {"Range": f"bytes={start}-", "If-Range": record.validator}
    address = url
    for _ in range(MOST_REDIRECTS + 1):
        with client.stream("GET", address, headers=headers) as response:
            if response.status_code in (301, 302, 303, 307, 308):
                address = urljoin(address, response.headers.get("Location", ""))
                if not allowed_address(address):
                    raise Abandon(StackError("STK-0204", f"{url} redirects to {address}"))
                continue
            _take(response, url, asset, path, start, limit, progress)
            return
    raise Abandon(StackError("STK-0201", f"{url}: more than {MOST_REDIRECTS} redirects"))


def _take(
    response: object, url: str, asset: Asset, path: Path, start: int, limit: int, progress: Progress
) -> None:  # fmt: skip
    """Writes the body of an answer behind what is there, or anew if the server sends all of it."""
    import httpx2

    assert isinstance(response, httpx2.Response)
    status = response.status_code
    if status == 416:
        # The file has another length than before: what we have is no part of it.
        _forget(path)
        raise Retryable("the server holds another file than before")
    if status in (408, 425, 429) or status >= 500:
        raise Retryable(f"HTTP {status}")
    if status not in (200, 206):
        raise Abandon(StackError("STK-0201", f"{url}: HTTP {status}"))
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Abandon(StackError("STK-0201", f"{url}: the server encodes the file ({response.headers['Content-Encoding'][:32]})"))  # fmt: skip
    if status == 206:
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", ""))
        if not start or match is None or int(match[1]) != start:
            _forget(path)
            raise Retryable("the server sent another part than asked for")
        total = int(match[3]) if match[3] != "*" else None
    else:
        start = 0
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isascii() and length.isdigit() else None
    if asset.size_bytes is not None and total is not None and total != asset.size_bytes:
        _forget(path)
        raise Abandon(StackError("STK-0203", f"{url}: {total:,} bytes, not {asset.size_bytes:,}"))
    if start == 0:
        _forget(path)
        # A weak ETag promises equal meaning, not equal bytes.
        etag = response.headers.get("ETag", "")
        validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
        if validator:
            _record_path(path).write_bytes(msgspec.json.encode(PartRecord(url, validator)))
    done = start
    with open(_part(path), "ab" if start else "wb") as file:
        for chunk in response.iter_raw():
            done += len(chunk)
            if done > limit:
                file.close()
                _forget(path)
                raise Abandon(StackError("STK-0203", f"{url}: more than {limit:,} bytes"))
            file.write(chunk)
            progress(done, asset.size_bytes or total)
        file.flush()
        os.fsync(file.fileno())
    expected = asset.size_bytes or total
    if expected is not None and done < expected:
        raise Retryable(f"the connection ended after {done:,} of {expected:,} bytes")
