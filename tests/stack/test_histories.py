"""Random histories of an installation and of a staged folder, with kills, damage and files of others: whatever happened, nothing is half there."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.errors import StackError
from cuttle.stack.install import install_asset, uninstall, verify
from cuttle.stack.journal import Root
from cuttle.stack.manifest import Asset, hash_file
from cuttle.stack.stage import RECORD_NAME, read_record, stage, unstage
from tests.stack.killing import killed_at
from tests.stack.release_server import release_zip

pytestmark = pytest.mark.usefixtures("own_cache_folder")

STEPS_AT_MOST = 18


def release(folder: Path, version: str, files: dict[str, bytes]) -> tuple[Asset, Path]:
    """An asset of this version and its file."""
    path = folder / f"release-{version}.zip"
    path.write_bytes(release_zip(files))
    digest, size = hash_file(path)
    asset = Asset(
        name="zluda", kind="engine", platform="windows", version=version, file=path.name, urls=["https://127.0.0.1/none"], size_bytes=size,
        sha256=digest, hash_source="this test",
    )  # fmt: skip
    return asset, path


@pytest.mark.parametrize("seed", range(10))
def test_installations(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    releases = [
        release(tmp_path, "v1", {"zluda/nvcuda.dll": b"one" * 99, "zluda/a.dll": b"a", "zluda/sub/b.dll": b"b"}),
        release(tmp_path, "v2", {"other/nvcuda.dll": b"two" * 99, "other/c.dll": b"c"}),
    ]
    folder = tmp_path / "root"
    kills = 0
    for _ in range(10):
        asset, path = chance.choice(releases)

        def install(root: Root, asset: Asset = asset, path: Path = path) -> None:
            with root.locked():
                install_asset(root, asset, at_hand=path)

        def remove(root: Root) -> None:
            with root.locked():
                uninstall(root)

        action = chance.choice([install, install, remove])
        if chance.random() < 0.6:
            kill = chance.randrange(STEPS_AT_MOST)
            kills += killed_at(kill, lambda step, action=action: action(Root(folder, step)))  # type: ignore[misc]
        else:
            action(Root(folder))
            expected = {} if action is remove else {"zluda": asset.version}
            installed = Root(folder).installed().components
            assert {name: component.version for name, component in installed.items()} == expected
        with Root(folder).locked():
            assert verify(Root(folder)).differences == []
        components = Root(folder).installed().components
        assert {path.name for path in folder.iterdir()} - {"lock", "installed.json", "downloads"} == {
            component.folder for component in components.values()
        }
        files = list(folder.rglob("zluda-*/**/*.dll"))
        if files and chance.random() < 0.4:  # an antivirus tool, a bad disk
            victim = chance.choice(files)
            if chance.random() < 0.5:
                victim.unlink()
            else:
                victim.write_bytes(b"damaged")
            component = components["zluda"]
            again = next(found for found in releases if found[0].version == component.version)
            install(Root(folder), *again)
            assert verify(Root(folder)).differences == []
    assert kills, "a history without a kill shows nothing"


@pytest.mark.parametrize("seed", range(10))
def test_staged_folders(tmp_path: Path, seed: int) -> None:
    """Files of others are never touched, and what is ours goes completely."""
    chance = random.Random(1000 + seed)
    engines: dict[str, list[Path]] = {}
    for version in ("v1", "v2"):
        engines[version] = []
        for name in ("nvcuda.dll", "cublas64_12.dll", "nvml.dll"):
            path = tmp_path / version / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(f"{version} {name}".encode())
            engines[version].append(path)
    folder = tmp_path / "program"
    folder.mkdir()
    theirs: dict[str, bytes] = {}
    for number in range(14):
        deed = chance.choice(["stage", "stage", "unstage", "their file", "their removal"])
        version = chance.choice(["v1", "v2"])
        record = read_record(folder)
        ours = {file.name for file in record.files} if record is not None else set()
        if deed == "their file":
            name = chance.choice(["nvml.dll", "mine.txt", "CUBLAS64_12.dll"])
            if name not in ours:
                theirs[name] = f"theirs {number}".encode()
                (folder / name).write_bytes(theirs[name])
        elif deed == "their removal" and theirs:
            name = chance.choice(sorted(theirs))
            (folder / name).unlink()
            del theirs[name]
        elif deed in ("stage", "unstage"):

            def act(step: Callable[[str], None] = lambda name: None, deed: str = deed, version: str = version) -> None:
                try:
                    if deed == "stage":
                        stage(folder, "zluda", version, engines[version], step)
                    else:
                        unstage(folder, step)
                except StackError as error:
                    assert error.code in ("STK-0501", "STK-0502", "STK-0506"), error

            if chance.random() < 0.5:
                killed_at(chance.randrange(9), act)
            else:
                act()
        for name, content in theirs.items():
            assert (folder / name).read_bytes() == content, f"{name} after {deed}"
    if read_record(folder) is not None:
        unstage(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == theirs
    assert not (folder / RECORD_NAME).exists()
