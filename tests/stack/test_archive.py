"""Archives that want to be somewhere else, or larger than they look."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuttle.errors import StackError
from cuttle.stack.archive import safe_path, unpack


def make_zip(path: Path, members: list[tuple[str, bytes]], **attributes: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            for field, value in attributes.items():
                setattr(info, field, value)
            archive.writestr(info, data)
    return path


def make_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, mode
    return member


def refusal(archive: Path, folder: Path, limit: int | None = None) -> StackError:
    before = {path for path in folder.parent.rglob("*") if folder not in path.parents and path != folder}
    with pytest.raises(StackError) as caught:
        unpack(archive, folder, limit)
    after = {path for path in folder.parent.rglob("*") if folder not in path.parents and path != folder}
    assert before == after, "nothing was written outside"
    return caught.value


BAD_NAMES = [
    "../outside", "a/../../outside", "/etc/passwd", "\\windows\\x", "..\\outside", "a\\..\\..\\x", "C:\\x", "c:x", "//host/share/x", "a//b", "./x/./y",
    "a/./b", "nvcuda.dll:stream", "CON", "con.txt", "lib/aux", "COM1.dll", "lpt9", "x. ", "dir./x", "a\x00b", "tab\there", "what?", "star*", "", "a" * 600,
    "COM¹", "conin$",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_in_zip_archives(tmp_path: Path, name: str) -> None:
    archive = make_zip(tmp_path / "a.zip", [("good", b"1"), (name, b"2")])
    assert refusal(archive, tmp_path / "out").code in ("STK-0301", "STK-0302")
    assert not (tmp_path / "out").exists(), "names are looked at before anything is written"


@pytest.mark.parametrize("name", [name for name in BAD_NAMES if name and "\0" not in name and name != "./x/./y"])
def test_bad_names_in_tar_archives(tmp_path: Path, name: str) -> None:
    archive = make_tar(tmp_path / "a.tgz", [(info("good"), b"1"), (info(name), b"2")])
    assert refusal(archive, tmp_path / "out").code == "STK-0301"
    assert not (tmp_path / "out").exists()


@given(st.text(max_size=60))
def test_a_safe_path_stays_below(name: str) -> None:
    try:
        path = safe_path(name)
    except StackError:
        return
    resolved = (Path("/root/folder") / path).resolve()
    assert Path("/root/folder") in resolved.parents
    assert not any(part in ("", ".", "..") for part in path.split("/"))


def test_a_good_zip(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("zluda/nvcuda.dll", b"driver"), ("zluda/sub/ä.txt", b"")])
    files = unpack(archive, tmp_path / "out")
    assert [(file.path, file.size_bytes) for file in files] == [("zluda/nvcuda.dll", 6), ("zluda/sub/ä.txt", 0)]
    assert (tmp_path / "out/zluda/nvcuda.dll").read_bytes() == b"driver"


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2", "w"])
def test_a_good_tar(tmp_path: Path, mode: str) -> None:
    members = [
        (info("./zluda", tarfile.DIRTYPE), b""),
        (info("./zluda/zluda_ld", mode=0o755), b"code"),
        (info("zluda/data"), b"x"),
    ]
    files = unpack(make_tar(tmp_path / "a.tar", members, mode), tmp_path / "out")
    assert {file.path for file in files} == {"zluda/zluda_ld", "zluda/data"}
    assert (tmp_path / "out/zluda/zluda_ld").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/zluda/data").stat().st_mode & 0o777 == 0o644


def test_links_to_members_become_copies(tmp_path: Path) -> None:
    members = [
        (info("z/libcuda.so"), b"driver"),
        (info("z/libcuda.so.1", tarfile.SYMTYPE, "libcuda.so"), b""),
        (info("z/trace/libcuda.so.1", tarfile.SYMTYPE, "../libcuda.so.1"), b""),
        (info("z/hard", tarfile.LNKTYPE, "z/libcuda.so"), b""),
    ]
    files = unpack(make_tar(tmp_path / "a.tgz", members), tmp_path / "out")
    assert {file.path for file in files} == {"z/libcuda.so", "z/libcuda.so.1", "z/trace/libcuda.so.1", "z/hard"}
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_symlink()
        assert path.is_dir() or (path.read_bytes() == b"driver" and path.stat().st_nlink == 1)


@pytest.mark.parametrize(
    "link",
    [
        info("z/x", tarfile.SYMTYPE, "/etc/passwd"),
        info("z/x", tarfile.SYMTYPE, "../../etc/passwd"),
        info("z/x", tarfile.SYMTYPE, "nothing"),
        info("z/x", tarfile.SYMTYPE, "x"),
        info("z/x", tarfile.SYMTYPE, "."),
        info("z/x", tarfile.LNKTYPE, "/etc/passwd"),
        info("z/x", tarfile.CHRTYPE),
        info("z/x", tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_in_tar_archives(tmp_path: Path, link: tarfile.TarInfo) -> None:
    archive = make_tar(tmp_path / "a.tgz", [(info("z/file"), b"1"), (link, b"")])
    assert refusal(archive, tmp_path / "out").code == "STK-0301"


def test_a_file_behind_a_link_to_elsewhere(tmp_path: Path) -> None:
    """The classic: a link to a folder outside, then a file in it."""
    archive = make_tar(
        tmp_path / "a.tgz", [(info("d", tarfile.SYMTYPE, str(tmp_path)), b""), (info("d/outside"), b"1")]
    )
    assert refusal(archive, tmp_path / "out").code == "STK-0301"


def test_links_in_zip_archives(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("x", b"/etc/passwd")], external_attr=0o120777 << 16)
    assert refusal(archive, tmp_path / "out").code == "STK-0301"


def test_encrypted_members(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", [("x", b"secret")])
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    data[6] |= 1
    archive.write_bytes(data)
    assert refusal(archive, tmp_path / "out").code == "STK-0301"


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [["a.dll", "A.DLL"], ["a", "a"], ["a", "a/b"], ["A/b", "a"], ["straße", "STRASSE"]])
def test_names_that_collide(tmp_path: Path, names: list[str]) -> None:
    archive = make_zip(tmp_path / "a.zip", [(name, b"x") for name in names])
    assert refusal(archive, tmp_path / "out").code == "STK-0301"


def test_a_bomb_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50_000_000))
    assert path.stat().st_size < 100_000
    error = refusal(path, tmp_path / "out", 1_000_000)
    assert error.code == "STK-0303"
    assert not (tmp_path / "out").exists()


def test_a_bomb_that_lies(tmp_path: Path) -> None:
    """The headers say 10 bytes; the stream has 50 MB. No more than the header says is written."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50_000_000))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<I", 50_000_000), struct.pack("<I", 10)))
    assert refusal(path, tmp_path / "out").code in ("STK-0302", "STK-0303")
    assert sum(file.stat().st_size for file in (tmp_path / "out").rglob("*")) <= 4096


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuttle.stack.archive.MOST_MEMBERS", 10)
    names = [f"f{number}" for number in range(11)]
    assert refusal(make_zip(tmp_path / "a.zip", [(name, b"") for name in names]), tmp_path / "out").code == "STK-0303"
    assert (
        refusal(make_tar(tmp_path / "a.tgz", [(info(name), b"") for name in names]), tmp_path / "out").code
        == "STK-0303"
    )


def test_what_is_no_archive(tmp_path: Path) -> None:
    for number, data in enumerate((b"", b"hello", b"MZ" + bytes(100), zlib.compress(b"x" * 99))):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(data)
        assert refusal(path, tmp_path / "out").code == "STK-0302"


def good_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("z/a", b"hello " * 100)
        archive.writestr("z/b", bytes(range(256)))


def good_tar(path: Path) -> None:
    make_tar(path, [(info("z/a"), b"hello " * 100), (info("z/b", tarfile.SYMTYPE, "a"), b"")])


@pytest.mark.parametrize("make", [good_zip, good_tar])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_archives_end_in_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, make: Callable[[Path], None], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "a"
    make(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        unpack(path, folder / "out", 10_000_000)
    except StackError:
        pass
    assert {entry.name for entry in folder.iterdir()} <= {"a", "out"}
