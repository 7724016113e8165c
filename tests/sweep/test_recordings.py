"""Recordings, domains and results files: what is chosen, and what is done with files that are wrong."""

from __future__ import annotations

import json
import lzma
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.errors import SweepError
from cuttle.sweep import golden
from cuttle.sweep.domains import DOMAINS, Item, chosen_items, items_of, shard_of
from cuttle.sweep.exhaustive import BLOCKS, block_bits, exhaustive_forms, operand_bits, recorded_digests
from cuttle.sweep.forms import Operands, form_of
from cuttle.sweep.matrix import recorded_of
from cuttle.sweep.store import APPLICATION_ID, Store
from cuttle.sweep.verdict import Verdict, outcome_of


def code_of(error: pytest.ExceptionInfo[SweepError]) -> str:
    return error.value.code


@pytest.mark.parametrize("domain", DOMAINS)
def test_shards_part_a_domain(domain: str) -> None:
    everything = list(chosen_items((domain,)))
    assert everything == items_of(domain) and len(set(everything)) == len(everything)
    parts = [list(chosen_items((domain,), shard=(number, 3))) for number in (1, 2, 3)]
    assert sorted(sum(parts, []), key=str) == sorted(everything, key=str)


def test_pattern() -> None:
    names = [item.name for item in chosen_items(("golden", "second"), r"^add\.rn\.f32$")]
    assert names == ["add.rn.f32"] * 2


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/0", "-1/2", "a/b"])
def test_bad_shards(text: str) -> None:
    with pytest.raises(SweepError) as error:
        shard_of(text)
    assert code_of(error) == "SWP-0104"


def test_bad_choices() -> None:
    with pytest.raises(SweepError) as error:
        list(chosen_items(("golden",), "("))
    assert code_of(error) == "SWP-0104"
    with pytest.raises(SweepError) as error:
        items_of("nothing")
    assert code_of(error) == "SWP-0102"


def test_seeds_differ_and_are_reproducible() -> None:
    form = form_of("fma.rn.f32")
    first, second = Operands(1).columns(form), Operands(2).columns(form)
    assert first == Operands(1).columns(form) and second == Operands(2).columns(form)
    rows = [set(zip(*columns, strict=True)) for columns in (first, second)]
    assert len(rows[0] & rows[1]) < 40


def test_digests_cover_every_form_that_can_be_swept() -> None:
    recorded = {item.form.name: len(item.blocks) for item in recorded_digests()}
    refused = set(golden.load(golden.PTX)[0]["refused"])
    for form in exhaustive_forms():
        if form.name not in refused:
            assert recorded[form.name] == BLOCKS[operand_bits(form)]
            assert recorded[form.name] << block_bits(form) == 1 << operand_bits(form)


def packed(header: object, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return lzma.compress(text + b"\n" + body)


FORM = {"form": "not.b32", "count": 512, "bytes": 2048}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no xz file",
        packed({"forms": [FORM]}, bytes(2048))[:-20],
        packed(b"{", b""),
        packed([], b""),
        packed({}, b""),
        packed({"forms": [FORM]}, bytes(2047)),
        packed({"forms": [{**FORM, "bytes": -1}]}, b""),
        packed({"forms": [{**FORM, "count": "512"}]}, bytes(2048)),
        packed({"forms": [{**FORM, "count": 4, "bytes": 16}]}, bytes(16)),
        packed({"forms": ["not.b32"]}, b""),
        packed({"seed": "x", "forms": []}, b""),
        packed({"sweeps": [FORM]}, bytes(2048)),
        packed({"forms": [{**FORM, "form": "not.b32\x1b[2J"}]}, bytes(2048)),
    ],
)
def test_wrong_recordings_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "golden_ptx.xz"
    path.write_bytes(data)
    with pytest.raises(SweepError) as error:
        list(golden.records(path))
    assert code_of(error) == "SWP-0101"


@pytest.mark.parametrize(
    "name",
    [
        "", "add", "add.s32.s32.s32", "nonsense.f32", "mov.b32 {x}", "mov.b64 {-1000000}", "add.s32 #x:1", "add.s32 #9:0x1",
        "shl.b32 #1:0x5 ", "shl.b32 #1:5", "vadd.s32.s32.s32 ~a,b,c,d,e,f", "bar.sync", "ret", "call", "atom.add.u32",
        "wmma.mma", "tex.1d.v4.f32.s32", "ld.u32",
    ],
)  # fmt: skip
def test_forms_that_do_not_exist_are_refused(name: str, tmp_path: Path) -> None:
    """Recordings come from anywhere: names in them ended in assertions and IndexErrors."""
    path = tmp_path / "any.xz"
    item = {"form": name, "count": 512, "bytes": 0, "first": 0, "step": 1, "calls": 1}
    path.write_bytes(packed({"forms": [item], "sweeps": [item]}, b""))
    readers: list[Callable[[], object]] = [
        lambda: list(golden.records(path)),
        lambda: list(golden.dense(path)),
        lambda: list(recorded_digests(path)),
    ]
    if not name.startswith(("atom", "ld")):
        readers.append(lambda: list(golden.cell_records(path)))
    for read in readers:
        with pytest.raises(SweepError) as error:
            read()
        assert code_of(error) == "SWP-0101"
    with pytest.raises(ValueError, match="no matrix form"):
        recorded_of(name if name != "wmma.mma" else "mma.sync 7")


@pytest.mark.parametrize("key", ["first", "step", "count"])
def test_dense_runs_without_a_key_are_refused(key: str, tmp_path: Path) -> None:
    run = {"form": "ex2.approx.f32", "first": 0, "step": 1, "count": 1, "bytes": 4}
    path = tmp_path / "sweeps_ptx.xz"
    path.write_bytes(packed({"sweeps": [run]}, bytes(4)))
    assert len(items_of("dense", tmp_path)) == len(list(golden.dense(path))) == 1
    path.write_bytes(packed({"sweeps": [{name: value for name, value in run.items() if name != key}]}, bytes(4)))
    for read in (lambda: items_of("dense", tmp_path), lambda: list(golden.dense(path))):
        with pytest.raises(SweepError) as error:
            read()
        assert code_of(error) == "SWP-0101"


def test_matrix_kernels_without_calls_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "golden_mma.xz"
    path.write_bytes(packed({"forms": [{"form": "mma", "bytes": 4}]}, bytes(4)))
    with pytest.raises(SweepError) as error:
        list(golden.matrix_records(path))
    assert code_of(error) == "SWP-0101"


def test_missing_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SweepError) as error:
        list(golden.records(tmp_path / "none.xz"))
    assert code_of(error) == "SWP-0101"


# -- results files ---------------------------------------------------------------------------------------------------

VERDICT = Verdict("golden", "add.s32", "differs", 512, 3, 2.0, "(0x1): 0x2, expected 0x3", "", 0.25)
WHO = {"device": "a device", "cuttle": "1"}


def test_results_come_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.sqlite"
    store = Store(path, WHO)
    store.add([VERDICT])
    store.close()
    store = Store(path, WHO)
    assert store.verdicts() == {Item("golden", "add.s32"): VERDICT}
    store.close()
    store = Store(path, {**WHO, "device": "another"}, fresh=True)
    assert store.verdicts() == {}
    store.close()


def test_results_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    Store(path, WHO).close()
    with pytest.raises(SweepError) as error:
        Store(path, {**WHO, "cuttle": "2"})
    assert code_of(error) == "SWP-0202"


def damaged(path: Path, how: str) -> None:
    if how == "text":
        path.write_text("this is no database\n" * 100)
        return
    if how == "foreign":
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE verdicts (a)")
        base.commit()
        base.close()
        return
    Store(path, WHO).close()
    base = sqlite3.connect(path)
    if how == "version":
        base.execute("PRAGMA user_version = 7")
    elif how == "no table":
        base.execute("DROP TABLE verdicts")
    elif how == "outcome":
        base.execute("INSERT INTO verdicts VALUES ('golden', 'x', 'fine', 1, 0, 0, '', '', 0)")
    elif how == "types":
        base.execute("INSERT INTO verdicts VALUES ('golden', 'x', 'exact', 'many', 0, 0, x'00', '', 0)")
    elif how == "infinite":
        base.execute("INSERT INTO verdicts VALUES ('golden', 'x', 'differs', 1, 1, 9e999, '', '', 0)")
    elif how == "negative":
        base.execute("INSERT INTO verdicts VALUES ('golden', 'x', 'exact', -1, 0, 0, '', '', 0)")
    base.commit()
    base.close()
    if how == "cut":
        path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    "how", ["text", "foreign", "version", "no table", "outcome", "types", "infinite", "negative", "cut"]
)
def test_wrong_results_are_refused(how: str, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    damaged(path, how)
    with pytest.raises(SweepError) as error:
        Store(path, WHO).verdicts()
    assert code_of(error) == "SWP-0201"


@pytest.mark.parametrize("content", [b"precious\n", b"SQLite format 3\0" + bytes(100)])
def test_fresh_deletes_no_file_of_somebody_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_bytes(content)
    with pytest.raises(SweepError) as error:
        Store(path, WHO, fresh=True)
    assert code_of(error) == "SWP-0201" and path.read_bytes() == content


def test_fresh_forgets_a_damaged_results_file(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    damaged(path, "cut")
    store = Store(path, WHO, fresh=True)
    assert store.verdicts() == {}
    store.close()


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    Store(path, WHO).close()
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID


@pytest.mark.parametrize(
    ("differing", "far", "admitted", "outcome"),
    [(0, 0, 0, "exact"), (3, 1, 0, "differs"), (3, 1, 1, "ulp"), (3, 2, 1, "differs"), (1, -1, 4, "differs")],
)
def test_outcome(differing: int, far: float, admitted: float, outcome: str) -> None:
    assert outcome_of(differing, far, admitted) == outcome
