"""The kernel cache on disk.

One file per compiled kernel, in a folder per module: `<root>/<version>/<module digest>/<key>`. A file is the image as the
executor reads it (`lower/cpu/image_file.py`), which carries a checksum. The key covers everything that goes into a
compilation: PTX text, kernel name, options, the sources of the compiler, LLVM's build, the processor.

Nothing here may fail a program: a full disk, a folder that cannot be written, a damaged file mean compiling again.
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b, sha256

from cuttle.abi import knobs
from cuttle.abi.kernel_abi_constants import IMAGE_HEADER_BYTES, IMAGE_MAGIC
from cuttle.runtime.messages import say

FORMAT = "1"
IMAGE_PAGE = 4096
# An eviction frees a good part, so that it does not happen at every store.
KEEP_AFTER_EVICTION = 0.8


def default_root() -> str:
    """CUTTLE_CACHE_DIR, or the platform's cache folder."""
    chosen = knobs.CACHE_DIR.text()
    if chosen:
        return os.path.abspath(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "cuttle", "kernels")


def compiler_fingerprint() -> str:
    """Changes whenever kernels may come out different: our sources, LLVM's build, the processor.

    Sources are told apart by size and time of change: reading them would cost milliseconds at each start.
    """
    digest = blake2b(digest_size=12)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for room in ("abi", "ptx", "lower"):
        for folder, folders, files in os.walk(os.path.join(package, room)):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(".py"):
                    facts = os.stat(os.path.join(folder, name))
                    digest.update(f"{folder[len(package) :]}/{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    digest.update(_llvm_build().encode())
    digest.update(_processor().encode())
    return digest.hexdigest()


def _llvm_build() -> str:
    from importlib.util import find_spec

    found = find_spec("llvmlite")
    if found is None or not found.submodule_search_locations:
        return "no llvmlite"
    folder = os.path.join(next(iter(found.submodule_search_locations)), "binding")
    try:
        libraries = sorted(name for name in os.listdir(folder) if "llvmlite" in name)
        facts = [os.stat(os.path.join(folder, name)) for name in libraries]
    except OSError:
        return folder
    return " ".join(f"{name} {fact.st_size} {fact.st_mtime_ns}" for name, fact in zip(libraries, facts, strict=True))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read(16384)
    except OSError:
        return os.uname().machine
    wanted = ("model name", "flags", "cpu family", "model", "Features", "CPU part")
    first = text.split("\n\n", 1)[0]
    return "\n".join(line for line in first.splitlines() if line.split("\t", 1)[0].strip() in wanted)


def is_sound(image: bytes) -> bool:
    """Whether an image file's checksum holds."""
    if len(image) < IMAGE_HEADER_BYTES or image[:8] != IMAGE_MAGIC:
        return False
    text_end = IMAGE_HEADER_BYTES + int.from_bytes(image[8:16], "little")
    blob_at = -(-text_end // IMAGE_PAGE) * IMAGE_PAGE
    if blob_at > len(image):
        return False
    view = memoryview(image)
    digest = sha256(view[IMAGE_HEADER_BYTES:text_end])
    digest.update(view[blob_at:])
    return digest.digest() == image[16:48]


class KernelCache:
    """The cache under one root. `enabled` false: nothing is found, nothing is kept."""

    def __init__(self, root: str, limit_bytes: int, fingerprint: str = "", enabled: bool = True) -> None:
        self.root = os.path.join(root, FORMAT)
        self.limit_bytes = limit_bytes
        self.fingerprint = fingerprint
        self.enabled = enabled
        self._stored_bytes = 0  # since the last look at the whole
        self._full = False

    def key(self, module_digest: str, kernel: str, options: str) -> str:
        text = "\0".join((self.fingerprint, module_digest, kernel, options))
        return blake2b(text.encode(), digest_size=20).hexdigest()

    def _path(self, module_digest: str, key: str) -> str:
        return os.path.join(self.root, module_digest, key)

    def knows(self, module_digest: str) -> bool:
        """Whether anything of this module is there: if not, compiling will be needed soon."""
        return self.enabled and os.path.isdir(os.path.join(self.root, module_digest))

    def find(self, module_digest: str, key: str) -> str | None:
        """Path of a sound entry; a damaged one is removed."""
        if not self.enabled:
            return None
        path = self._path(module_digest, key)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        if not is_sound(data):
            _remove(path)
            return None
        try:
            os.utime(path)  # the time of change is the time of last use
        except OSError:
            pass
        return path

    def store(self, module_digest: str, key: str, image: bytes) -> str | None:
        """Keeps an image; returns its path, or None if it could not be kept."""
        if not self.enabled or self._full:
            return None
        path = self._path(module_digest, key)
        temporary = f"{path}.{os.getpid()}.new"
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(image)
            os.replace(temporary, path)
        except OSError as error:
            # Full or read-only: do not try again and again in this process.
            self._full = True
            _remove(temporary)
            say(
                f"compiled kernels cannot be kept in {self.root} ({error.strerror}): each start compiles them again\n"
                "  hint: `cuttle cache prune` makes room there, CUTTLE_CACHE_DIR names another folder, CUTTLE_CACHE=0 keeps none"
            )
            return None
        self._stored_bytes += len(image)
        if self._stored_bytes > self.limit_bytes // 16:
            self._stored_bytes = 0
            self.prune(self.limit_bytes)
        return path

    def entries(self) -> list[tuple[float, int, str]]:
        """(time of last use, bytes, path) of all entries, unsorted."""
        found = []
        for folder, _, files in os.walk(self.root):
            for name in files:
                path = os.path.join(folder, name)
                try:
                    facts = os.stat(path)
                except OSError:
                    continue
                found.append((facts.st_mtime, facts.st_size, path))
        return found

    def stats(self) -> dict[str, int | str]:
        entries = self.entries()
        return {
            "root": self.root,
            "entries": len(entries),
            "bytes": sum(size for _, size, _ in entries),
            "limit_bytes": self.limit_bytes,
        }

    def prune(self, limit_bytes: int, older_than_days: float = 0.0) -> int:
        """Removes entries not used for so long, and the oldest ones if all together exceed the limit. Returns bytes."""
        entries = sorted(self.entries())
        total = sum(size for _, size, _ in entries)
        wanted = int(limit_bytes * KEEP_AFTER_EVICTION) if total > limit_bytes else total
        horizon = time.time() - older_than_days * 86400 if older_than_days > 0 else 0.0
        removed = 0
        for used, size, path in entries:
            if total - removed <= wanted and used >= horizon:
                break
            if _remove(path):
                removed += size
        self._remove_empty_folders()
        return removed

    def clear(self) -> int:
        """Removes everything. Returns bytes."""
        removed = 0
        for _, size, path in self.entries():
            if _remove(path):
                removed += size
        self._remove_empty_folders()
        return removed

    def _remove_empty_folders(self) -> None:
        for folder, _, _ in os.walk(self.root, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass


def open_default(fingerprint: str = "") -> KernelCache:
    """The cache as the knobs say."""
    root = default_root()
    # Without HOME and an entry in the user database there is no folder of ours: none in the current one, then.
    enabled = knobs.CACHE.switch() and os.path.isabs(root)
    return KernelCache(root, knobs.CACHE_BYTES.whole(), fingerprint, enabled)


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
