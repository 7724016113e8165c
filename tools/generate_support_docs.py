"""The support table of AMD GPUs from `abi/targets.py` and the accepted reports of self-tests. Called by `tools/generate.py`."""

from __future__ import annotations

import msgspec

from cuttle.selftest.support import support_rows
from cuttle.stack.selftest_report import SelftestReport
from tools.generate_docs import page, table


def support_page() -> str:
    rows = [
        (f"`{target.name}`", target.generation, target.products, state, evidence)
        for target, state, evidence in support_rows()
    ]
    schema = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(SelftestReport)), indent=2).decode()
    return page(
        "# AMD GPUs: what is verified",
        "",
        "*Verified on hardware*: an owner's report of `cuttle selftest` ([how](../how-to/test-your-radeon.md)) without a failed test, in",
        "`src/cuttle/stack/verified/cuttle/`. *Emulated*: the same tests pass in Cuttle's emulator. *Compiles*: code is made, nothing executed it.",
        "",
        *table(("target", "generation", "GPUs", "state", "evidence"), rows),
        "",
        "## Reports",
        "",
        "JSON Schema 2020-12 of a report; besides, the numbers must fit the lists, and a report on hardware takes a kernel driver that names the same GPU:",
        "",
        "```json",
        *schema.splitlines(),
        "```",
    )


def documents() -> dict[str, str]:
    """Path → text of every generated page."""
    return {"docs/reference/amd-support.md": support_page()}
