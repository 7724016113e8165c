"""Bad modules, bad caches, too little of something: CUDA's own error code, one clear line, and everything else works on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ptx_front.container_writer import Entry, write_elf, write_fatbin
from tests.robustness.conftest import Start

WORKS = "p = Program()\nsay(p.works())"


PTX = b".version 8.0\n.target sm_80\n.address_size 64\n" + b".visible .entry k() { ret; }\n" * 1 + b"// text\n" * 40


def one_line_each(errors: str, count: int) -> None:
    assert errors.count("cuttle: ") == count, errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (b"", 200),
        (b"\x01\x02\x03\x04" * 8, 200),
        (b"\x7fELF" + bytes(60), 200),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00" + (1 << 20).to_bytes(8, "little") + bytes(64), 200),
        (write_fatbin(Entry(PTX, compression="zstd"))[:-60], 200),
        (write_fatbin(Entry(PTX, compression="lz4"))[:100] + bytes(80), 200),
        (write_fatbin(Entry(write_elf({".text": b"code"}, machine=190), kind=2)), 209),
        (write_elf({".text.k": b"code"}, machine=190), 209),
        (b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k( { nonsense", 218),
        (b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { no.such.instruction; }", 218),
        (b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { add.u32 %r1, %r2", 218),
    ],
    ids=[
        "empty",
        "noise",
        "elf",
        "fatbin",
        "cut zstd",
        "cut lz4",
        "machine code",
        "cubin",
        "grammar",
        "instruction",
        "cut",
    ],
)
def test_modules(start: Start, data: bytes, result: int) -> None:
    run = start(
        f"""
p = Program()
handle = ADDRESS()
say(p.driver.result("cuModuleLoadData", ctypes.byref(handle), ctypes.create_string_buffer({data!r} + bytes(64))))
say(p.works())
"""
    )
    code, out, errors = run.end()
    assert (code, out) == (0, f"{result}\nTrue\n")
    assert "Traceback" not in errors and errors.count("cuttle: ") == 1, errors


def test_files(start: Start, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { what; }\n"
    )
    run = start(
        f"""
p = Program()
for name in ("missing", "empty", "folder", "broken.ptx"):
    handle = ADDRESS()
    say(p.driver.result("cuModuleLoad", ctypes.byref(handle), os.fsencode({str(tmp_path)!r} + "/" + name)))
say(p.works())
"""
    )
    code, out, errors = run.end()
    assert (code, out.split()) == (0, ["301", "200", "200", "218", "True"]), out
    assert errors.count("cuttle: ") == 4 and "Traceback" not in errors


def test_a_kernel_that_cannot_be_translated_fails_alone(start: Start) -> None:
    run = start(
        """
p = Program()
say(p.launch("stub"), p.launch("good"), p.synchronize(), p.synchronize(), p.value())
say(p.launch("lost"), p.value(), p.value())
event = p.driver.get("cuEventCreate", ADDRESS, 0)
say(p.launch("stub"), p.driver.result("cuEventRecord", ADDRESS(event), None))
say(p.driver.result("cuEventSynchronize", ADDRESS(event)), p.driver.result("cuEventQuery", ADDRESS(event)))
say(p.works())
"""
    )
    code, out, errors = run.end()
    assert (code, out) == (0, "218 0 0 0 (0, 77)\n0 (218, 0) (0, 77)\n218 0\n0 0\nTrue\n")
    # "stub" is refused by its launch, by a look at its text; "lost" only by the lowering, at the next wait.
    # Each reason is said once: code, place, instruction.
    one_line_each(errors, 2)
    assert "PTX-0305" in errors and "PTX-0304" in errors and "PTX:" in errors and "at `call`" in errors


def test_blocking_launches_answer_themselves(start: Start) -> None:
    run = start("p = Program()\nsay(p.launch('stub'), p.synchronize(), p.works())", env={"CUDA_LAUNCH_BLOCKING": "1"})
    assert run.end()[:2] == (0, "218 0 True\n")


# ------------------------------------------------------------------------------------------------ the cache


def no_half_written_entries(cache: Path) -> None:
    assert not list(cache.rglob("*.new"))


def test_a_cache_that_cannot_be_written(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o500)
    # Root may write everywhere, but not from within a namespace of users.
    prefix = ["unshare", "--user"] if os.getuid() == 0 else []
    if prefix and subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces to be had here")
    text = "from tests.robustness.program import *\n" + WORKS
    code, out, errors = start(command=[*prefix, sys.executable, "-c", text], cache=folder).end()
    assert (code, out) == (0, "True\n")
    assert errors.count("cuttle: ") == 1 and "cannot be kept" in errors and "hint: " in errors


def test_a_cache_that_is_a_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    code, out, errors = start(WORKS, cache=tmp_path / "cache").end()
    assert (code, out) == (0, "True\n")
    assert errors.count("cuttle: ") == 1 and "cannot be kept" in errors and "hint: " in errors


def test_a_full_disk(start: Start, tmp_path: Path) -> None:
    """A disk of one page, in a namespace of its own."""
    script = 'mount -t tmpfs -o size=4k none "$0" && "$@"; code=$?; find "$0" -name "*.new" >&2; exit $code'
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run([*namespace, script, str(folder), "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mounts to be had here")
    text = "from tests.robustness.program import *\n" + WORKS
    run = start(command=[*namespace, script, str(folder), sys.executable, "-c", text], cache=folder)
    code, out, errors = run.end()
    assert (code, out) == (0, "True\n")
    assert errors.count("cuttle: ") == 1 and "No space left on device" in errors and "hint: " in errors
    assert ".new" not in errors
    run.assert_gone()


def test_files_may_not_grow(start: Start, tmp_path: Path) -> None:
    """A quota, as seen by a program: writes fail after the first 4 KiB."""
    code, out, errors = start(
        WORKS.replace("p =", "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, -1))\np ="),
        cache=tmp_path / "cache",
    ).end()
    assert (code, out) == (0, "True\n"), errors
    assert errors.count("cuttle: ") == 1 and "File too large" in errors
    no_half_written_entries(tmp_path / "cache")


def test_damaged_cache_entries(start: Start, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert start(WORKS, cache=cache).end()[:2] == (0, "True\n")
    (entry,) = [path for path in cache.rglob("*") if path.is_file()]
    sound = entry.read_bytes()
    for damaged in (b"", sound[: len(sound) // 2], sound[:-200] + bytes(200)):
        entry.write_bytes(damaged)
        assert start(WORKS, cache=cache).end() == (0, "True\n", "")
        assert entry.read_bytes() == sound
    no_half_written_entries(cache)


# ------------------------------------------------------------------------------------------------ too little, too much


def test_the_memory_budget(start: Start) -> None:
    run = start(
        """
p = Program()
total = ctypes.c_size_t()
p.driver.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
say(total.value >> 20)
held = []
try:
    while True:
        held.append(p.allocate(16 << 20))
        p.driver.cuMemsetD8_v2(ctypes.c_uint64(held[-1]), 1, ctypes.c_size_t(16 << 20))
except DriverError as error:
    say(error.result, 14 <= len(held) <= 16)
say(p.works())
p.driver.cuMemFree_v2(ctypes.c_uint64(held[0]))
p.allocate(16 << 20)
say(p.works())
""",
        options=("--memory", "256M"),
    )
    assert run.end() == (0, "256\n2 True\nTrue\nTrue\n", "")


def test_many_streams_events_and_modules(start: Start) -> None:
    run = start(
        """
p = Program()
streams = []
try:
    for _ in range(5000):
        streams.append(p.driver.get("cuStreamCreate", ADDRESS, 1))
        assert p.launch("good", stream=streams[-1]) == 0
except DriverError as error:
    assert error.result == 2
say(len(streams) > 4000, p.synchronize())
for stream in streams:
    p.driver.cuStreamDestroy_v2(ADDRESS(stream))
events = [p.driver.get("cuEventCreate", ADDRESS, 0) for _ in range(5000)]
for event in events:
    p.driver.cuEventRecord(ADDRESS(event), None)
say(p.synchronize(), all(p.driver.result("cuEventQuery", ADDRESS(event)) == 0 for event in events))
modules = [p.load(KERNELS) for _ in range(600)]
say(p.works())
for module in modules:
    p.driver.cuModuleUnload(ADDRESS(module))
say(p.works())
"""
    )
    assert run.end() == (0, "True 0\n0 True\nTrue\nTrue\n", "")


def test_a_thousand_threads(start: Start) -> None:
    run = start(
        """
import threading
p = Program()
threading.stack_size(256 << 10)
results, lock = [], threading.Lock()
def work():
    p.driver.cuCtxSetCurrent(ADDRESS(context))
    own = 2  # CU_STREAM_PER_THREAD
    outcome = (p.launch("good", stream=own), p.driver.result("cuStreamSynchronize", ADDRESS(own)))
    with lock:
        results.append(outcome)
context = p.driver.get("cuCtxGetCurrent", ADDRESS)
barrier = threading.Barrier(1000)
threads = [threading.Thread(target=lambda: (barrier.wait(), work())) for _ in range(1000)]
for thread in threads: thread.start()
for thread in threads: thread.join()
say(len(results), set(results), p.works())
"""
    )
    assert run.end() == (0, "1000 {(0, 0)} True\n", "")


def test_no_executor(start: Start) -> None:
    text = "try:\n    Program()\nexcept DriverError as error:\n    say(error.result)"
    code, out, errors = start(text, env={"CUTTLE_EXECUTOR": "/nonexistent/executor"}).end(20)
    assert (code, out) == (0, "100\n")
    assert errors.count("cuttle: ") == 1 and "error[DEV-0002]" in errors and "/nonexistent/executor" in errors


def test_an_executor_that_is_none(start: Start, tmp_path: Path) -> None:
    """A file that may be executed, but is no program: found out when it is started."""
    path = tmp_path / "executor"
    path.write_bytes(b"\x7fELF, but nothing more")
    path.chmod(0o755)
    run = start(
        "p = Program('')\nsay(p.synchronize(), p.driver.result('cuMemFree_v2', ctypes.c_uint64(p.memory)))",
        env={"CUTTLE_EXECUTOR": str(path)},
    )
    code, out, errors = run.end(20)
    assert (
        "719" in out + errors and errors.count("cuttle: ") == 1 and "error[DEV-0001]" in errors and str(path) in errors
    )


def test_no_interpreter(start: Start) -> None:
    text = """
os.environ["CUTTLE_PYTHON"] = "/nonexistent/python"
ctypes.CDLL(None).setenv(b"CUTTLE_PYTHON", b"/nonexistent/python", 1)
try:
    Program()
except DriverError as error:
    say(error.result)
"""
    code, out, errors = start(text).end(20)
    assert (code, out) == (0, "802\n")
    assert errors.count("cuttle: ") == 1 and "/nonexistent/python" in errors and "hint: " in errors


def test_a_bad_setting(start: Start) -> None:
    text = "try:\n    Program()\nexcept DriverError as error:\n    say(error.result)"
    code, out, errors = start(text, env={"CUTTLE_MEMORY": "lots"}).end()
    assert (code, out) == (0, "1\n")
    assert errors.count("cuttle: ") == 1 and "CUTTLE_MEMORY=lots" in errors
