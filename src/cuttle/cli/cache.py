"""`cuttle cache`: the folder of compiled kernels."""

from __future__ import annotations

import click

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, size_text
from cuttle.cli.result import Remark, Result, Table
from cuttle.runtime.cache import open_default

ACTIONS = ("size", "prune", "clear")


@verb("cache")
@click.argument("action", type=click.Choice(ACTIONS), default="size")
@click.option(
    "--older-than", type=float, metavar="DAYS", default=0.0, help="With prune: also what was not used so long."
)
@click.option("--limit", metavar="SIZE", help="With prune: shrink to this size (default: CUTTLE_CACHE_BYTES).")
def command(style: Style, action: str, older_than: float, limit: str | None) -> Result:
    """Show the size of the cache of compiled kernels, shrink it, or empty it.

    Programs may run meanwhile: they compile again what is missing.
    """
    cache = open_default()
    if action == "size":
        stats = cache.stats()
        rows = [
            ("folder", str(stats["root"])),
            ("kernels", str(stats["entries"])),
            ("size", size_text(int(stats["bytes"]))),
            ("limit", size_text(int(stats["limit_bytes"]))),
        ]
        return Result("cache", stats, [Table(("cache", ""), rows)])
    if action == "clear":
        removed = cache.clear()
    else:
        removed = cache.prune(size_bytes(limit) if limit is not None else cache.limit_bytes, older_than)
    text = f"removed {size_text(removed)} from {cache.root}"
    return Result("cache", {"root": cache.root, "removed_bytes": removed}, [Remark(f"cuttle: {text}")])


def size_bytes(text: str) -> int:
    """A size such as 500m, as the knob reads it."""
    from cuttle.abi.knobs import CACHE_BYTES, KnobError

    try:
        return CACHE_BYTES.whole({CACHE_BYTES.name: text})
    except KnobError:
        raise click.BadParameter(f"{text} is no size such as 500m", param_hint="--limit") from None
