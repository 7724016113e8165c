"""Fuzz target: what a client may write into the ring and the request page, against a device process of its own."""

from __future__ import annotations

import random
import struct
import tempfile

from cuttle.abi import wire_layout as wire
from cuttle.abi.requests import REQUESTS
from tests.ptx_front.container_writer import Entry, write_fatbin
from tests.runtime.client import FakeClient

PTX = b".version 8.0\n.target sm_80\n.address_size 64\n.global .b32 g[4];\n.visible .entry k(.param .u64 p) { ret; }\n"
VALUES = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    255,
    4096,
    1 << 20,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]
PAYLOADS = [
    b"",
    b"k",
    b"g",
    b"k\0",
    b"\xff" * 16,
    struct.pack("<Q", len(PTX)) + PTX,
    write_fatbin(Entry(PTX)),
    bytes(4096),
]
NOT_KINDS = ("_AT", "_BYTES", "_FORMAT", "_SHUTDOWN")
KINDS = sorted(getattr(wire, name) for name in dir(wire) if name.startswith("RECORD_") and not name.endswith(NOT_KINDS))
SILENT = frozenset(("QUIT",))
STEPS = 40


class Wire:
    """A case is the seed of a conversation: some requests, sensible or not, then more and more records."""

    def make(self, number: int) -> bytes:
        return f"wire {number}".encode()

    def feed(self, case: bytes) -> None:
        rng = random.Random(case.decode())
        with tempfile.TemporaryDirectory() as folder:
            client = FakeClient({"CUTTLE_CACHE_DIR": folder, "CUTTLE_TIMEOUT_MS": "2000"})
            errors = ""
            try:
                self.converse(client, rng)
                assert client.process.poll() is None, "the device process has ended"
            finally:
                errors = client.close()
            assert "Traceback" not in errors, errors

    def converse(self, client: FakeClient, rng: random.Random) -> None:
        known = [wire.ARENA_BASE, wire.ARENA_BASE + 4096, client.allocate(4096), client.load(PTX)]
        known.append(client.kernel(known[-1], "k"))
        rows = [row for row in REQUESTS if row.name not in SILENT]
        for _ in range(STEPS):
            if rng.random() < 0.25:
                self.record(client, rng, known)
                continue
            row = rng.choice(rows)
            count = len(row.arguments) if rng.random() < 0.9 else rng.randrange(wire.REQUEST_ARGUMENTS)
            arguments = [rng.choice((*VALUES, *known, rng.randrange(8))) for _ in range(count)]
            payload = rng.choice(PAYLOADS)
            if rng.random() < 0.2:
                payload = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
            result, values, _ = client.request(
                row.name, *arguments, payload=payload, context=rng.choice((1, 1, 1, 0, 2))
            )
            if result == 0:
                known.extend(value for value in values[:2] if value)
                del known[:-24]

    def record(self, client: FakeClient, rng: random.Random, known: list[int]) -> None:
        """One slot of words of every kind, its header in order: the client library is trusted with that much."""
        words = [rng.choice((*VALUES[:12], *known, rng.randrange(1 << 64))) for _ in range(14)]
        stream = rng.choice((0, 0, 0, 1, wire.STREAM_SLOTS - 1))
        body = struct.pack("<14Q", *words)
        client.put(rng.choice(KINDS), wire.RECORD_HEADER_FORMAT, stream=stream, tail=body[: wire.SLOT_BYTES - 16])
