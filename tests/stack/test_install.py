"""Installations that are killed, run out of disk, are damaged afterwards, or meet records that somebody else wrote."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cuttle.errors import StackError
from cuttle.stack.install import differences, install_asset, uninstall, verify
from cuttle.stack.journal import Root
from cuttle.stack.manifest import Asset
from tests.stack.killing import killed_at
from tests.stack.release_server import PATIENCE, ReleaseServer, release_zip


def install(root: Root, asset: Asset) -> bool:
    with root.locked():
        return install_asset(root, asset, patience=PATIENCE)[1]


def tree(folder: Path) -> dict[str, bytes]:
    """Files with their contents; the lock and partial downloads are no part of an installation."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock" and "downloads" not in path.parts
    }


def consistent(root: Root) -> str:
    """Checks that nothing is half there; the version that is installed, or an empty string."""
    with root.locked():
        assert verify(root).differences == []
    record = root.installed()
    assert not root.staging.exists()
    assert not (root.path / "journal.json").exists()
    folders = {path.name for path in root.path.iterdir() if path.is_dir()} - {"downloads"}
    assert folders == {component.folder for component in record.components.values()}
    return record.components["zluda"].version if record.components else ""


def test_install_and_again(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    assert install(root, server.asset())
    assert not install(root, server.asset()), "nothing to do the second time"
    assert consistent(root) == "v6-preview.69"
    component = root.installed().components["zluda"]
    assert component.home == "zluda"
    assert (root.path / component.folder / "zluda/nvml.dll").read_bytes() == b"nvml"
    assert not list(root.downloads.iterdir())


def test_uninstall_leaves_files_of_others(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    mine = root.path / "zluda-v6-preview.69/zluda/mine.txt"
    mine.write_text("mine")
    with root.locked():
        uninstall(root)
    assert [path for path in tree(root.path)] == ["zluda-v6-preview.69/zluda/mine.txt", "installed.json"] or set(
        tree(root.path)
    ) == {"zluda-v6-preview.69/zluda/mine.txt", "installed.json"}
    assert root.installed().components == {}


def test_uninstall_removes_everything(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    (root.path / "zluda-v6-preview.69/zluda/nvml.dll").chmod(0o444)
    with root.locked():
        uninstall(root, ["zluda"])
    assert consistent(root) == ""
    with pytest.raises(StackError) as caught:
        uninstall(root, ["zluda"])
    assert caught.value.code == "STK-0405"


@pytest.mark.parametrize(
    "damage,what", [("change", "changed"), ("remove", "missing"), ("link", "replaced by something that is no file")]
)
def test_verify_and_repair(server: ReleaseServer, tmp_path: Path, damage: str, what: str) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    path = root.path / "zluda-v6-preview.69/zluda/nvcuda.dll"
    good = path.read_bytes()
    path.unlink()
    if damage == "change":
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(good)
        path.symlink_to(tmp_path / "elsewhere")
    assert [(difference.path, difference.what) for difference in verify(root).differences] == [
        ("zluda-v6-preview.69/zluda/nvcuda.dll", what)
    ]
    assert install(root, server.asset()), "installing again repairs"
    assert consistent(root) == "v6-preview.69"


def steps_of(action: Callable[[Root], object], folder: Path) -> list[str]:
    """The names of all steps of an action."""
    names: list[str] = []
    action(Root(folder, names.append))
    return names


def killed(number: int, action: Callable[[Root], object], folder: Path) -> None:
    """The action on a folder is killed at its step of this number."""
    assert killed_at(number, lambda step: action(Root(folder, step))), "the child reached its step"


def test_kill_at_every_step_of_an_installation(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset()
    steps = steps_of(lambda root: install(root, asset), tmp_path / "whole")
    assert len(steps) >= 9, steps
    for number, name in enumerate(steps):
        folder = tmp_path / str(number)
        killed(number, lambda root: install(root, asset), folder)
        # Before the new folder is announced as complete the next run rolls back, from then on it finishes.
        expected = "v6-preview.69" if number >= steps.index("announced placing") else ""
        with Root(folder).locked() as recovered:
            pass
        started = steps.index("announced unpacking") <= number < steps.index("settled")
        assert recovered == (("finished" if expected else "rolled back") if started else ""), name
        assert consistent(Root(folder)) == expected, name
        install(Root(folder), asset)
        assert tree(folder) == tree(tmp_path / "whole"), name


def test_kill_at_every_step_of_an_upgrade(server: ReleaseServer, tmp_path: Path) -> None:
    old = server.asset()
    install(Root(tmp_path / "old"), old)
    server.data = release_zip({"zluda/nvcuda.dll": b"newer", "zluda/other.dll": b"other"})
    new = server.asset(version="v7")
    shutil.copytree(tmp_path / "old", tmp_path / "whole")
    steps = steps_of(lambda root: install(root, new), tmp_path / "whole")
    for number, name in enumerate(steps):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", folder)
        killed(number, lambda root: install(root, new), folder)
        assert consistent(Root(folder)) == ("v7" if number >= steps.index("announced placing") else "v6-preview.69"), (
            name
        )


def test_kill_at_every_step_of_a_repair(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset()
    install(Root(tmp_path / "old"), asset)
    (tmp_path / "old/zluda-v6-preview.69/zluda/nvml.dll").write_bytes(b"bad")
    shutil.copytree(tmp_path / "old", tmp_path / "whole")
    steps = steps_of(lambda root: install(root, asset), tmp_path / "whole")
    assert "moved the old folder away" in steps
    for number, name in enumerate(steps):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", folder)
        killed(number, lambda root: install(root, asset), folder)
        with Root(folder).locked():
            pass
        install(Root(folder), asset)
        assert consistent(Root(folder)) == "v6-preview.69", name


def test_kill_at_every_step_of_a_removal(server: ReleaseServer, tmp_path: Path) -> None:
    def remove(root: Root) -> None:
        with root.locked():
            uninstall(root)

    install(Root(tmp_path / "old"), server.asset())
    shutil.copytree(tmp_path / "old", tmp_path / "whole")
    steps = steps_of(remove, tmp_path / "whole")
    assert len(steps) >= 4, steps
    for number, name in enumerate(steps):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "old", folder)
        killed(number, remove, folder)
        assert consistent(Root(folder)) == "", name


def test_killed_again_while_recovering(server: ReleaseServer, tmp_path: Path) -> None:
    """The recovery itself is killed at each of its steps, again and again."""
    asset = server.asset()
    steps = steps_of(lambda root: install(root, asset), tmp_path / "whole")
    start = steps.index("announced placing")

    def recover(root: Root) -> None:
        with root.locked():
            pass

    killed(start, lambda root: install(root, asset), tmp_path / "stack")
    shutil.copytree(tmp_path / "stack", tmp_path / "copy")
    count = len(steps_of(recover, tmp_path / "copy"))
    for number in range(count):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "stack", folder)
        killed(number, recover, folder)
        assert consistent(Root(folder)) == "v6-preview.69"


def test_killed_in_the_middle_of_a_download(server: ReleaseServer, tmp_path: Path) -> None:
    """The next run asks for the rest only."""
    asset = server.asset()
    root = Root(tmp_path / "stack")

    def install_with_steps(step: Callable[[str], None]) -> None:
        with root.locked():
            install_asset(root, asset, progress=lambda what, done, total: step(what), patience=PATIENCE)

    assert killed_at(2, install_with_steps)
    assert tree(root.path) == {}
    install(root, asset)
    assert consistent(root) == "v6-preview.69"
    assert int(server.requests[-1]["Range"].removeprefix("bytes=").removesuffix("-")) > 0


def test_commands_that_only_read_settle_first(server: ReleaseServer, tmp_path: Path) -> None:
    """Killed while the old folder was out of the way: whoever looks next sees the new one."""
    asset = server.asset()
    root = Root(tmp_path / "stack")
    install(root, asset)
    folder = root.path / "zluda-v6-preview.69"
    (folder / "zluda/nvml.dll").write_bytes(b"bad")
    shutil.copytree(root.path, tmp_path / "copy")
    steps = steps_of(lambda root: install(root, asset), tmp_path / "copy")
    killed(steps.index("moved the old folder away"), lambda root: install(root, asset), root.path)
    assert not folder.exists()
    assert Root(root.path).settle_leftovers() == "finished"
    assert folder.exists()
    assert Root(root.path).settle_leftovers() == ""


def test_one_at_a_time(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    with root.locked():
        with pytest.raises(StackError) as caught, Root(root.path).locked():
            pass
        # Who only reads does not wait: somebody is at work.
        (root.path / "journal.json").write_bytes(b'{"state": "unpacking", "staging": "x"}')
        assert Root(root.path).settle_leftovers() == ""
        assert (root.path / "journal.json").exists()
    assert caught.value.code == "STK-0402"
    assert Root(root.path).settle_leftovers() == "rolled back"


@pytest.mark.parametrize(
    "file,content",
    [
        ("installed.json", b"{"),
        ("installed.json", b'{"schema": 99}'),
        ("installed.json", b'{"components": {"zluda": 3}}'),
        ("journal.json", b'{"state": "exploding", "staging": "x"}'),
        ("journal.json", b'{"state": "placing", "staging": "x"}'),
        ("journal.json", b'{"state": "placing", "staging": "../x"}'),
    ],
)
def test_unreadable_records(tmp_path: Path, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    root = Root(tmp_path)
    with pytest.raises(StackError) as caught, root.locked():
        root.installed()
    assert caught.value.code == "STK-0403"
    assert (tmp_path / file).read_bytes() == content


def test_records_that_point_elsewhere(server: ReleaseServer, tmp_path: Path) -> None:
    """Somebody wrote ../ into installed.json: nothing outside is removed."""
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    (tmp_path / "precious").write_text("precious")
    record = msgspec.json.decode((root.path / "installed.json").read_bytes())
    record["components"]["zluda"]["files"][0]["path"] = "../../precious"
    (root.path / "installed.json").write_bytes(msgspec.json.encode(record))
    with pytest.raises(StackError) as caught, root.locked():
        uninstall(root)
    assert caught.value.code == "STK-0403"
    assert (tmp_path / "precious").exists()


def test_a_linked_folder_is_not_emptied(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    (root.path / "zluda-v6-preview.69").rename(tmp_path / "moved")
    (root.path / "zluda-v6-preview.69").symlink_to(tmp_path / "moved")
    with pytest.raises(StackError) as caught, root.locked():
        uninstall(root)
    assert caught.value.code == "STK-0403"
    assert (tmp_path / "moved/zluda/nvcuda.dll").exists()


def test_an_archive_without_the_driver(server: ReleaseServer, tmp_path: Path) -> None:
    server.data = release_zip({"readme.txt": b"no driver"})
    root = Root(tmp_path / "stack")
    with pytest.raises(StackError) as caught:
        install(root, server.asset())
    assert caught.value.code == "STK-0302"
    assert consistent(root) == ""


def test_a_dangerous_archive_leaves_the_old_version(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    before = tree(root.path)
    server.data = release_zip({"zluda/nvcuda.dll": b"x", "zluda/NVCUDA.DLL": b"y"})
    with pytest.raises(StackError) as caught:
        install(root, server.asset(version="v7"))
    assert caught.value.code == "STK-0301"
    assert tree(root.path) == before
    assert consistent(root) == "v6-preview.69"


def test_no_hash_no_installation(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    with pytest.raises(StackError) as caught:
        install(root, server.asset(sha256=None, why_no_hash="nobody published it"))
    assert caught.value.code == "STK-0102"
    assert tree(root.path) == {}


def test_a_file_at_hand(server: ReleaseServer, tmp_path: Path) -> None:
    """It is checked like a download, and stays where it is."""
    asset = server.asset()
    file = tmp_path / "release.zip"
    file.write_bytes(server.data)
    root = Root(tmp_path / "stack")
    with root.locked():
        install_asset(root, asset, at_hand=file)
    assert consistent(root) == "v6-preview.69"
    assert file.exists() and server.requests == []
    other = Root(tmp_path / "other")
    for damage in (b"x", b""):
        file.write_bytes(server.data[:-1] + damage)
        with pytest.raises(StackError) as caught, other.locked():
            install_asset(other, asset, at_hand=file)
        assert caught.value.code == "STK-0202"
    with pytest.raises(StackError) as caught, other.locked():
        install_asset(other, asset, at_hand=tmp_path / "missing")
    assert caught.value.code == "STK-0406"
    assert consistent(other) == ""


def test_room_is_looked_at_before_anything_is_fetched(server: ReleaseServer, tmp_path: Path) -> None:
    asset = server.asset(size_bytes=1 << 40)
    with pytest.raises(StackError) as caught:
        install(Root(tmp_path / "stack"), asset)
    assert caught.value.code == "STK-0401"
    assert server.requests == []


def test_a_real_disk_that_is_full(server: ReleaseServer, tmp_path: Path) -> None:
    """A file system with room for the archive but not for what is in it."""
    data = release_zip({"zluda/nvcuda.dll": os.urandom(700_000)})
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        server.data = data
        # The size is left out, so that only the disk itself can say no.
        asset = server.asset(size_bytes=None)
        root = Root(small / "stack")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cuttle.stack.install.SPARE_BYTES", 0)
            with pytest.raises(StackError) as caught:
                install(root, asset)
        assert caught.value.code == "STK-0401"
        assert consistent(root) == ""
        assert hashlib.sha256(data).hexdigest() == asset.sha256
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cuttle.stack.install.SPARE_BYTES", 0)
            install(root, asset)
        assert consistent(root) == "v6-preview.69"
    finally:
        subprocess.run(["umount", str(small)], check=False)


def test_differences_name_every_file(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "stack")
    install(root, server.asset())
    shutil.rmtree(root.path / "zluda-v6-preview.69")
    component = root.installed().components["zluda"]
    assert [difference.what for difference in differences(root, component)] == ["missing"] * len(component.files)
