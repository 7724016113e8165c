"""Reference pages of `cuttle stack` from its types and files: manifests, and the data of every command. Called by `tools/generate.py`."""

from __future__ import annotations

from typing import Any

import msgspec

from cuttle.abi.stack_engines import ENGINES
from cuttle.abi.targets import GPU_TARGETS
from cuttle.stack.check import CheckResult
from cuttle.stack.compare_runs import BenchReport
from cuttle.stack.diagnosis import DoctorResult
from cuttle.stack.install import UninstallResult, VerifyResult
from cuttle.stack.machine import Machine
from cuttle.stack.manifest import CHANNELS, Manifest, load, schema_document
from cuttle.stack.plan import Plan
from cuttle.stack.probe import ProbeReport
from cuttle.stack.report import Facts
from cuttle.stack.setup import InstallResult
from cuttle.stack.stage import StageResult
from cuttle.stack.support import support
from tools.check_links import anchor
from tools.generate_docs import page, table

# Verb → (type of its data, what is there besides).
RESULTS: dict[str, tuple[type, str]] = {
    "scan": (Machine, ""),
    "plan": (Plan, "With `--list`: `manifests[]`, each as in [manifests](stack-manifests.md)."),
    "install": (InstallResult, ""),
    "stage": (StageResult, ""),
    "unstage": (StageResult, ""),
    "verify": (VerifyResult, ""),
    "uninstall": (UninstallResult, ""),
    "pin": (Manifest, ""),
    "doctor": (DoctorResult, "With `--list-checks`: `checks[]` of names."),
    "check": (CheckResult, "With `--list`: `libraries[]` of names."),
    "probe": (ProbeReport, "With `--list`: `tests[]`."),
    "bench": (BenchReport, "With `--list`: `workloads`."),
    "report": (Facts, "Besides: `markdown` (the report as text) and `bundle` (the name of the archive that was written, or null)."),
}  # fmt: skip


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


def title_of(definition: str) -> str:
    """`Plan`; and for names that two modules have, `Finding of probe` instead of `cuttle.stack.probe.Finding`."""
    module, _, name = definition.rpartition(".")
    return f"{name} of {module.rpartition('.')[2]}" if module else name


def type_text(schema: dict[str, Any]) -> str:
    """A JSON Schema as a few words."""
    if "$ref" in schema:
        title = title_of(schema["$ref"].rpartition("/")[2])
        return f"[{title}](#{anchor(title)})"
    if "anyOf" in schema:
        return " or ".join(type_text(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {type_text(schema.get('items', {}))}" if not isinstance(schema.get("items"), bool) else "list"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object: name → {type_text(inner)}" if isinstance(inner, dict) else "object"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
    return words.get(kind, str(kind))


def results_page() -> str:
    schemas, definitions = msgspec.json.schema_components([kind for kind, _ in RESULTS.values()])
    lines = [
        "# JSON of `cuttle stack`",
        "",
        "`data` of the [envelope](json.md) for every command but `run`. Stored results (`results/<verb>.json` below the installation) have the same form.",
        "",
    ]
    rows = [
        (f"`{verb}`", type_text(schema), note)
        for (verb, (_, note)), schema in zip(RESULTS.items(), schemas, strict=True)
    ]
    lines += table(("command", "data", "besides"), rows)
    for name, definition in sorted(definitions.items()):
        lines += ["", f"## {title_of(name)}", ""]
        if text := definition.get("description", ""):
            lines += [" ".join(text.split()), ""]
        properties = [(f"`{field}`", type_text(schema)) for field, schema in definition.get("properties", {}).items()]
        lines += table(("field", "type"), properties)
    return page(*lines)  # fmt: skip


def gpus_page() -> str:
    rows = []
    for target in GPU_TARGETS:
        if target.generic_version:
            continue
        states = [support(engine.name, target.name) for engine in ENGINES]
        rows.append(
            (
                f"`{target.name}`",
                target.generation,
                target.products,
                *(f"{state.state}: {state.evidence}" for state in states),
            )
        )
    return page(
        "# AMD GPUs and what is known of them",
        "",
        "*Verified on hardware* takes an accepted report in `src/cuttle/stack/verified/` (for Cuttle one of `cuttle selftest`); there is none yet. *Emulated*: code objects run in Cuttle's emulator in",
        "CI. An *unverified candidate* may work. That a GPU is detected proves nothing.",
        "",
        *table(("target", "generation", "GPUs", *(f"engine `{engine.name}`" for engine in ENGINES)), rows),
    )  # fmt: skip


def documents() -> dict[str, str]:
    """Path → text of every generated page."""
    return {
        "docs/reference/stack-manifests.md": manifests_page(),
        "docs/reference/stack-json.md": results_page(),
        "docs/reference/stack-gpus.md": gpus_page(),
    }
