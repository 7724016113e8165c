"""The PTX file tests on emulated AMD GPUs: a part always, all of them with `pytest -m slow` (eight minutes on two cores).

What an AMD GPU does not do stands in the tables below, with what happens instead; everything else must give what an H200 gave.
"""

from __future__ import annotations

import os

import pytest

from tests.ptx.run_files import read_file
from tests.ptx.test_files import FILES, FOLDER, run

TARGETS = ("rdna:gfx1100", "rdna:gfx1200")
PARTS = 12

# Refused by `abi/ptx_isa/refused_on_amdgpu.py`: clusters, stacks of variable size, isspacep in a module with constants.
REFUSED = frozenset((
    "asynchronous/cp.async.bulk-cluster.ptx", "asynchronous/cp.reduce.async.bulk-cluster.ptx", "asynchronous/red.async.ptx",
    "asynchronous/st.async.ptx", "barrier/barrier-cluster_and_block.ptx", "barrier/barrier.cluster-divergent.ptx",
    "barrier/barrier.cluster.ptx", "conversion/isspacep.ptx", "mbarrier/mbarrier.try_wait.ptx", "memory/alloca.ptx",
    "memory/getctarank.ptx", "memory/mapa-exchanged.ptx", "memory/mapa.ptx", "memory/stackrestore.ptx", "memory/stacksave.ptx",
))  # fmt: skip
# Lanes of a wave at different reductions or arrivals of one barrier: a fault (docs/design/amdgpu.md, section 4).
FAULTS = frozenset(("barrier/barrier-arrive_divergent.ptx", "barrier/barrier-red_divergent.ptx"))
# Not run: a numbered barrier for the whole block does not know of warps that have ended; thousands of turns at one lock take the
# emulator minutes; the NaN of a native float atomic is quiet, but not 0x7fffffff.
NOT_RUN = frozenset((
    "barrier/bar-exited_warp_whole_block.ptx", "atomics/atom-lock_between_lanes.ptx", "asynchronous/cp.reduce.async.bulk.ptx",
))  # fmt: skip


def chosen(part: int, parts: int) -> list[str]:
    """Files that end, every `parts`th of them."""
    names = [
        name
        for name in FILES
        if name not in NOT_RUN and read_file(FOLDER / name).expect != "hang" and not read_file(FOLDER / name).limit
    ]
    return names[part::parts]


def problems(names: list[str], device: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(os.environ, "CUTTLE_DEVICE", device)
    outcomes = run(names, 120.0)
    found = []
    for name in names:
        expect, outcome = read_file(FOLDER / name).expect, outcomes[name]
        if name in REFUSED or expect == "refused":
            good = isinstance(outcome, str) and "CUDA_ERROR_INVALID_PTX" in outcome
        elif name in FAULTS:
            good = isinstance(outcome, str) and "CUDA_ERROR_ILLEGAL_INSTRUCTION" in outcome
        else:
            good = outcome == expect
        if not good:
            found.append(f"{name}: {outcome if isinstance(outcome, str) else 'other results'}")
    return found


@pytest.mark.parametrize("device", TARGETS)
def test_a_twelfth_of_the_files(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not problems(chosen(5 * TARGETS.index(device) + 1, PARTS), device, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("part", range(4))
def test_all_files(part: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not problems(chosen(part, 4), device, monkeypatch)
