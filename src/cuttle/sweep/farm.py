"""Sweeps on a Dask cluster (extra `[farm]`): batches go to the cluster's workers, each of which has a device of its own."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

from cuttle.errors import SweepError
from cuttle.sweep.domains import Item
from cuttle.sweep.golden import FOLDER
from cuttle.sweep.session import Session, batches
from cuttle.sweep.verdict import Verdict

_sessions: dict[tuple[str, str, float], Session] = {}
_lock = Lock()


def run_batch(device: str, folder: str, timeout: float, batch: Sequence[tuple[str, str]]) -> list[Verdict]:
    """What a Dask worker does: run a batch on this host's device, which stays for the next one."""
    with _lock:
        session = _sessions.get((device, folder, timeout))
        if session is None:
            session = Session(device, Path(folder) if folder else FOLDER, timeout)
            _sessions[device, folder, timeout] = session
            atexit.register(session.close)
        return session.run([Item(domain, name) for domain, name in batch])


def run_on_farm(
    address: str, device: str, items: Sequence[Item], folder: Path, timeout: float
) -> Iterator[list[Verdict]]:
    """Verdicts as they come in. `address` is a scheduler's (`tcp://host:8786`), or `local` for a cluster on this machine.

    The cluster's workers need the same version of Cuttle; recordings other than Cuttle's own must lie at the same path.
    Raises SweepError (`SWP-0103`, `SWP-0106`).
    """
    try:
        from dask.distributed import Client, LocalCluster, as_completed
    except ImportError:
        raise SweepError("SWP-0103", "--farm needs Dask") from None
    place = "" if folder == FOLDER else str(folder.resolve())
    cluster = LocalCluster(threads_per_worker=1, dashboard_address=None) if address == "local" else None
    try:
        try:
            client = Client(cluster or address, timeout=20)
        except (OSError, ValueError, TimeoutError) as error:
            raise SweepError("SWP-0106", f"{address}: {error}") from None
        with client:
            futures = [
                client.submit(
                    run_batch, device, place, timeout, [(item.domain, item.name) for item in batch], pure=False
                )
                for batch in batches(items)
            ]
            for future in as_completed(futures):
                yield future.result()
                future.release()
    finally:
        if cluster is not None:
            cluster.close()
