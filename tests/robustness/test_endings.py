"""However a program ends, and whatever its device process is at then: nothing is left running."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.robustness.conftest import Start

COMPILING = """
p = Program(slow_kernel())
p.launch("slow")
say("launched")
say(p.synchronize())
"""
ENDLESS = """
p = Program()
p.works()
p.launch("endless")
say("launched")
say(p.synchronize())
"""
IDLE = """
p = Program()
p.works()
say("launched")
time.sleep(60)
"""
BUSY = """
p = Program()
p.works()
p.launch("endless")
say("launched")
while True:  # the rings fill up
    p.launch("good")
"""


@pytest.mark.parametrize("text", [COMPILING, ENDLESS, IDLE, BUSY], ids=["compiling", "endless", "idle", "busy"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=["killed", "interrupted", "ended"])
def test_a_program_that_is_ended(start: Start, text: str, how: signal.Signals) -> None:
    # The default actions, as in a program in C: Python would notice Ctrl-C after its call into the driver only.
    text = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + text
    run = start(text, env={"CUTTLE_CACHE": "0"} if "slow" in text else {})
    assert run.line() == "launched"
    if "slow" in text:
        run.find("compile_worker")
    if how == signal.SIGINT:
        os.killpg(run.process.pid, how)  # the terminal sends it to all
    else:
        os.kill(run.process.pid, how)
    assert run.end(10)[0] == -how
    run.assert_gone()


def test_a_device_process_that_does_not_answer(start: Start) -> None:
    """Its loop is held up (here: by a worker that is stopped and a full pipe): the end of the program still ends it."""
    run = start(COMPILING, env={"CUTTLE_CACHE": "0"})
    run.line()
    worker = run.find("compile_worker")
    os.kill(worker, signal.SIGSTOP)
    run.process.kill()
    run.assert_gone()


def test_killed_while_the_device_process_reads_a_big_module(start: Start) -> None:
    """Its loop looks at nothing meanwhile, which would take it 20 s and more."""
    run = start(
        """
p = Program()
text = "".join(f".visible .entry kernel_{number:020d}() {{ ret; }}\\n" for number in range(600000))
say("loading")
p.load(text)
"""
    )
    assert run.line() == "loading"
    time.sleep(0.7)
    run.process.kill()
    run.assert_gone()


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.06, 0.1, 0.15, 0.2])
def test_killed_while_things_start(start: Start, delay: float) -> None:
    run = start("p = Program(slow_kernel(3000)); p.launch('slow'); p.synchronize()", env={"CUTTLE_CACHE": "0"})
    run.find("-m cuttle.runtime ")
    time.sleep(delay)
    run.process.kill()
    run.assert_gone()


def test_signals_to_the_group_are_for_the_program(start: Start) -> None:
    run = start(
        """
import signal
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT):
    signal.signal(number, lambda *_: None)
p = Program()
say(p.works())
sys.stdin.readline()
say(p.works())
""",
        stdin=-1,
    )
    assert run.line() == "True"
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT):
        os.killpg(run.process.pid, number)
    time.sleep(0.1)
    assert run.process.stdin is not None
    run.process.stdin.write("\n")
    run.process.stdin.flush()
    assert run.end() == (0, "True\n", "")
    run.assert_gone()


def test_a_host_function_does_not_hold_up_the_exit(start: Start) -> None:
    """As the CUDA runtime does it: an exit handler, registered before the driver is loaded, lets go of everything."""
    run = start(
        """
libc = ctypes.CDLL(None)
@ctypes.CFUNCTYPE(None, ADDRESS)
def handler(_):
    p.driver.result("cuModuleUnload", ADDRESS(p.module))
    p.driver.result("cuDevicePrimaryCtxRelease_v2", 0)
libc.__cxa_atexit(handler, None, None)
p = Program()
p.driver.cuLaunchHostFunc(ADDRESS(0), ctypes.cast(libc.sleep, ADDRESS), ADDRESS(30))
say("end")
libc.exit(5)
"""
    )
    begun = time.monotonic()
    code, out, errors = run.end(20)
    assert (code, out, errors) == (5, "end\n", "")
    assert time.monotonic() - begun < 10
    run.assert_gone()


def test_the_device_process_is_killed(start: Start) -> None:
    run = start(
        """
p = Program()
say(p.works())
sys.stdin.readline()
say(p.launch("good"), p.synchronize(), p.synchronize(), p.driver.result("cuMemFree_v2", ctypes.c_uint64(p.memory)))
""",
        stdin=-1,
    )
    assert run.line() == "True"
    os.kill(run.find("-m cuttle.runtime "), signal.SIGKILL)
    assert run.process.stdin is not None
    run.process.stdin.write("\n")
    run.process.stdin.flush()
    code, out, errors = run.end()
    assert code == 0 and set(out.split()) <= {"0", "802"} and out.split()[1:] == ["802"] * 3
    assert errors.count("cuttle: ") == 1 and "has ended unexpectedly" in errors and "hint: " in errors
    run.assert_gone()


@pytest.mark.parametrize("stream", ["wait", "poll"])
def test_killed_under_a_waiting_program(start: Start, stream: str) -> None:
    waiting = (
        "say(p.synchronize())"
        if stream == "wait"
        else ("result = 600\nwhile result == 600: result = p.driver.result('cuStreamQuery', ADDRESS(0))\nsay(result)")
    )
    run = start(f"p = Program()\np.works()\np.launch('endless')\nsay('launched')\n{waiting}\n")
    assert run.line() == "launched"
    os.kill(run.find("-m cuttle.runtime "), signal.SIGKILL)
    assert run.end(10)[:2] == (0, "802\n")
    run.assert_gone()


def test_the_executor_is_killed(start: Start) -> None:
    run = start(
        """
p = Program()
p.works()
p.launch("endless")
say("launched")
say(p.synchronize(), p.synchronize(), p.launch("good"))
p.driver.cuDevicePrimaryCtxReset_v2(0)
p = Program()
say(p.works())
"""
    )
    assert run.line() == "launched"
    os.kill(run.find("cuttle-executor"), signal.SIGKILL)
    code, out, errors = run.end()
    assert (code, out) == (0, "719 719 719\nTrue\n")
    assert "the executor was killed" in errors
    run.assert_gone()


def test_a_compile_worker_is_killed(start: Start) -> None:
    run = start(
        COMPILING + "say(p.synchronize())\np.module = p.load(KERNELS)\nsay(p.works())", env={"CUTTLE_CACHE": "0"}
    )
    assert run.line() == "launched"
    os.kill(run.find("compile_worker"), signal.SIGKILL)
    code, out, errors = run.end()
    assert (code, out) == (0, "218\n0\nTrue\n")
    assert "kernel slow cannot run: the compiler process ended with signal 9" in errors
    run.assert_gone()


def test_time_out(start: Start) -> None:
    run = start(
        "p = Program()\np.works()\np.launch('endless')\nsay(p.synchronize(), p.synchronize())",
        options=("--timeout", "0.5"),
    )
    code, out, errors = run.end(20)
    assert (code, out) == (0, "702 702\n")
    assert "CUTTLE_TIMEOUT" in errors
    run.assert_gone()


def test_a_giant_grid(start: Start) -> None:
    run = start(
        "p = Program()\np.works()\nsay(p.launch('endless', 2**31 - 1), p.synchronize(), p.launch('good', 2**31 - 1))",
        options=("--timeout", "0.5"),
    )
    assert run.end(20)[1] == "0 702 702\n"
    run.assert_gone()
