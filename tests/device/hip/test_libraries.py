"""AMD's math libraries and comgr: stand-ins built for the test, and AMD's own comgr where it is installed."""

from __future__ import annotations

import ctypes
import random
from pathlib import Path

import pytest

from cuttle.abi.amd_libraries import COMGR, MATH_LIBRARIES
from cuttle.abi.comgr import ACTIONS, action_number, interface_of
from cuttle.device.hip.comgr import Comgr
from cuttle.device.hip.find_library import Place, candidates
from cuttle.device.hip.math_libraries import NotALibrary, hip_major_needed, look_at, look_at_all
from cuttle.errors import DeviceError
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module
from tests.device.hip.builds import HERE, build, run_python
from tests.lower.amdgpu.kernels import KERNELS

ROCBLAS = next(row for row in MATH_LIBRARIES if row.name == "rocBLAS")


@pytest.fixture(scope="module")
def rocblas(tmp_path_factory: pytest.TempPathFactory, fakes: dict[int, Path]) -> Path:
    """A folder with a rocBLAS that is linked to HIP 6, with kernels for gfx1100 and gfx11011."""
    folder = tmp_path_factory.mktemp("rocm") / "lib"
    folder.mkdir()
    source = folder / "empty.c"
    source.write_text("int rocblas_initialize(void) { return hipInit(0); }\n")
    flags = (
        "-w",
        "-Wno-implicit-function-declaration",
        "-Wl,-soname,librocblas.so.4",
        "-Wl,--no-as-needed",
        str(fakes[6]),
    )
    build(source, folder / "librocblas.so.4.4.60403", *flags)
    (folder / "librocblas.so.4").symlink_to("librocblas.so.4.4.60403")
    kernels = folder / "rocblas" / "library"
    kernels.mkdir(parents=True)
    (kernels / "TensileLibrary_gfx1100.dat").write_bytes(b"")
    (kernels / "Kernels.so-000-gfx11011.hsaco").write_bytes(b"")
    return folder


def place(folder: Path) -> Place:
    return Place(False, {"LD_LIBRARY_PATH": str(folder)}, folder / "no root")


def test_a_library_for_this_hip(rocblas: Path) -> None:
    found = look_at(ROCBLAS, place(rocblas), 6, ("gfx1100",))
    assert (found.state, found.version, found.hip_major, found.problem) == ("found", "4.4.60403", 6, "")


@pytest.mark.parametrize(
    "major,targets,problem",
    [
        (7, ("gfx1100",), "it is linked to HIP 6, but HIP 7 is in use"),
        (6, ("gfx1101",), "it has no kernels for gfx1101"),
        (6, ("gfx1100", "gfx1200"), "it has no kernels for gfx1200"),
    ],
)
def test_a_library_that_would_end_the_process(
    rocblas: Path, major: int, targets: tuple[str, ...], problem: str
) -> None:
    found = look_at(ROCBLAS, place(rocblas), major, targets)
    assert (found.state, found.problem) == ("unusable", problem)


def test_missing_libraries_say_what_for(tmp_path: Path) -> None:
    found = look_at_all(place(tmp_path), 6)
    assert [library.state for library in found] == ["missing"] * len(MATH_LIBRARIES)
    assert "serves cuDNN" in next(library.problem for library in found if library.library.name == "MIOpen")
    windows = look_at_all(Place(True, {}, tmp_path), 6)
    assert next(library.problem for library in windows if library.library.name == "RCCL") == "AMD has none for Windows"


@pytest.mark.parametrize("seed", range(30))
def test_damaged_files_are_unusable_or_read(rocblas: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray((rocblas / "librocblas.so.4").read_bytes())
    if seed % 3 == 0:
        data = data[: chance.randrange(len(data))]
    else:
        for _ in range(chance.choice((1, 5, 50))):
            data[chance.randrange(64 if seed % 3 == 1 else len(data))] = chance.randrange(256)
    path = tmp_path / "librocblas.so.4"
    path.write_bytes(data)
    try:
        assert hip_major_needed(path) in (None, 6)
    except NotALibrary:
        assert look_at(ROCBLAS, place(tmp_path), 6).state == "unusable"


def test_loading(rocblas: Path, fakes: dict[int, Path]) -> None:
    """It is loaded for its own HIP, and for no other, before the loader would bring a second HIP along."""
    code = """
import sys
from pathlib import Path
from cuttle.abi.amd_libraries import MATH_LIBRARIES
from cuttle.device.hip.find_library import Place
from cuttle.device.hip.math_libraries import load_math_library
from cuttle.device.hip.runtime_library import mapped_libraries, open_hip
from cuttle.errors import DeviceError
hip = open_hip(sys.argv[1])
place = Place(False, {"LD_LIBRARY_PATH": sys.argv[2]}, Path(sys.argv[2]) / "no root")
for target in ("gfx1100", "gfx1200"):
    try:
        print(load_math_library(MATH_LIBRARIES[0], place, hip, (target,)).rocblas_initialize())
    except DeviceError as error:
        print(error.code, error.message)
print(len(mapped_libraries("libamdhip64")))
"""
    right = run_python(code, str(fakes[6]), str(rocblas)).splitlines()
    assert right[0] == "0" and right[1].endswith("it has no kernels for gfx1200") and right[2] == "1"
    wrong = run_python(code, str(fakes[7]), str(rocblas)).splitlines()
    assert wrong[0].startswith("DEV-0206") and "linked to HIP 6" in wrong[0] and wrong[2] == "1"


# -- comgr


@pytest.mark.parametrize(
    "version,windows,interface",
    [
        ((2, 4), False, 2), ((2, 9), False, 2), ((3, 0), False, 3), ((2, 8), True, 2), ((2, 9), True, 3), ((3, 3), True, 3),
    ],
)  # fmt: skip
def test_interface(version: tuple[int, int], windows: bool, interface: int) -> None:
    assert interface_of(version, windows) == interface


@pytest.mark.parametrize(
    "version,windows,number", [((2, 8), True, 9), ((2, 9), True, 7), ((2, 9), False, 9), ((3, 0), False, 7)]
)
def test_actions_by_interface(tmp_path: Path, version: tuple[int, int], windows: bool, number: int) -> None:
    path = build(HERE / "fake_comgr.c", tmp_path / "libamd_comgr.so", f"-DMAJOR={version[0]}", f"-DMINOR={version[1]}")
    library = Comgr(str(path), windows)
    assert library.link(b"object", "amdgcn-amd-amdhsa--gfx1100") == b"linked\0"
    assert ctypes.CDLL(str(path)).fake_last_action() == number
    assert library.check_code_object(b"linked", ("k", "k.kd")) == "amdgcn-amd-amdhsa--gfx1100"
    assert library.isa_names() == ["amdgcn-amd-amdhsa--gfx1100"]
    if library.interface == 3:
        with pytest.raises(DeviceError, match="interface 3 has no action ADD_DEVICE_LIBRARIES"):
            library.action("ADD_DEVICE_LIBRARIES")


def test_numbers_of_actions_are_distinct() -> None:
    for interface in (2, 3):
        numbers = [number for name in ACTIONS if (number := action_number(name, interface)) is not None]
        assert len(set(numbers)) == len(numbers)


def test_no_comgr(tmp_path: Path, fakes: dict[int, Path]) -> None:
    with pytest.raises(DeviceError, match="cannot be used as comgr"):
        Comgr(str(tmp_path / "none"))
    future = build(HERE / "fake_comgr.c", tmp_path / "libamd_comgr.so", "-DMAJOR=4", "-DMINOR=0")
    with pytest.raises(DeviceError, match="is comgr 4.0"):
        Comgr(str(future))


REAL = next((found.path for found in candidates(COMGR, Place.here())), None)
needs_real = pytest.mark.skipif(REAL is None, reason="AMD's comgr is not installed (Debian: libamd-comgr2)")


@needs_real
def test_real_comgr_reads_and_links_ours() -> None:
    """AMD's library reads our linker's output, links our object itself, and reads that."""
    library = Comgr(str(REAL))
    assert library.interface == (2 if library.version[0] == 2 else 3)
    isa = "amdgcn-amd-amdhsa--gfx1030"
    assert isa in library.isa_names()
    compiled = compile_kernel(parse_module(KERNELS["vector_add"]), "vector_add", AmdgpuOptions("gfx1030", 4))
    symbols = ("vector_add", "vector_add.kd")
    assert library.check_code_object(compiled.code_object, symbols) == isa
    theirs = library.link(compiled.relocatable, isa)
    assert theirs[:4] == b"\x7fELF" and theirs != compiled.relocatable
    assert library.check_code_object(theirs, symbols) == isa
    with pytest.raises(DeviceError, match="symbol_lookup failed"):
        library.check_code_object(compiled.code_object, ("another",))
    with pytest.raises(DeviceError, match="DEV-0205"):
        library.check_code_object(b"no object", symbols)
    with pytest.raises(DeviceError, match="DEV-0205"):
        library.link(b"no object", isa)
