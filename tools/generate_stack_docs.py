"""The reference page of `cuttle stack`'s manifests, from the types and the shipped files. Called by `tools/generate.py`."""

from __future__ import annotations

import msgspec

from cuttle.stack.manifest import CHANNELS, load, schema_document
from tools.generate_docs import page, table


def manifests_page() -> str:
    lines = [
        "# Manifests of `cuttle stack`",
        "",
        "A manifest says what an installation consists of. `cuttle stack plan --list` shows the shipped ones, `cuttle stack pin` writes new ones,",
        "and `--manifest FILE` takes one. An asset without a hash refuses to install (STK-0102).",
    ]
    for channel in CHANNELS:
        manifest = load(channel)
        sdk = manifest.hip_sdk
        lines += ["", f"## Channel `{channel}`", ""]
        lines += [f"Hashes looked up on {manifest.checked}. HIP SDK {sdk.version}; accepted major versions: {', '.join(map(str, sdk.majors))}.", ""]  # fmt: skip
        rows = [
            (
                f"`{asset.name}`",
                asset.platform,
                asset.version,
                f"`{asset.file}`",
                f"{asset.size_bytes:,}" if asset.size_bytes else "not published",
                f"`{asset.sha256}`" if asset.sha256 else f"none: {asset.why_no_hash}",
                f"[source]({asset.hash_source})" if asset.hash_source else "",
            )
            for asset in manifest.assets
        ]
        lines += table(("asset", "platform", "version", "file", "bytes", "SHA-256", "published at"), rows)
    schema = msgspec.json.format(msgspec.json.encode(schema_document()), indent=2).decode()
    lines += ["", "## Schema", "", "JSON Schema 2020-12:", "", "```json", *schema.splitlines(), "```"]
    return page(*lines)


def documents() -> dict[str, str]:
    """Path → text of every generated page."""
    return {"docs/reference/stack-manifests.md": manifests_page()}
