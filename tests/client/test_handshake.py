"""The handshake against published and own test vectors (docs/legal.md says what it is)."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from cuttle.client import build

REPOSITORY = Path(__file__).resolve().parent.parent.parent
RUNTIME = REPOSITORY / "build" / "cudart-11.8" / "nvidia" / "cuda_runtime" / "lib" / "libcudart.so.11.0"
# The key, and the constants of the first answers.
NUMBERS = tuple(
    bytes.fromhex(text)
    for text in ("146addae53a9a752aa0841360bf55a9f", "5c67cb031c184133", "5c67cb031c184118", "e8d14c1faa83d38e")
)
CALL_THE_RUNTIME = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
runtime.cudaGetErrorName.restype = ctypes.c_char_p
print(runtime.cudaGetErrorName(runtime.cudaFree(None)).decode(), runtime.cudaFree(None))
"""

# RFC 1319, appendix A.5.
MD2_VECTORS = {
    b"": "8350e5a3e24c153df2275c9f80692773",
    b"a": "32ec01ec4a6dac72c0ab96fb34c0b5d1",
    b"abc": "da853b0d3f88d99b30283a69e6ded6bb",
    b"message digest": "ab4f496bfb2a530b219ff33031fe06b0",
    b"abcdefghijklmnopqrstuvwxyz": "4e8ddff3650292ab5a4108c3aa47940b",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "da33def2a42df13975352846c30338cd",
    b"1234567890" * 8: "d5976f79d83d3a0dc9806c3c66f3efd8",
}


class Device(ctypes.Structure):
    _fields_ = [
        ("uuid", ctypes.c_uint8 * 16),
        ("domain", ctypes.c_uint32),
        ("bus", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
    ]


class Input(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("driver_version", "asked_version", "process", "thread")),
        *(
            (name, ctypes.c_uint64)
            for name in ("runtime_table", "integrity_table", "integrity_function", "unix_seconds")
        ),
        ("device_count", ctypes.c_uint32),
        ("devices", ctypes.POINTER(Device)),
    ]


def compiled(folder: Path, *flags: str) -> ctypes.CDLL:
    output = folder / "handshake.so"
    source = build.CLIENT / "handshake.c"
    subprocess.run(
        [
            *build.compiler(),
            "-std=gnu11",
            "-O1",
            "-fPIC",
            "-shared",
            "-pthread",
            *flags,
            str(source),
            "-o",
            str(output),
        ],
        check=True,
    )
    return ctypes.CDLL(str(output))


@pytest.fixture(scope="module")
def handshake(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("handshake"))


def answer(library: ctypes.CDLL, version: int, devices: list[Device]) -> tuple[int, int] | None:
    array = (Device * max(1, len(devices)))(*devices)
    given = Input(
        13000,
        version,
        1000,
        0x11223344,
        0x7F0000001000,
        0x7F0000002000,
        0x7F0000003000,
        1700000000,
        len(devices),
        array,
    )
    result = (ctypes.c_uint64 * 2)()
    return (result[0], result[1]) if library.handshake_answer(ctypes.byref(given), result) else None


@pytest.mark.parametrize(("message", "digest"), MD2_VECTORS.items())
def test_md2(handshake: ctypes.CDLL, message: bytes, digest: str) -> None:
    result = ctypes.create_string_buffer(16)
    handshake.handshake_md2(message, ctypes.c_size_t(len(message)), result)
    assert result.raw.hex() == digest


def test_first_answers_are_constants(handshake: ctypes.CDLL) -> None:
    assert answer(handshake, 13000, []) == (0x3341181C03CB675C, 0x8ED383AA1F4CD1E8)
    assert answer(handshake, 13001, []) == (0x1841181C03CB675C, 0x8ED383AA1F4CD1E8)


def test_keyed_answer(handshake: ctypes.CDLL) -> None:
    assert answer(handshake, 13002, []) == (0xDCF6994078079AE9, 0x148C618FC26E6301)
    device = Device((ctypes.c_uint8 * 16)(*range(16)), 0, 3, 0)
    assert answer(handshake, 13002, [device]) == (0x4DFC8530AC299E79, 0xDEC44135D9EDDB27)


def test_switch(tmp_path: Path) -> None:
    assert answer(compiled(tmp_path, "-DCUTTLE_HANDSHAKE=0"), 13002, []) is None


@pytest.fixture(scope="module")
def library_without(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole library, built with CUTTLE_HANDSHAKE=0; all files but one are as in the usual build."""
    output = tmp_path_factory.mktemp("without") / "libcuda.so.1"
    usual = next(one for one in build.native_outputs() if one.path == library)
    sources, flags = usual.sources, usual.flags
    command = [*build.compiler(), *build.FLAGS, "-fPIC", "-fvisibility=hidden"]
    switched = output.with_name("handshake.o")
    subprocess.run(
        [*command, "-DCUTTLE_HANDSHAKE=0", "-c", str(build.CLIENT / "handshake.c"), "-o", switched], check=True
    )
    others = [str(path) for path in sources if path.name != "handshake.c"]
    libraries = [flag for flag in flags if flag.startswith("-l")]
    options = [flag for flag in flags if flag not in libraries]
    subprocess.run([*command, *options, *others, str(switched), "-o", str(output), *libraries], check=True)
    return output


def symbols(library: Path) -> set[str]:
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name for symbol in table.iter_symbols()}


def test_nothing_of_it_is_in_a_library_without_it(library: Path, library_without: Path) -> None:
    parts = {"handshake_md2", "handshake_hmac_md2", "make_substitution"}
    assert parts & symbols(library) == parts
    assert not [name for name in symbols(library_without) if "md2" in name or name in parts]
    # Some compilers put short constants into instructions, in pieces; the key is always whole.
    assert NUMBERS[0] in library.read_bytes()
    assert not [number.hex() for number in NUMBERS if number in library_without.read_bytes()]


def run_with(library: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--", sys.executable, *command],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip


@pytest.mark.device
def test_the_driver_interface_works_without_it(library_without: Path) -> None:
    done = run_with(library_without, "-m", "cuttle.cli.probe", "--kernel")
    report = json.loads(done.stdout)
    assert report["library"] == str(library_without)
    assert report["error"] == "" and report["kernel"]["right"], done.stderr
    assert "CUTTLE_HANDSHAKE" not in done.stderr


@pytest.mark.nvcc
@pytest.mark.device
def test_a_runtime_without_it_says_why(library_without: Path) -> None:
    if not RUNTIME.exists():
        pytest.skip(f"the runtime 11.8 is not in {RUNTIME.parent}: tools/test.sh installs it")
    done = run_with(library_without, "-c", CALL_THE_RUNTIME, str(RUNTIME))
    assert done.stdout == "cudaErrorNotSupported 801\n"
    assert done.stderr.count("was built with CUTTLE_HANDSHAKE=0") == 1, "said once, and in these words"
    assert "hint: " in done.stderr
