"""Expansion of the compact syntax notation of opcode rows into every spelling it stands for."""

from __future__ import annotations

from collections.abc import Iterator


def expand(pattern: str) -> list[str]:
    """`add[.sat].(s32|u32)` -> `add.s32`, `add.u32`, `add.sat.s32`, `add.sat.u32`; `[...]` optional, `(...)` a choice."""
    texts, rest = _choice(pattern, 0)
    if rest != len(pattern):
        raise ValueError(f"unbalanced pattern {pattern!r} at {rest}")
    return list(dict.fromkeys(texts))


def _choice(pattern: str, at: int) -> tuple[list[str], int]:
    """Alternatives up to the closing bracket of the group that `at` is inside."""
    results: list[str] = []
    while True:
        texts, at = _sequence(pattern, at)
        results.extend(texts)
        if at == len(pattern) or pattern[at] != "|":
            return results, at
        at += 1


def _sequence(pattern: str, at: int) -> tuple[list[str], int]:
    texts = [""]
    while at < len(pattern) and pattern[at] not in "|)]":
        opening = pattern[at]
        if opening in "[(":
            options, at = _choice(pattern, at + 1)
            if pattern[at : at + 1] != {"[": "]", "(": ")"}[opening]:
                raise ValueError(f"unbalanced pattern {pattern!r} at {at}")
            at += 1
            if opening == "[":
                options = ["", *options]
            texts = [text + option for text in texts for option in options]
        else:
            end = at
            while end < len(pattern) and pattern[end] not in "|)][(":
                end += 1
            texts = [text + pattern[at:end] for text in texts]
            at = end
    return texts, at


def expand_all(patterns: tuple[str, ...]) -> Iterator[str]:
    """Every spelling of several patterns, each once."""
    seen: set[str] = set()
    for pattern in patterns:
        for text in expand(pattern):
            if text not in seen:
                seen.add(text)
                yield text
