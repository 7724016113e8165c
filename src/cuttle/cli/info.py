"""`cuttle info`: the devices that programs will see."""

from __future__ import annotations

from typing import Any

import click

from cuttle.cli.command_line import verb
from cuttle.cli.devices import devices
from cuttle.cli.render import Style, size_text
from cuttle.cli.result import Block, Result, Table, Text
from cuttle.errors import CuttleError

# Names for --query → (title, key of the report).
FIELDS = {
    "index": "index",
    "name": "name",
    "uuid": "uuid",
    "memory": "memory_bytes",
    "cc": "compute_capability",
    "multiprocessors": "multiprocessor_count",
    "warp": "warp_size",
    "threads": "max_threads_per_block",
    "shared": "max_shared_memory_per_block",
}


def device_line(device: dict[str, Any]) -> str:
    """One line a device, as `nvidia-smi -L` prints it."""
    return f"GPU {device['index']}: {device['name']} (UUID: {device['uuid']})"


def fields_of(context: click.Context, option: click.Parameter, names: str | None) -> list[str] | None:
    """The fields of a query. Raises CuttleError CLI-0003, which is wrong usage."""
    if names is None:
        return None
    fields = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in fields if name not in FIELDS]
    if unknown or not fields:
        what = f"unknown field {', '.join(unknown)}" if unknown else "no field was named"
        raise CuttleError("CLI-0003", what, hint=f"The fields are: {', '.join(FIELDS)}.")
    return fields


def queried(report: dict[str, Any], fields: list[str], header: bool) -> str:
    lines = [",".join(fields)] if header else []
    for device in report["devices"]:
        lines.append(",".join(str(device[FIELDS[name]]) for name in fields))
    return "\n".join(lines)


def amd_gpus() -> list[dict[str, Any]]:
    """The GPUs that AMD's HIP library sees, with its version; none without a library or a GPU."""
    from cuttle.device.hip.report import choose_hip

    chosen, _ = choose_hip()
    return [{"hip_version": chosen["version"], **gpu} for gpu in chosen["devices"]] if chosen else []


def amd_table(gpus: list[dict[str, Any]]) -> Table:
    rows = [
        (
            str(gpu["index"]),
            gpu.get("name", ""),
            gpu.get("target", ""),
            size_text(gpu["memory_bytes"]) if "memory_bytes" in gpu else "",
            gpu["hip_version"],
            "yes" if gpu["supported"] else gpu["error"]["message"],
        )
        for gpu in gpus
    ]
    return Table(("#", "name", "target", "memory", "HIP", "code can be made"), rows, frozenset({"memory"}))


@verb("info")
@click.option("-L", "--list", "as_list", is_flag=True, help="One line a device.")
@click.option("--query", metavar="FIELDS", callback=fields_of, help=f"CSV of these fields: {', '.join(FIELDS)}.")
@click.option("--format", "form", type=click.Choice(["csv", "csv,noheader"]), default="csv", help="With --query.")
def command(style: Style, as_list: bool, query: list[str] | None, form: str) -> Result:
    """Show the devices that programs will see under `cuttle run`, with the knobs set now."""
    report = devices()
    data = {"driver_version": report["driver_version"], "devices": report["devices"]}
    if as_list:
        return Result("info", data, [Text("\n".join(map(device_line, report["devices"])))])
    if query is not None:
        return Result("info", data, [Text(queried(report, query, form == "csv"))])
    amd = amd_gpus()
    data["amd_gpus"] = amd
    rows = [
        (
            str(device["index"]),
            device["name"],
            device["compute_capability"],
            size_text(device["memory_bytes"]),
            str(device["multiprocessor_count"]),
            str(device["warp_size"]),
        )
        for device in report["devices"]
    ]
    columns = ("#", "name", "compute", "memory", "multiprocessors", "warp")
    blocks: list[Block] = [Table(columns, rows, frozenset({"memory", "multiprocessors", "warp"}))]
    if amd:
        blocks += [
            Text("\nAMD GPUs (CUTTLE_DEVICE=hip; not verified on hardware: docs/reference/amd-support.md):"),
            amd_table(amd),
        ]
    if style.verbose:
        details = [("driver version", str(report["driver_version"])), ("library", report["library"])]
        for device in report["devices"]:
            details += [(f"{device['index']}: {key}", str(value)) for key, value in device.items()]
        blocks.append(Table(("property", "value"), details))
    return Result("info", data, blocks)
