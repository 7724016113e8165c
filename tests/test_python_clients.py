"""The tool that runs Python packages' own tests: what it reads from a run, and the page it writes."""

from __future__ import annotations

from pathlib import Path

from tools import python_clients
from tools.python_client_rows import CLIENTS, Client, Reason

JUNIT = """<testsuites><testsuite>
<testcase classname="suite.A" name="passes"/>
<testcase classname="suite.A" name="is_left_out"><skipped message="no"/></testcase>
<testcase classname="suite.B" name="fails"><failure message="x">function cuIpcGetMemHandle is not found</failure></testcase>
<testcase classname="suite.B" name="breaks"><error message="no idea"/></testcase>
</testsuite></testsuites>
"""


def client() -> Client:
    return Client("numba-cuda", "numba-cuda 1", (), (), "all", reasons=(Reason("cuIpc\\w+", "not implemented"),))


def test_results_are_counted_and_explained(tmp_path: Path) -> None:
    xml = tmp_path / "run.xml"
    xml.write_text(JUNIT, encoding="utf-8")
    found = python_clients.read(client(), xml)
    assert found["counts"] == {"passed": 1, "failed": 2, "skipped": 1}
    assert found["reasons"] == {"not implemented": ["suite.B::fails"], python_clients.UNEXPLAINED: ["suite.B::breaks"]}


def test_the_page_has_a_row_for_each_result(tmp_path: Path) -> None:
    xml = tmp_path / "run.xml"
    xml.write_text(JUNIT, encoding="utf-8")
    result = {
        **python_clients.read(client(), xml),
        "stopped": True,
        "seconds": 7,
        "date": "2026-12-01",
        "commit": "abc",
    }
    text = python_clients.page({"numba-cuda": result})
    row = next(line for line in text.splitlines() if line.startswith("| numba-cuda"))
    assert "| 1 | 2 | 1 | 2026-12-01, commit abc, stopped after 7 s |" in row
    assert "* 1: not implemented" in text
    assert "| drjit" not in text


def test_commands_have_known_fields() -> None:
    fields = {"tests": "t", "site": "s", "xml": "x", "build": "b", "tools": "o"}
    for each in CLIENTS:
        for part in (*each.command, each.folder, *each.environment.values()):
            part.format(**fields)
        assert any("{xml}" in part for part in each.command)
