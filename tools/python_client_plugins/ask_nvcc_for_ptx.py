"""A pytest plugin for PyCUDA's tests, which let nvcc make machine code: it makes PTX instead, for the same compute capability.

The tests stay as they are. On a GPU both ways end in the same kernel; Cuttle can only run PTX.
"""

from __future__ import annotations

from typing import Any

from pycuda import compiler  # type: ignore[import-not-found]

_compile = compiler.compile_plain


def _compile_to_ptx(
    source: str, options: list[str], keep: bool, nvcc: str, cache_dir: str | None, target: str = "cubin"
) -> Any:
    return _compile(source, options, keep, nvcc, cache_dir, "ptx")


compiler.compile_plain = _compile_to_ptx
