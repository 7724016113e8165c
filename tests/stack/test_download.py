"""Downloads from a server that truncates, stalls, redirects, corrupts and changes the file between requests."""

from __future__ import annotations

import errno
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuttle.errors import StackError
from cuttle.stack import download
from cuttle.stack.download import fetch
from cuttle.stack.manifest import Asset
from tests.stack.release_server import PATIENCE, ReleaseServer, release_zip


def get(asset: Asset, folder: Path, mirrors: tuple[str, ...] = ()) -> bytes:
    return fetch(asset, folder, mirrors, patience=PATIENCE).read_bytes()


def refused(asset: Asset, folder: Path, mirrors: tuple[str, ...] = ()) -> StackError:
    with pytest.raises(StackError) as caught:
        get(asset, folder, mirrors)
    assert not [path for path in folder.iterdir() if path.suffix == ".zip"], "nothing unverified has the file's name"
    return caught.value


def test_a_good_server(server: ReleaseServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch(server.asset(), tmp_path, progress=lambda done, total: seen.append((done, total)), patience=PATIENCE)
    assert path.read_bytes() == server.data
    assert seen[-1] == (len(server.data), len(server.data))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_file_that_is_there_is_not_fetched_again(server: ReleaseServer, tmp_path: Path) -> None:
    get(server.asset(), tmp_path)
    get(server.asset(), tmp_path)
    assert len(server.requests) == 1


def test_a_damaged_file_that_is_there_is_fetched_again(server: ReleaseServer, tmp_path: Path) -> None:
    path = fetch(server.asset(), tmp_path, patience=PATIENCE)
    path.write_bytes(b"damaged")
    assert get(server.asset(), tmp_path) == server.data


def test_truncated_answers_are_resumed(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.truncated(100_000), server.truncated(200_000), server.truncated(300_000)]
    assert get(server.asset(), tmp_path) == server.data
    assert [request.get("Range") for request in server.requests] == [
        None,
        "bytes=100000-",
        "bytes=200000-",
        "bytes=300000-",
    ]
    assert all(request["If-Range"] == '"first"' for request in server.requests[1:])


def test_truncated_without_a_length(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.truncated(100_000, length=False)]
    assert get(server.asset(), tmp_path) == server.data


def test_truncated_without_a_length_and_of_unknown_size(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.truncated(100_000, length=False)] * 9
    assert refused(server.asset(size_bytes=None), tmp_path).code == "STK-0202"


def test_a_stalling_server_is_resumed(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.stalled(150_000)]
    assert get(server.asset(), tmp_path) == server.data
    assert server.requests[1]["Range"] == "bytes=150000-"


def test_a_server_that_stalls_at_once_every_time(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.stalled(10)] * 9
    error = refused(server.asset(), tmp_path)
    assert (error.code, len(server.requests)) == ("STK-0201", PATIENCE.tries)
    # What there is of it is where the next try goes on.
    server.plan = []
    assert get(server.asset(), tmp_path) == server.data
    assert server.requests[-1]["Range"] == "bytes=10-"


def test_a_server_without_ranges_starts_again(server: ReleaseServer, tmp_path: Path) -> None:
    server.ranges = False
    server.plan = [server.truncated(100_000)]
    assert get(server.asset(), tmp_path) == server.data


def test_a_file_without_a_validator_is_not_resumed(server: ReleaseServer, tmp_path: Path) -> None:
    server.etag = ""
    server.plan = [server.truncated(100_000)]
    assert get(server.asset(), tmp_path) == server.data
    assert "Range" not in server.requests[1]


def test_a_weak_validator_does_not_count(server: ReleaseServer, tmp_path: Path) -> None:
    server.etag = 'W/"first"'
    server.plan = [server.truncated(100_000)]
    assert get(server.asset(), tmp_path) == server.data
    assert "Range" not in server.requests[1]


def test_the_file_changes_between_requests(server: ReleaseServer, tmp_path: Path) -> None:
    """The part of the old file is thrown away; the new one is what the manifest pins."""
    asset = server.asset()
    good, server.data = server.data, bytes(len(server.data))
    server.plan = [server.truncated(100_000), server.becomes(good)]
    assert get(asset, tmp_path) == good


def test_the_file_changes_and_the_server_hides_it(server: ReleaseServer, tmp_path: Path) -> None:
    """Pieced together of two files: the hash is wrong, and one fresh try makes it right."""
    asset = server.asset()
    good, server.data = server.data, bytes(len(server.data))
    server.plan = [server.truncated(100_000), server.becomes(good, None)]
    assert get(asset, tmp_path) == good
    assert [request.get("Range") for request in server.requests] == [None, "bytes=100000-", None]


def test_the_file_shrinks(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.truncated(300_000), server.becomes(b"small", None)]
    assert refused(server.asset(), tmp_path).code == "STK-0203"


@pytest.mark.parametrize("at", [0, 123_456])
def test_a_corrupt_file_is_deleted(server: ReleaseServer, tmp_path: Path, at: int) -> None:
    server.plan = [server.corrupted(at)] * 9
    error = refused(server.asset(), tmp_path)
    assert (error.code, len(server.requests)) == ("STK-0202", 1)
    assert list(tmp_path.iterdir()) == []


def test_another_size_is_refused_before_it_is_fetched(server: ReleaseServer, tmp_path: Path) -> None:
    assert refused(server.asset(size_bytes=len(server.data) - 1), tmp_path).code == "STK-0203"


def test_an_endless_file(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset(size_bytes=1000)
    server.plan = [server.truncated(len(server.data), length=False)] * 9
    assert refused(asset, tmp_path).code == "STK-0203"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server: ReleaseServer, tmp_path: Path, status: int) -> None:
    server.plan = [server.redirected("/elsewhere.zip", status)]
    assert get(server.asset(), tmp_path) == server.data


@pytest.mark.parametrize(
    "target", ["http://example.org/release.zip", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://u:p@127.0.0.1/"]
)
def test_redirects_to_insecure_places_are_not(server: ReleaseServer, tmp_path: Path, target: str) -> None:
    server.plan = [server.redirected(target)]
    assert refused(server.asset(), tmp_path).code == "STK-0204"


def test_redirects_in_a_circle(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.redirected(server.url)] * 100
    assert refused(server.asset(), tmp_path).code == "STK-0201"
    assert len(server.requests) <= 10


def test_busy_servers_are_asked_again(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.failing(503), server.failing(429)]
    assert get(server.asset(), tmp_path) == server.data


def test_what_is_said_when_something_is_tried_again(
    server: ReleaseServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    server.plan = [server.failing(503), server.truncated(200_000)]
    fetch(server.asset(), tmp_path, patience=replace(PATIENCE, tell=said.append))
    assert len(said) == 2
    assert said[0].startswith("HTTP 503; next try in 0.")
    assert said[1].endswith("; going on from there")
    assert capfd.readouterr() == ("", ""), "the retry library itself says nothing"


def test_missing_files_are_not(server: ReleaseServer, tmp_path: Path) -> None:
    server.plan = [server.failing(404)]
    assert refused(server.asset(), tmp_path).code == "STK-0201"
    assert len(server.requests) == 1


def test_mirrors_come_first_and_the_manifest_decides(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset(urls=["https://upstream.invalid/release.zip"])
    assert get(asset, tmp_path, (server.url.removesuffix("/release.zip"),)) == server.data


def test_a_wrong_mirror_does_not_stop_the_others(server: ReleaseServer, tmp_path: Path) -> None:
    other = ReleaseServer(server.data[:-1] + b"x")
    try:
        assert get(server.asset(), tmp_path, (other.url,)) == server.data
        empty = tmp_path / "empty"
        empty.mkdir()
        error = refused(server.asset(urls=[other.url, "http://127.0.0.1:1/release.zip"]), empty)
        assert error.code == "STK-0202", "a wrong file is the more telling reason"
    finally:
        other.close()


def test_nobody_listens(server: ReleaseServer, tmp_path: Path) -> None:
    assert refused(server.asset(urls=["http://127.0.0.1:1/release.zip"]), tmp_path).code == "STK-0201"


def test_no_hash_no_request(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset(sha256=None, why_no_hash="nobody published it")
    error = refused(asset, tmp_path)
    assert error.code == "STK-0102"
    assert "nobody published it" in error.message
    assert server.requests == []


def test_an_insecure_mirror(server: ReleaseServer, tmp_path: Path) -> None:
    assert refused(server.asset(), tmp_path, ("http://example.org/",)).code == "STK-0204"
    assert server.requests == []


def test_the_disk_is_full(server: ReleaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """A file of which only the first writes fit."""

        def __init__(self, path: str, mode: str) -> None:
            self.file = open(path, mode)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[:1000])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "open", Full, raising=False)
    assert refused(server.asset(), tmp_path).code == "STK-0401"
    monkeypatch.undo()
    assert get(server.asset(), tmp_path) == server.data, "goes on when there is room"


def test_damaged_records_of_parts(server: ReleaseServer, tmp_path: Path) -> None:
    digest = hashlib.sha256(server.data).hexdigest()
    (tmp_path / f"{digest}-release.zip.part").write_bytes(server.data[:5000])
    (tmp_path / f"{digest}-release.zip.part.json").write_bytes(b'{"url": 3}')
    assert get(server.asset(), tmp_path) == server.data
    assert "Range" not in server.requests[0]


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx2", None)
    data = release_zip()
    asset = Asset(
        name="zluda", kind="engine", platform="windows", version="v1", file="release.zip", urls=["https://127.0.0.1/release.zip"],
        size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), hash_source="this test",
    )  # fmt: skip
    error = refused(asset, tmp_path)
    assert error.code == "STK-0105"
    assert "pip install" in error.hint


def test_garbage_in_place_of_http(server: ReleaseServer, tmp_path: Path) -> None:
    def garbage(handler: Any) -> bool:
        handler.wfile.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        server.hang_up(handler)
        return True

    server.plan = [garbage]
    assert get(server.asset(), tmp_path) == server.data, "the next try is good"
    (tmp_path / "again").mkdir()
    server.plan = [garbage] * 9
    assert refused(server.asset(), tmp_path / "again").code == "STK-0201"


@pytest.mark.parametrize(
    "part", ["bytes 5-10/11", "bytes 0-400354/400355", "bytes */5", "nonsense", "bytes 100000-99/400355"]
)
def test_other_parts_than_asked_for(server: ReleaseServer, tmp_path: Path, part: str) -> None:
    def wrong(handler: Any) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", part)
        handler.send_header("Content-Length", "6")
        handler.end_headers()
        handler.wfile.write(b"wrong!")
        return True

    server.plan = [server.truncated(100_000), wrong]
    assert get(server.asset(), tmp_path) == server.data


def test_an_encoded_answer(server: ReleaseServer, tmp_path: Path) -> None:
    def encoded(handler: Any) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", "3")
        handler.end_headers()
        handler.wfile.write(b"abc")
        return True

    server.plan = [encoded] * 9
    assert refused(server.asset(), tmp_path).code == "STK-0201"
