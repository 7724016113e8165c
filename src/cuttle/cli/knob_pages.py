"""The pages of the knobs, from `abi/knobs.py`: for `cuttle explain` and docs/reference/knobs.md."""

from __future__ import annotations

from cuttle.abi.knobs import KNOBS, Knob
from cuttle.cli.launch import FLAGS, KNOB_OPTIONS

KINDS = {
    "text": "text",
    "path": "a path",
    "whole": "a whole number",
    "bytes": "a size in bytes, with an optional suffix k, m, g or t",
    "seconds": "a time in seconds",
    "switch": "0 or 1",
    "version": "a version such as 8.0",
}


def kind_text(knob: Knob) -> str:
    return " | ".join(knob.choices) if knob.choices else KINDS.get(knob.kind, knob.kind)


def option_of(knob: Knob) -> str:
    """The option of `cuttle run` that sets the knob, or an empty string."""
    return next((option for option, name in {**KNOB_OPTIONS, **FLAGS}.items() if name == knob.name), "")


def knob_page(knob: Knob) -> str:
    lines = [
        f"{knob.name}: {knob.meaning}",
        "",
        f"  value    {kind_text(knob)}",
        f"  default  {knob.default or '(empty)'}",
    ]
    option = option_of(knob)
    if option:
        lines.append(f"  option   cuttle run {option}")
    return "\n".join(lines)


def knob_pages() -> dict[str, str]:
    return {knob.name: knob_page(knob) for knob in KNOBS}
