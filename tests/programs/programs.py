"""The CUDA test programs, one row each; tests and recorder both read this list."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RECORD = FOLDER / "record" / "h200.json"

# Only PTX, no machine code: Cuttle translates it, and NVIDIA's driver compiles it for whatever card is there.
COMMON_FLAGS = ("-std=c++17",)
# Makes a program compute something wrong, so that its own checks must notice.
BREAK_FLAG = "-DBREAK"
# What a program ends with when a check fails.
FAILED = 1

_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A test program: its files (relative to this folder), its own compiler flags and the exit code it ends with.

    `architecture` 90 is for programs that need compute capability 9.0.
    """

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    exit_code: int = 0
    notes: str = ""
    architecture: int = 80

    def source_paths(self) -> list[Path]:
        """The files given to the compiler."""
        return [FOLDER / source for source in self.sources]

    def compiler_flags(self, *, broken: bool) -> list[str]:
        """All flags that say what is built, without those that say where the compiler's own files are."""
        architecture = f"arch=compute_{self.architecture},code=compute_{self.architecture}"
        return [*COMMON_FLAGS, "-gencode", architecture, *self.flags, *([BREAK_FLAG] if broken else [])]

    def source_hash(self) -> str:
        """SHA-256 over the flags and over each source and each header of this folder that it includes."""
        digest = hashlib.sha256("\0".join([*self.compiler_flags(broken=False), BREAK_FLAG]).encode())
        for path in _with_headers(self.source_paths()):
            content = path.read_bytes()
            digest.update(f"\0{path.relative_to(FOLDER).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()


def _with_headers(paths: list[Path]) -> list[Path]:
    """The files and everything they include with quotation marks, in a fixed order."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop().resolve()
        if path not in found:
            found.add(path)
            waiting += [path.parent / name.decode() for name in _INCLUDE.findall(path.read_bytes())]
    return sorted(found)


def _one_file(name: str, *flags: str, exit_code: int = 0, notes: str = "") -> Program:
    return Program(name, (f"{name}.cu",), flags, exit_code, notes)


PROGRAMS: tuple[Program, ...] = (
    # The largest translation unit comes first, so that a parallel build does not end with waiting for it.
    _one_file("thrust_sort_scan", notes="Thrust and through it CUB's device-wide algorithms"),
    _one_file("cub_block"),
    _one_file("cooperative_groups"),
    _one_file("grid_sync", notes="also: a cooperative launch that is too large"),
    _one_file("vector_add"),
    _one_file("saxpy_streams", notes="streams, events, pinned memory, host functions"),
    _one_file("matmul_naive"),
    _one_file("matmul_tiled"),
    _one_file("reduce_tree", notes="dynamic shared memory"),
    _one_file("reduce_shuffle", notes="shuffles and redux"),
    _one_file("scan_block"),
    _one_file("scan_device"),
    _one_file("histogram"),
    _one_file("transpose"),
    _one_file("nbody"),
    _one_file("mandelbrot", "-fmad=false"),
    _one_file("stencil2d", "-fmad=false"),
    _one_file("constant_managed_symbols"),
    _one_file("host_memory", notes="pinned, mapped, registered, managed"),
    _one_file("device_printf", notes="the record holds what a real device prints"),
    _one_file("device_assert", notes="message on stderr, sticky error"),
    _one_file("virtual_functions"),
    _one_file("function_pointers"),
    _one_file("recursion"),
    _one_file("device_malloc"),
    _one_file("textures", notes="texture and surface objects"),
    _one_file("graph_capture", notes="captured and explicit graphs"),
    _one_file("async_allocator"),
    _one_file("threads_host"),
    Program("rdc", ("rdc/main.cu", "rdc/device_code.cu", "rdc/kernels.cu"), ("-rdc=true",), notes="device linking"),
    _one_file("per_thread_stream", "--default-stream", "per-thread"),
    _one_file("half_bfloat16"),
    _one_file("fork_before_use", notes="also: a child after the first use is refused"),
    _one_file("illegal_address", notes="sticky error, the process lives on"),
    _one_file("invalid_configuration", notes="the record holds the names of the errors"),
    _one_file("out_of_memory"),
    _one_file("device_reset"),
    _one_file("events_query"),
    _one_file("occupancy_attributes"),
    _one_file("divergent_loop"),
    _one_file("atomics_all"),
    _one_file("warp_vote_match"),
    _one_file("spin_lock_warp", notes="needs progress of each lane"),
    _one_file("launch_counter"),
    _one_file("memcpy_variants"),
    _one_file("math_functions"),
    _one_file("integer_intrinsics"),
    Program("driver_api", ("driver_api.cpp",), notes="driver interface and hand-written PTX, no runtime"),
    _one_file("exit_code", exit_code=37, notes="the exit code is passed on"),
    Program("clusters", ("clusters.cu",), notes="distributed shared memory, bulk copies", architecture=90),
)
