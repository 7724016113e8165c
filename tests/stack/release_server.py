"""A release server on loopback that behaves as badly as a test asks for."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import threading
import time
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cuttle.stack.download import Patience
from cuttle.stack.manifest import Asset

# Fast enough for tests; tries and order of things are as for users.
PATIENCE = Patience(tries=3, first_pause=0.01, longest_pause=0.02, connect_seconds=2.0, read_seconds=0.3)


def release_zip(files: dict[str, bytes] | None = None) -> bytes:
    """A zip archive as ZLUDA's are: one folder, the libraries in it."""
    files = files or {
        "zluda/nvcuda.dll": b"driver" * 500,
        "zluda/nvml.dll": b"nvml",
        "zluda/libcuda.so.1": b"linux driver",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


class ReleaseServer:
    """Serves `data` at `/release.zip`. `plan` holds what the next requests do, in order; then they are served well.

    A plan's entry is a function of the handler that returns True if it has answered.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.etag = '"first"'
        self.ranges = True
        self.requests: list[dict[str, str]] = []
        self.plan: list[Callable[[Any], bool]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                server.requests.append(dict(self.headers))
                if server.plan and server.plan.pop(0)(self):
                    return
                server.serve(self)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/release.zip"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def asset(self, **changes: Any) -> Asset:
        """The asset of a manifest that pins what is served now."""
        fields: dict[str, Any] = {
            "name": "zluda",
            "kind": "engine",
            "platform": "windows",
            "version": "v6-preview.69",
            "file": "release.zip",
            "urls": [self.url],
            "size_bytes": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
            "hash_source": "this test",
        }
        return Asset(**{**fields, **changes})

    def serve(self, handler: Any, upto: int | None = None, length: bool = True) -> None:
        """Answers with the file, or the part that was asked for; cut off after `upto` bytes of the file."""
        start = 0
        match = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if match and self.ranges and handler.headers.get("If-Range") in (None, self.etag):
            start = int(match[1])
            if start >= len(self.data):
                handler.send_response(416)
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(self.data) - 1}/{len(self.data)}")
        else:
            handler.send_response(200)
        if self.etag:
            handler.send_header("ETag", self.etag)
        if length:
            handler.send_header("Content-Length", str(len(self.data) - start))
        else:
            handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(self.data[start : len(self.data) if upto is None else max(start, upto)])
        handler.wfile.flush()
        if upto is not None or not length:
            self.hang_up(handler)

    def hang_up(self, handler: Any) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    # -- what a request can meet ------------------------------------------------------------------------------

    def truncated(self, upto: int, length: bool = True) -> Callable[[Any], bool]:
        """The connection ends after so many bytes of the file."""

        def answer(handler: Any) -> bool:
            self.serve(handler, upto, length)
            return True

        return answer

    def stalled(self, upto: int, seconds: float = 1.0) -> Callable[[Any], bool]:
        """Nothing comes after so many bytes of the file, for longer than the client waits."""

        def answer(handler: Any) -> bool:
            handler.send_response(200)
            handler.send_header("ETag", self.etag)
            handler.send_header("Content-Length", str(len(self.data)))
            handler.end_headers()
            handler.wfile.write(self.data[:upto])
            handler.wfile.flush()
            time.sleep(seconds)
            handler.close_connection = True
            return True

        return answer

    def redirected(self, target: str, status: int = 302) -> Callable[[Any], bool]:
        def answer(handler: Any) -> bool:
            handler.send_response(status)
            handler.send_header("Location", target)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True

        return answer

    def failing(self, status: int) -> Callable[[Any], bool]:
        def answer(handler: Any) -> bool:
            handler.send_response(status)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return True

        return answer

    def becomes(self, data: bytes, etag: str | None = '"second"') -> Callable[[Any], bool]:
        """Another file from this request on; with `etag` None the server does not say so."""

        def answer(handler: Any) -> bool:
            self.data = data
            self.etag = self.etag if etag is None else etag
            return False

        return answer

    def corrupted(self, at: int) -> Callable[[Any], bool]:
        """One bit of this answer is wrong."""

        def answer(handler: Any) -> bool:
            good = self.data
            self.data = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
            self.serve(handler)
            self.data = good
            return True

        return answer
