"""Manifests: those that are shipped, those that somebody else wrote, and new ones from files at hand."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cuttle.errors import StackError
from cuttle.stack import manifest
from cuttle.stack.manifest import CHANNELS, Manifest, allowed_address, encode, load, parse, pin


@pytest.mark.parametrize("channel", CHANNELS)
def test_shipped_manifests(channel: str) -> None:
    """Every hash names the public place that gives it, at a fixed version of it; what has none says why."""
    found = load(channel)
    assert found.channel == channel
    for asset in found.assets:
        if asset.sha256 is None:
            assert asset.why_no_hash
            with pytest.raises(StackError) as caught:
                asset.require_hash()
            assert caught.value.code == "STK-0102"
        else:
            assert re.search(r"/[0-9a-f]{40}/", asset.hash_source), asset.file
            assert asset.urls
    assert found.asset("zluda", "windows").sha256
    assert encode(found) == encode(parse(encode(found), "again"))


def test_shipped_manifests_are_part_of_the_package() -> None:
    assert {path.stem for path in manifest.FOLDER.glob("*.json")} == set(CHANNELS)


def test_the_channels_are_those_of_the_documentation() -> None:
    stable, latest = load("stable"), load("latest")
    assert stable.asset("zluda", "windows").version == "v6-preview.69"
    assert stable.hip_sdk.majors == [6]
    assert stable.asset("libtorch", "windows").version == "2.3.0+cu118"
    assert latest.asset("zluda", "windows").version == "v7-preview.10"


def test_no_such_channel() -> None:
    with pytest.raises(StackError) as caught:
        load("nightly")
    assert caught.value.code == "STK-0103"
    with pytest.raises(StackError) as caught:
        load("stable").asset("zluda", "plan9")
    assert caught.value.code == "STK-0104"


def changed(**changes: Any) -> bytes:
    """The stable manifest with other values in its first asset."""
    document = msgspec.json.decode(encode(load("stable")))
    document["assets"][0].update(changes)
    return msgspec.json.encode(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "E2959ED17C8DDAE6BF2BF76CF3A7348F577A2548754685D776389DF2220E5D9A"},
        {"sha256": "abc"},
        {"sha256": None},
        {"hash_source": ""},
        {"urls": []},
        {"urls": ["http://example.org/x.zip"]},
        {"urls": ["https://user:secret@example.org/x.zip"]},
        {"urls": ["file:///etc/passwd"]},
        {"urls": ["https:///x"]},
        {"urls": ["https://example.org:port/x"]},
        {"urls": ["https://exam ple.org/x"]},
        {"file": "../x.zip"},
        {"file": "x.zip\n"},
        {"version": "v1\n"},
        {"sha256": "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a\n"},
        {"file": "a/b.zip"},
        {"file": "..."},
        {"version": "../../v1"},
        {"name": "Zluda/.."},
        {"kind": "driver"},
        {"platform": "linux"},
        {"size_bytes": 0},
        {"size_bytes": -5},
        {"size_bytes": "32"},
        {"extra": 1},
    ],
)
def test_bad_manifests(changes: dict[str, Any]) -> None:
    with pytest.raises(StackError) as caught:
        parse(changed(**changes), "a test")
    assert caught.value.code == "STK-0101"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"schema": 2}', b" " * (manifest.MOST_MANIFEST_BYTES + 1)]
)
def test_no_manifests(data: bytes) -> None:
    with pytest.raises(StackError) as caught:
        parse(data, "a test")
    assert caught.value.code == "STK-0101"


def test_addresses() -> None:
    assert allowed_address("https://example.org/a%2Bb.zip")
    assert allowed_address("http://127.0.0.1:8000/x")
    assert allowed_address("http://[::1]:8000/x")
    assert not allowed_address("http://127.0.0.1.example.org/x")
    assert not allowed_address("http://[::1/x")
    assert not allowed_address("")


def test_pin(tmp_path: Path) -> None:
    file = tmp_path / "zluda-linux-87531d3.tar.gz"
    file.write_bytes(b"release")
    made = pin(
        load("stable"),
        "mine",
        {"zluda": file},
        "linux",
        {"zluda": "https://example.org/z.tar.gz"},
        {"zluda": "v6-mine"},
    )
    asset = made.asset("zluda", "linux")
    assert asset.sha256 == hashlib.sha256(b"release").hexdigest()
    assert (asset.size_bytes, asset.version, asset.why_no_hash) == (7, "v6-mine", "")
    assert made.asset("zluda", "windows") == load("stable").asset("zluda", "windows"), "the rest stays"
    (tmp_path / "mine.json").write_bytes(encode(made))
    assert load("", tmp_path / "mine.json") == made


def test_pin_refuses(tmp_path: Path) -> None:
    file = tmp_path / "other.zip"
    file.write_bytes(b"x")
    empty = tmp_path / "empty.zip"
    empty.touch()
    base = load("stable")
    cases: list[tuple[dict[str, Path], dict[str, str]]] = [
        ({"cudnn": file}, {}),
        ({"zluda": tmp_path / "missing.zip"}, {"zluda": "https://example.org/x.zip"}),
        ({"zluda": empty}, {"zluda": "https://example.org/x.zip"}),
        ({"zluda": file}, {}),  # another file than upstream's: where should it come from?
    ]
    for files, urls in cases:
        with pytest.raises(StackError) as caught:
            pin(base, "mine", files, "windows", urls, {})
        assert caught.value.code == "STK-0106"
    with pytest.raises(StackError) as caught:
        pin(base, "mine", {"zluda": file}, "windows", {"zluda": "http://example.org/x.zip"}, {})
    assert caught.value.code == "STK-0101"


def test_the_schema_names_every_field() -> None:
    definitions = manifest.schema_document()["$defs"]
    assert set(definitions["Asset"]["properties"]) == set(manifest.Asset.__struct_fields__)
    assert set(definitions["Manifest"]["properties"]) == set(Manifest.__struct_fields__)
