"""Staging in folders with files of others, read-only files, spaces and non-ASCII names; killed at every step."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.errors import StackError
from cuttle.stack.file_lock import folder_lock
from cuttle.stack.stage import RECORD_NAME, TEMPORARY, read_record, stage, unstage
from tests.stack.killing import killed_at

pytestmark = pytest.mark.usefixtures("own_cache_folder")

NAMES = ("nvcuda.dll", "cublas64_12.dll", "nvml.dll")


@pytest.fixture
def engine(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "engine ü"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_bytes(name.encode() * 100)
        (folder / name).chmod(0o444)
    return [folder / name for name in NAMES]


@pytest.fixture(params=["plain", "mit Leerzeichen", "程序 фyн", "a'b\"c$(x)"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a program and files of its own, one of them read-only."""
    folder = tmp_path / str(request.param)
    folder.mkdir()
    (folder / "program.exe").write_bytes(b"MZ program")
    (folder / "data.bin").write_bytes(b"data")
    (folder / "data.bin").chmod(0o444)
    return folder


def listing(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()}


def test_stage_and_unstage(engine: list[Path], program: Path) -> None:
    before = listing(program)
    result = stage(program, "zluda", "v6", engine)
    assert set(result.placed) == set(NAMES)
    for source in engine:
        assert (program / source.name).read_bytes() == source.read_bytes()
    assert {name: content for name, content in listing(program).items() if name in before} == before
    again = stage(program, "zluda", "v6", engine)
    assert (again.placed, set(again.kept)) == ([], set(NAMES)), "nothing to do"
    assert set(unstage(program).removed) == set(NAMES)
    assert listing(program) == before
    with pytest.raises(StackError) as caught:
        unstage(program)
    assert caught.value.code == "STK-0502"


@pytest.mark.parametrize("name", ["nvml.dll", "NVML.DLL", "Nvcuda.dll"])
def test_a_file_in_the_way(engine: list[Path], program: Path, name: str) -> None:
    """Also one whose name differs in case only, which is the same file on Windows."""
    (program / name).write_bytes(b"somebody else's")
    before = listing(program)
    with pytest.raises(StackError) as caught:
        stage(program, "zluda", "v6", engine)
    assert caught.value.code == "STK-0501"
    assert name in caught.value.message
    assert listing(program) == before


def test_a_folder_or_link_in_the_way(engine: list[Path], program: Path, tmp_path: Path) -> None:
    (program / "nvml.dll").symlink_to(engine[2])
    with pytest.raises(StackError) as caught:
        stage(program, "zluda", "v6", engine)
    assert caught.value.code == "STK-0501"
    (program / "nvml.dll").unlink()
    (program / "nvml.dll").mkdir()
    with pytest.raises(StackError) as caught:
        stage(program, "zluda", "v6", engine)
    assert caught.value.code == "STK-0501"


def test_the_very_same_file_is_not_ours(engine: list[Path], program: Path) -> None:
    (program / "nvml.dll").write_bytes(engine[2].read_bytes())
    result = stage(program, "zluda", "v6", engine)
    assert result.kept == ["nvml.dll"]
    unstage(program)
    assert (program / "nvml.dll").exists()


def test_a_file_that_was_changed_stays(engine: list[Path], program: Path) -> None:
    stage(program, "zluda", "v6", engine)
    (program / "nvml.dll").chmod(0o644)
    (program / "nvml.dll").write_bytes(b"an update of the program")
    with pytest.raises(StackError) as caught:
        stage(program, "zluda", "v6", engine)
    assert caught.value.code == "STK-0504"
    assert (program / "nvml.dll").read_bytes() == b"an update of the program"


def test_unstage_keeps_what_was_changed(engine: list[Path], program: Path) -> None:
    stage(program, "zluda", "v6", engine)
    (program / "nvml.dll").chmod(0o644)
    (program / "nvml.dll").write_bytes(b"an update of the program")
    result = unstage(program)
    assert (result.kept, set(result.removed)) == (["nvml.dll"], {"nvcuda.dll", "cublas64_12.dll"})
    assert not (program / RECORD_NAME).exists()


def test_a_missing_file_is_staged_again(engine: list[Path], program: Path) -> None:
    stage(program, "zluda", "v6", engine)
    (program / "nvcuda.dll").unlink()  # an antivirus tool
    stage(program, "zluda", "v6", engine)
    assert (program / "nvcuda.dll").exists()


def test_another_engine_is_staged(engine: list[Path], program: Path) -> None:
    stage(program, "zluda", "v6", engine)
    with pytest.raises(StackError) as caught:
        stage(program, "zluda", "v7", engine)
    assert caught.value.code == "STK-0506"
    assert unstage(program).version == "v6"


def test_a_rebuilt_engine_replaces_itself(engine: list[Path], program: Path) -> None:
    stage(program, "cuttle", "0.1.0", engine)
    engine[0].chmod(0o644)
    engine[0].write_bytes(b"rebuilt")
    result = stage(program, "cuttle", "0.1.0", engine)
    assert "nvcuda.dll" in result.placed
    assert (program / "nvcuda.dll").read_bytes() == b"rebuilt"


def test_no_such_folder(engine: list[Path], tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", engine[0]):
        with pytest.raises(StackError) as caught:
            stage(folder, "zluda", "v6", engine)
        assert caught.value.code == "STK-0503"
    with pytest.raises(StackError) as caught:
        stage(tmp_path, "zluda", "v6", [])
    assert caught.value.code == "STK-0603"


def as_nobody(action: Callable[[], object]) -> str:
    """The error code of an action that is carried out without root's rights; empty if there is none."""
    if os.getuid() != 0:
        try:
            action()
        except StackError as error:
            return error.code
        return ""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = ""
        try:
            os.setgid(65534)
            os.setuid(65534)
            action()
        except StackError as error:
            code = error.code
        except BaseException as error:
            code = repr(error)
        finally:
            os.write(writer, code.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


def test_a_read_only_folder(engine: list[Path], tmp_path_factory: pytest.TempPathFactory) -> None:
    import shutil
    import tempfile

    # Below /tmp, so that a user without rights can reach it at all.
    base = Path(tempfile.mkdtemp(prefix="cuttle-stage-"))
    try:
        base.chmod(0o755)
        sources = []
        for source in engine:
            copy = base / "engine" / source.name
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, copy)
            sources.append(copy)
        target = base / "program"
        target.mkdir()
        target.chmod(0o555)
        assert as_nobody(lambda: stage(target, "zluda", "v6", sources)) == "STK-0503"
        assert list(target.iterdir()) == []
    finally:
        (base / "program").chmod(0o755)
        shutil.rmtree(base)


def test_killed_at_every_step(engine: list[Path], tmp_path: Path) -> None:
    number = 0
    while True:
        folder = tmp_path / f"program {number}"
        folder.mkdir()
        (folder / "mine.dll").write_bytes(b"mine")
        if not killed_at(number, lambda step, folder=folder: stage(folder, "zluda", "v6", engine, step)):  # type: ignore[misc]
            break
        record = read_record(folder)
        assert record is not None, "there is a record before there is a file"
        if number % 2:
            unstage(folder)
        else:
            stage(folder, "zluda", "v6", engine)
            assert {path.name for path in folder.iterdir()} == {*NAMES, "mine.dll", RECORD_NAME}
            unstage(folder)
        assert {path.name for path in folder.iterdir()} == {"mine.dll"}
        number += 1
    assert number >= 2 + 2 * len(NAMES)


def test_unstage_killed_at_every_step(engine: list[Path], tmp_path: Path) -> None:
    number = 0
    while True:
        folder = tmp_path / f"program {number}"
        folder.mkdir()
        stage(folder, "zluda", "v6", engine)
        if not killed_at(number, lambda step, folder=folder: unstage(folder, step)):  # type: ignore[misc]
            break
        if read_record(folder) is not None:
            unstage(folder)
        assert list(folder.iterdir()) == []
        number += 1
    assert number >= len(NAMES)


def test_a_file_that_appears_meanwhile(engine: list[Path], tmp_path: Path) -> None:
    """Between the look and the placing somebody else writes a file of the name: theirs stays, ours go."""
    folder = tmp_path / "program"
    folder.mkdir()

    def step(name: str) -> None:
        if name == "placed nvcuda.dll":
            (folder / "nvml.dll").write_bytes(b"theirs")

    with pytest.raises(StackError) as caught:
        stage(folder, "zluda", "v6", engine, step)
    assert caught.value.code == "STK-0501"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"nvml.dll": b"theirs"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"schema": 9, "state": "placed", "engine": "x", "version": "1", "files": []}',
        b'{"schema": 1, "state": "placed", "engine": "x", "version": "1", "files": [{"name": "../x", "size_bytes": 1, "sha256": "' + b"0" * 64 + b'"}]}',
    ],
)  # fmt: skip
def test_records_of_others(engine: list[Path], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "program" / RECORD_NAME).write_bytes(content)
    for action in (lambda: unstage(tmp_path / "program"), lambda: stage(tmp_path / "program", "zluda", "v6", engine)):
        with pytest.raises(StackError) as caught:
            action()
        assert caught.value.code == "STK-0505"
    assert (tmp_path / "x").exists()
    assert not (tmp_path / "program" / TEMPORARY).exists()


def test_several_at_once(engine: list[Path], tmp_path: Path) -> None:
    """Programs that are started together stage together: each finds all libraries, and nobody takes another's away."""
    folder = tmp_path / "program"
    folder.mkdir()
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                stage(folder, "zluda", "v6", engine)
                code = 0 if all((folder / name).exists() for name in NAMES) else 2
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert {path.name for path in folder.iterdir()} == {*NAMES, RECORD_NAME}


def test_a_lock_that_is_never_freed(tmp_path: Path) -> None:
    with folder_lock(tmp_path, locks=tmp_path / "locks"):
        with folder_lock(tmp_path / "other", 0.1, tmp_path / "locks"):
            pass
        with pytest.raises(StackError) as caught, folder_lock(tmp_path, 0.1, tmp_path / "locks"):
            pass
    assert caught.value.code == "STK-0402"
    with folder_lock(tmp_path, 0.1, tmp_path / "locks"):
        pass


def test_no_place_for_locks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with folder_lock(tmp_path, locks=tmp_path / "file" / "locks"):
        pass
