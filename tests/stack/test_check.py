"""`check` on Cuttle's own driver, and on libraries that are right, wrong, refuse, fail, crash, hang or end the process."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cuttle.abi.stack_engines import LIBRARIES
from cuttle.cli import environment
from cuttle.cli.devices import require_client
from cuttle.errors import StackError
from cuttle.stack.check import LibraryCheck, check_engine, check_library, without_folders
from cuttle.stack.engine import EngineInPlace
from tests.device.hip.builds import build

SOURCE = Path(__file__).parent / "fake_libraries.c"
SONAMES = {
    "cublas": "libcublas.so.12", "cublaslt": "libcublasLt.so.12", "cusparse": "libcusparse.so.12", "cufft": "libcufft.so.11", "cudnn": "libcudnn.so.9",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine whose driver is Cuttle's and whose other libraries come from the test."""
    require_client()
    made: Path = tmp_path_factory.mktemp("engine")
    shutil.copy(environment.CLIENT_LIBRARY, made / "libcuda.so.1")
    return made


def program_environment() -> dict[str, str]:
    variables = dict(os.environ)
    return {**variables, **environment.client_variables(variables)}


def tried(folder: Path, library: str, behaviour: int, seconds: float = 60.0) -> LibraryCheck:
    target = folder / SONAMES[library]
    target.unlink(missing_ok=True)
    build(SOURCE, target, f"-DLIBRARY={library}", f"-DBEHAVIOUR={behaviour}", "-w", "-lm")
    return check_library(EngineInPlace("zluda", "v0", "linux", folder), library, program_environment(), seconds)


@pytest.mark.device
@pytest.mark.parametrize("library", SONAMES)
def test_right_answers(folder: Path, library: str) -> None:
    """The stand-in also looks at the arguments: they are those of NVIDIA's documentation."""
    found = tried(folder, library, 0)
    assert (found.state, found.step, found.text) == ("correct", "answer", "")
    assert found.grade == "correct"


@pytest.mark.device
@pytest.mark.parametrize("library", SONAMES)
def test_wrong_answers(folder: Path, library: str) -> None:
    found = tried(folder, library, 1)
    assert (found.state, found.step, found.grade) == ("wrong answer", "handle", "loads")
    assert "element" in found.text and ", not " in found.text


@pytest.mark.device
@pytest.mark.parametrize("library", SONAMES)
def test_refusals(folder: Path, library: str) -> None:
    found = tried(folder, library, 2)
    assert (found.state, found.grade) == ("refused", "refuses safely")
    assert "not supported" in found.text


@pytest.mark.device
@pytest.mark.parametrize(
    "behaviour,state,step,words",
    [
        (3, "failed", "handle", "cublasSgemm_v2 answered 7"),
        (4, "crashed", "handle", "SIGSEGV"),
        (5, "timed out", "handle", "did not answer within"),
        (6, "crashed", "handle", "exit code 0"),
        (7, "crashed", "found", "SIGABRT"),
        (8, "correct", "answer", ""),
    ],
)
def test_other_ends(folder: Path, behaviour: int, state: str, step: str, words: str) -> None:
    found = tried(folder, "cublas", behaviour, 5.0 if behaviour == 5 else 60.0)
    assert (found.state, found.step) == (state, step), found
    assert words in found.text


@pytest.mark.device
def test_a_file_that_is_no_library(folder: Path) -> None:
    (folder / SONAMES["cufft"]).unlink(missing_ok=True)
    (folder / SONAMES["cufft"]).write_bytes(b"no library")
    found = check_library(EngineInPlace("zluda", "v0", "linux", folder), "cufft", program_environment())
    assert (found.state, found.step, found.grade) == ("failed", "found", "detected")
    assert str(folder) not in found.text, "results hold no folders"


@pytest.mark.device
def test_a_library_without_the_function(folder: Path) -> None:
    shutil.copy(environment.CLIENT_LIBRARY, folder / SONAMES["cudnn"])
    found = check_library(EngineInPlace("zluda", "v0", "linux", folder), "cudnn", program_environment())
    assert (found.state, found.step) == ("refused", "loads")
    assert found.text == "it has no cudnnCreate"
    (folder / SONAMES["cudnn"]).unlink()


def test_what_is_absent(tmp_path: Path) -> None:
    found = check_library(EngineInPlace("zluda", "v0", "linux", tmp_path), "nccl", {})
    assert (found.state, found.grade) == ("absent", "absent")
    found = check_library(EngineInPlace("zluda", "v0", "linux", tmp_path), "driver", {})
    assert found.text == "its file is not in the engine's folder"
    with pytest.raises(StackError) as caught:
        check_engine(EngineInPlace("zluda", "v0", "linux", tmp_path), {}, ["cusolver"])
    assert caught.value.code == "STK-0803"


@pytest.mark.device
def test_the_command(cuttle, tmp_path: Path) -> None:
    done = cuttle("stack", "check", "--engine", "cuttle", "--root", str(tmp_path), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    states = {found["library"]: found["state"] for found in document["data"]["libraries"]}
    assert states == {name: "correct" if name == "driver" else "absent" for name in LIBRARIES}
    assert json.loads((tmp_path / "results/check.json").read_text()) == document["data"]


@pytest.mark.device
def test_a_failing_driver_is_a_finding(cuttle, tmp_path: Path) -> None:
    broken = tmp_path / "zluda-core"
    broken.mkdir()
    (broken / "libcuda.so.1").write_bytes(b"no library")
    config = {"schema": 2, "zluda_root": str(broken), "upstream": {"zluda_release": "v6"}}
    (tmp_path / "runtime-config.json").write_text(json.dumps(config))
    done = cuttle("stack", "check", "driver", "--engine", "zluda", "--root", str(tmp_path))
    assert done.returncode == 1
    assert "error[STK-0801]: driver: failed after `found`" in done.stderr


def test_folders_are_taken_out() -> None:
    assert without_folders("/home/jane/x/libcuda.so.1: invalid ELF header") == "libcuda.so.1: invalid ELF header"
    assert without_folders("C:\\Users\\jane\\nvcuda.dll is bad") == "nvcuda.dll is bad"
    assert without_folders("1/2 of it, not 3") == "1/2 of it, not 3"
