"""The kernel cache: found again, damaged entries dropped, full disks harmless, oldest entries evicted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuttle.lower.cpu.image_file import pack_image
from cuttle.runtime.cache import KernelCache, compiler_fingerprint, is_sound


def image(size: int = 1000, fill: bytes = b"c") -> bytes:
    return pack_image({"name": "k"}, fill * size)


@pytest.fixture
def cache(tmp_path: Path) -> KernelCache:
    return KernelCache(str(tmp_path / "cache"), 1 << 20, "print")


def test_store_and_find(cache: KernelCache) -> None:
    key = cache.key("module", "kernel", "options")
    assert cache.find("module", key) is None and not cache.knows("module")
    path = cache.store("module", key, image())
    assert path is not None and cache.find("module", key) == path and cache.knows("module")
    assert Path(path).read_bytes() == image()
    assert [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".new")] == []


def test_keys_differ(tmp_path: Path, cache: KernelCache) -> None:
    other = KernelCache(str(tmp_path), 1 << 20, "another compiler")
    keys = {cache.key(*names) for names in (("m", "k", "o"), ("m", "k", "p"), ("m", "l", "o"), ("n", "k", "o"))}
    assert len(keys | {other.key("m", "k", "o")}) == 5


@pytest.mark.parametrize("place", [0, 9, 20, 50, 4100, -1])
def test_damage_is_noticed(cache: KernelCache, place: int) -> None:
    key = cache.key("m", "k", "o")
    path = cache.store("m", key, image())
    assert path is not None
    data = bytearray(Path(path).read_bytes())
    data[place] ^= 1
    Path(path).write_bytes(bytes(data))
    assert cache.find("m", key) is None
    assert not Path(path).exists()


@pytest.mark.parametrize("size", [0, 7, 47, 60, 4096, 5000])
def test_a_cut_off_file_is_noticed(cache: KernelCache, size: int) -> None:
    key = cache.key("m", "k", "o")
    path = cache.store("m", key, image())
    assert path is not None
    os.truncate(path, size)
    assert cache.find("m", key) is None


def test_sound_images() -> None:
    assert is_sound(image()) and not is_sound(image() + b"\0") and not is_sound(b"")


def test_full_disk_breaks_nothing(cache: KernelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert cache.store("m", "k", image()) is None
    monkeypatch.undo()
    assert cache.store("m", "k", image()) is None  # not tried again in this process
    assert [path for _, _, path in cache.entries()] == []


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = KernelCache(str(tmp_path / "file" / "below"), 1 << 20)
    assert cache.find("m", "k") is None
    assert cache.store("m", "k", image()) is None
    assert cache.stats()["entries"] == 0 and cache.clear() == 0


def test_oldest_entries_go_first(tmp_path: Path) -> None:
    cache = KernelCache(str(tmp_path), 1 << 30)
    for number in range(100):
        path = cache.store("m", f"key{number:03d}", image(10000))
        assert path is not None
        os.utime(path, (number, number))
    assert cache.find("m", "key000") is not None  # used now: the youngest
    cache.prune(500_000)
    left = sorted(os.path.basename(path) for _, _, path in cache.entries())
    assert left[0] == "key000" and left[-1] == "key099" and "key001" not in left
    assert sum(size for _, size, _ in cache.entries()) <= 500_000


def test_storing_keeps_the_limit(tmp_path: Path) -> None:
    cache = KernelCache(str(tmp_path), 300_000)
    for number in range(200):
        cache.store(f"m{number % 7}", f"key{number}", image(10000))
    assert sum(size for _, size, _ in cache.entries()) <= 330_000


def test_clear_and_stats(cache: KernelCache) -> None:
    cache.store("m", "a", image())
    cache.store("n", "b", image())
    stats = cache.stats()
    assert stats["entries"] == 2
    assert cache.clear() == stats["bytes"]
    assert cache.stats()["entries"] == 0 and not cache.knows("m")


def test_switched_off(tmp_path: Path) -> None:
    cache = KernelCache(str(tmp_path), 1 << 20, enabled=False)
    assert cache.store("m", "k", image()) is None and cache.find("m", "k") is None and not cache.knows("m")


def test_fingerprint_is_stable() -> None:
    assert compiler_fingerprint() == compiler_fingerprint()
