"""`cuttle stack bench`: statistics on samples whose answer is known, and real processes."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from cuttle.errors import StackError
from cuttle.stack.compare import compare, direction
from cuttle.stack.compare_runs import Plan, known_workloads, read_line, run_comparison, workload_command
from cuttle.stack.configurations import Configuration, parse_configuration

SYSTEM = parse_configuration("system")


def trials(median: float, noise: float, seed: int, count: int = 4) -> list[list[float]]:
    generator = random.Random(seed)
    return [[median * (1 + generator.uniform(-noise, noise)) for _ in range(5)] for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_an_effect_above_the_noise_gets_a_verdict(seed: int) -> None:
    found = compare("total_rate", trials(100, 0.02, seed), trials(110, 0.02, seed + 100))
    assert found.verdict == "B is faster" and 5 < found.percent < 15
    assert compare("total_seconds", trials(100, 0.02, seed), trials(110, 0.02, seed + 100)).verdict == "A is faster"


@pytest.mark.parametrize("seed", range(20))
def test_an_effect_below_the_noise_gets_none(seed: int) -> None:
    found = compare("total_rate", trials(100, 0.2, seed), trials(101, 0.2, seed + 100))
    assert found.verdict == "noise" and found.noise_percent > abs(found.percent)


def test_trials_that_differ_among_themselves_are_noise() -> None:
    """Many close samples within a trial do not help if the trials of one configuration lie apart."""
    a, b = [[100.0] * 20, [120.0] * 20], [[110.0] * 20, [110.0] * 20]
    assert compare("gflops", a, b).verdict == "noise"


def test_few_samples_get_no_verdict() -> None:
    assert compare("gflops", [[1.0, 1.0]], [[2.0, 2.0]]).verdict == "too few samples"


def test_results_are_the_same_or_not() -> None:
    assert direction("reward") == 0
    assert compare("reward", [[1.0, 2.0]], [[1.0, 2.0]]).verdict == "same"
    assert compare("reward", [[1.0, 2.0]], [[1.0, 2.0000001]]).verdict == "different"


def test_configurations() -> None:
    found = parse_configuration("cuttle:rdna:gfx1200,CUTTLE_FAST_MATH=1,X=a=b")
    assert found.device == "rdna:gfx1200" and found.variables == (("CUTTLE_FAST_MATH", "1"), ("X", "a=b"))
    assert found.command(["p", "-q"])[1:] == ["-m", "cuttle", "run", "--device", "rdna:gfx1200", "--", "p", "-q"]
    assert SYSTEM.command(["p"]) == ["p"]
    for text in ("cuda", "system:0", "cuttle:", "cuttle,FAST", "cuttle,1A=2", ""):
        with pytest.raises(StackError) as caught:
            parse_configuration(text)
        assert caught.value.code == "STK-1101"


def script(tmp_path: Path, text: str) -> Plan:
    path = tmp_path / "workload.py"
    path.write_text(text)
    return Plan("mine", iterations=4, trials=2, seconds=20, command=(sys.executable, str(path)))


def test_order_alternates_and_the_first_iteration_is_dropped(tmp_path: Path) -> None:
    plan = script(
        tmp_path,
        f"import json, os\nopen({str(tmp_path / 'order')!r}, 'a').write(os.environ['SIDE'])\n"
        "for i in range(5): print(json.dumps({'metrics': {'seconds': 100.0 if i == 0 else 1.0 + i / 1000, 'extra' + os.environ['SIDE']: 1}}))\n",
    )
    a, b = (parse_configuration(f"system,SIDE={side}") for side in "AB")
    seen: list[str] = []
    outcome = run_comparison(plan, a, b, lambda done, total, text: seen.append(f"{done}/{total}"))
    assert (tmp_path / "order").read_text() == "ABBA"
    assert seen[0] == "0/20" and seen[-1] == "20/20" and {"5/20", "10/20", "15/20"} <= set(seen)
    assert [found.metric for found in outcome.metrics] == ["seconds"]
    assert outcome.metrics[0].a.count == 8 and outcome.metrics[0].a.high < 2


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("import sys; print('no use', file=sys.stderr); sys.exit(3)", "STK-1103", "ended with 3: no use"),
        ("print('hello')", "STK-1104", "hello"),
        ('print(\'{"metrics": {"a": NaN}}\')', "STK-1104", "NaN"),
        ('print(\'{"metrics": {"a": 1}}\')', "STK-1105", "1 iterations"),
        ("import time; time.sleep(60)", "STK-1106", "still running"),
    ],
)
def test_workloads_that_fail_are_told(tmp_path: Path, text: str, code: str, told: str) -> None:
    plan = script(tmp_path, text)
    plan = Plan(plan.workload, iterations=4, trials=1, seconds=1.5 if code == "STK-1106" else 20, command=plan.command)
    with pytest.raises(StackError) as caught:
        run_comparison(plan, SYSTEM, SYSTEM, lambda done, total, text: None)
    assert caught.value.code == code and told in caught.value.message


@pytest.mark.parametrize(
    "line", [b"[1]", b'{"metrics": 3}', b'{"metrics": {"a": "b"}}', b"[" * 70000, b'{"metrics":{"a":true}}']
)
def test_hostile_lines(line: bytes) -> None:
    with pytest.raises(StackError) as caught:
        read_line(line, SYSTEM)
    assert caught.value.code == "STK-1104" and len(caught.value.message) < 300


def test_unknown_workload() -> None:
    assert {"gemm", "nbody", "ppo"} <= set(known_workloads())
    with pytest.raises(StackError) as caught:
        workload_command(Plan("nothing"))
    assert caught.value.code == "STK-1102"


def test_engines_of_cuttle_give_the_same_training(tmp_path: Path) -> None:
    """One worker thread against two: other speed perhaps, the same course of the training."""
    cache = f"CUTTLE_CACHE_DIR={tmp_path}"
    a, b = (parse_configuration(f"cuttle:cpu,CUTTLE_THREADS={threads},{cache}") for threads in (1, 2))
    outcome = run_comparison(Plan("ppo", "small", iterations=3, trials=2), a, b, lambda done, total, text: None)
    verdicts = {found.metric: found.verdict for found in outcome.metrics}
    assert verdicts["reward"] == verdicts["value_loss"] == "same"
    assert "total_rate" in verdicts and isinstance(a, Configuration)
