"""Checks of the kernel cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cuttle.cli.checks import OK, WARNING, Context, Finding
from cuttle.cli.render import count_text, size_text


def check_cache(context: Context) -> Finding:
    """Is there a folder for compiled kernels, with room, and without rests of interrupted writes?"""
    from cuttle.runtime.cache import open_default

    cache = open_default()
    if not cache.enabled:
        return Finding(WARNING, "compiled kernels are not kept (CUTTLE_CACHE=0)", "Unset CUTTLE_CACHE.")
    folder = Path(cache.root)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return Finding(
            WARNING, f"{folder} cannot be written; every program compiles its kernels anew", "Set CUTTLE_CACHE_DIR."
        )
    entries = cache.entries()
    free = shutil.disk_usage(existing).free
    text = f"{count_text(len(entries), 'kernel')}, {size_text(sum(size for _, size, _ in entries))} in {folder}"
    if free < 64 << 20:
        return Finding(
            WARNING, f"{text}; only {size_text(free)} free", "`cuttle cache clear`, or set CUTTLE_CACHE_DIR."
        )
    rests = [path for _, _, path in entries if path.endswith(".new")]
    if rests:
        return Finding(WARNING, f"{text}; {len(rests)} unfinished files of ended programs", "`cuttle cache prune`")
    return Finding(OK, text)
