"""Where a kernel faulted, in the words of its image's metadata (`abi/kernel_abi.py`). Loaded when a fault has happened."""

from __future__ import annotations

import json

from cuttle.abi.kernel_abi_constants import IMAGE_HEADER_BYTES, IMAGE_MAGIC

MOST_METADATA_BYTES = 64 << 20

ILLEGAL_ADDRESS = 1
READ, WRITE = 1, 2
READING, WRITING = ("ld", "ldu", "tex", "tld4", "suld", "wmma", "ldmatrix"), ("st", "sust", "sured", "wmma", "stmatrix")
MOST_CANDIDATES = 4
# By the state space of the instruction that met an illegal address.
SPACE_HINTS = {
    "shared": "Shared memory of a block ends before that address: is the dynamic size of the launch large enough?",
    "local": "The local memory of a thread ends before that address: an index of a local array is out of range.",
}
# By fault kind (abi/wire.py FAULTS).
HINTS = {
    2: "A number lies at a multiple of its size, a vector (float4, ld.v4) at one of its whole size: was a pointer cast, or moved by bytes?",
    3: "`trap` in PTX, __trap() in CUDA C++: the program stopped itself.",
    4: "assert() in device code: the line with `Assertion ... failed` says which.",
    5: "cudaDeviceSetLimit(cudaLimitStackSize, bytes) gives each thread more stack; recursion may have no end.",
    6: "CUTTLE_TIMEOUT, or `cuttle run --timeout`, sets how long a kernel may run; 0 is for ever.",
    9: "A 32-bit signed index went beyond 2^31 - 1. CUTTLE_AFFINE=0 compiles kernels without relying on indices, slower.",
    10: "Threads of a block wait at different barriers, or some ended before one that counts them.",
}


def read_metadata(path: str) -> dict[str, object]:
    """The metadata of an image file; empty if it is gone or not readable: a message must not fail for that."""
    try:
        with open(path, "rb") as file:
            head = file.read(IMAGE_HEADER_BYTES)
            size = int.from_bytes(head[8:16], "little")
            if head[:8] != IMAGE_MAGIC or size > MOST_METADATA_BYTES:
                return {}
            metadata = json.loads(file.read(size))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


Site = tuple[str, str, int]


def read_sites(path: str) -> dict[int, Site]:
    """PTX line → (instruction, source file or "", source line) of an image file."""
    found = read_metadata(path).get("sites") if path else None
    sites: dict[int, Site] = {}
    for line, site in found.items() if isinstance(found, dict) else ():
        if line.isdecimal() and isinstance(site, list) and [type(part) for part in site] == [str, str, int]:
            sites[int(line)] = (site[0], site[1], site[2])
    return sites


def candidates(sites: dict[int, Site], access: int) -> list[int]:
    """The lines that may have met an illegal address, by what the access was (1 read, 2 write); none if they are many."""
    found = []
    for line, (instruction, _, _) in sorted(sites.items()):
        opcode = instruction.partition(".")[0]
        both = opcode in ("atom", "red")
        if both or (access == READ and opcode in READING) or (access == WRITE and opcode in WRITING):
            found.append(line)
    return found if len(found) <= MOST_CANDIDATES else []


def place_line(line: int, site: Site | None) -> str:
    if site is None:
        return f"PTX line {line}"
    instruction, file, source_line = site
    source, advice = (f"{file}:{source_line}, ", "") if file else ("", " (nvcc -lineinfo names the source line)")
    return f"{source}PTX line {line}: `{instruction}`{advice}"


def describe(path: str, line: int, kind: int, access: int) -> tuple[list[str], bool]:
    """Lines for the user: the source line if the PTX names one, the line of the PTX text with its instruction, a hint; and
    whether the instruction reaches device memory, so that allocations are worth a look."""
    sites = read_sites(path)
    places = [line] if line else candidates(sites, access) if kind == ILLEGAL_ADDRESS else []
    one_of = "one of " if len(places) > 1 else ""
    lines = [f"  --> {one_of}{place_line(place, sites.get(place))}" for place in places]
    hint = HINTS.get(kind, "")
    for space, advice in SPACE_HINTS.items():
        if kind == ILLEGAL_ADDRESS and places and all(f".{space}" in sites.get(place, ("",))[0] for place in places):
            hint = advice
    lines += [f"  hint: {hint}"] if hint else []
    return lines, not hint
