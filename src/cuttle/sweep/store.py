"""Verdicts in SQLite: a sweep that was stopped goes on where it was.

The file may come from anywhere, so it is checked before it is used: kind, version, integrity, the shape of its rows.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from cuttle.errors import SweepError
from cuttle.sweep.domains import FILES, Item
from cuttle.sweep.verdict import OUTCOMES, Verdict

APPLICATION_ID = 0x43545357  # CTSW
SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE verdicts (
    domain TEXT NOT NULL, form TEXT NOT NULL, outcome TEXT NOT NULL, elements INTEGER NOT NULL,
    differing INTEGER NOT NULL, max_ulp REAL NOT NULL, first TEXT NOT NULL, text TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (domain, form)
) WITHOUT ROWID;
"""
_COLUMNS = "domain, form, outcome, elements, differing, max_ulp, first, text, seconds"
_TYPES: tuple[type | tuple[type, ...], ...] = (str, str, str, int, int, (int, float), str, str, (int, float))


def identity(device: str, version: str, domains: Iterable[str], folder: Path) -> dict[str, str]:
    """What verdicts depend on: device, version of Cuttle, and the recordings of all domains asked for."""
    found = {"device": device, "cuttle": version}
    for domain in sorted(set(domains) & set(FILES)):
        found[f"recording {domain}"] = hashlib.sha256((folder / FILES[domain]).read_bytes()).hexdigest()[:16]
    return found


def refuse_to_forget(path: Path) -> None:
    """Raises SweepError (`SWP-0201`) if a file is there that no sweep made: it is not ours to delete."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SweepError("SWP-0201", f"{path}: {error.strerror}") from None
    # SQLite's file header: the application's number stands at byte 68.
    if head and (not head.startswith(b"SQLite format 3\0") or head[68:] != APPLICATION_ID.to_bytes(4, "big")):
        raise SweepError("SWP-0201", f"{path} is no results file of a sweep, and is not deleted")


class Store:
    """The results file of a sweep; made if it is not there. Raises SweepError (`SWP-0201`, `SWP-0202`)."""

    def __init__(self, path: Path, wanted: dict[str, str], fresh: bool = False) -> None:
        self.path = path
        if fresh:
            refuse_to_forget(path)
            for suffix in ("", "-wal", "-shm", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=30, isolation_level=None)
            self._base.execute("PRAGMA trusted_schema = OFF")
            self._open()
            self._identify(wanted)
        except (sqlite3.Error, OSError) as error:
            raise SweepError("SWP-0201", f"{path}: {error}") from None

    def _open(self) -> None:
        (kind,) = self._base.execute("PRAGMA application_id").fetchone()
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        (tables,) = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables and not kind:
            self._base.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
            return
        if kind != APPLICATION_ID:
            raise SweepError("SWP-0201", f"{self.path} is a database, but not of a sweep")
        if version != SCHEMA_VERSION:
            raise SweepError("SWP-0201", f"{self.path} has version {version}, this Cuttle writes {SCHEMA_VERSION}")
        if self._base.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise SweepError("SWP-0201", f"{self.path} is damaged")

    def _identify(self, wanted: dict[str, str]) -> None:
        known = dict(self._base.execute("SELECT key, value FROM meta"))
        for key, value in wanted.items():
            if known.get(key, value) != value:
                raise SweepError("SWP-0202", f"{self.path} holds results of {key} {known[key]}, not {value}")
        self._base.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", wanted.items())

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Keep verdicts: on disk when this returns."""
        rows = [
            (v.domain, v.form, v.outcome, v.elements, v.differing, v.max_ulp, v.first, v.text, v.seconds)
            for v in verdicts
        ]
        try:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany(f"INSERT OR REPLACE INTO verdicts ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", rows)
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            raise SweepError("SWP-0201", f"{self.path}: {error}") from None

    def verdicts(self) -> dict[Item, Verdict]:
        """Everything that is known; raises SweepError for rows that no sweep wrote."""
        found: dict[Item, Verdict] = {}
        try:
            for row in self._base.execute(f"SELECT {_COLUMNS} FROM verdicts"):
                if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
                    raise SweepError("SWP-0201", f"{self.path} holds a malformed verdict")
                verdict = Verdict(*row)
                sizes = (verdict.elements, verdict.differing, verdict.seconds)
                if min(sizes) < 0 or not (math.isfinite(verdict.max_ulp) and math.isfinite(verdict.seconds)):
                    raise SweepError("SWP-0201", f"{self.path} holds a verdict with an impossible number")
                if verdict.outcome not in OUTCOMES:
                    raise SweepError("SWP-0201", f"{self.path} holds the unknown outcome {verdict.outcome[:40]}")
                found[Item(verdict.domain, verdict.form)] = verdict
        except sqlite3.Error as error:
            raise SweepError("SWP-0201", f"{self.path}: {error}") from None
        return found

    def close(self) -> None:
        self._base.close()
