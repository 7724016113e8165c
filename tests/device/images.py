"""Small images made from C, to drive the executor without the compiler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from cuttle.lower.cpu.image_file import pack_image

GENERATED = Path(__file__).parents[2] / "src" / "cuttle" / "client" / "generated"

PRELUDE = """
#include "cuttle_wire.h"
typedef uint64_t (*service)(cuttle_block *, uint32_t, uint64_t, uint64_t, uint64_t, uint64_t);
#define LAUNCH(block) ((const cuttle_launch *)(block)->launch)
#define PARAMETER(block, type, offset) (*(type *)(LAUNCH(block)->parameters + (offset)))
#define SERVICE(block, number) (((const service *)LAUNCH(block)->services)[number])
#define WARPS(block) ((cuttle_warp *)(block)->warps)
static inline void place(cuttle_block *block, uint64_t i) {
    const uint32_t *grid = LAUNCH(block)->grid;
    block->index = (uint32_t)i;
    block->ctaid[0] = (uint32_t)(i % grid[0]);
    block->ctaid[1] = (uint32_t)(i / grid[0] % grid[1]);
    block->ctaid[2] = (uint32_t)(i / grid[0] / grid[1]);
}
"""

SCRIPT = "SECTIONS { . = 0; .all : { *(.text .text.* .rodata .rodata.* .data .data.*) } /DISCARD/ : { *(*) } }"


def build_image(folder: Path, name: str, source: str, **metadata: Any) -> Path:
    """Compiles C with functions `blocks` and perhaps `step` to an image file."""
    (folder / f"{name}.c").write_text(PRELUDE + source)
    (folder / "script.ld").write_text(SCRIPT)
    object_file, elf, blob = folder / f"{name}.o", folder / f"{name}.elf", folder / f"{name}.bin"
    flags = [
        "-O2",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-stack-protector",
        "-fno-asynchronous-unwind-tables",
        "-ffreestanding",
    ]
    subprocess.run(["gcc", *flags, f"-I{GENERATED}", "-c", folder / f"{name}.c", "-o", object_file], check=True)
    subprocess.run(["ld", "-T", folder / "script.ld", "-o", elf, object_file], check=True, capture_output=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".all", elf, blob], check=True)
    symbols = subprocess.run(["nm", elf], check=True, capture_output=True, text=True).stdout
    places = {match[2]: int(match[1], 16) for match in re.finditer(r"^(\w+) \w (\w+)$", symbols, re.MULTILINE)}
    facts: dict[str, Any] = {
        "name": name, "blocks": places["blocks"], "step": places.get("step"), "fixups": [], "imports": [], "symbols": [],
        "static_shared_bytes": 0, "local_bytes": 0, "frame_bytes": 0, "can_stop": False, "may_yield": False,
        "block_shape": None, "max_index": None, "parameters": [], "report": {}, "lines": [],
    }  # fmt: skip
    facts.update(metadata)
    path = folder / f"{name}.image"
    path.write_bytes(pack_image(facts, blob.read_bytes()))
    return path


ADD = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    const float *a = PARAMETER(block, const float *, 0), *b = PARAMETER(block, const float *, 8);
    float *c = PARAMETER(block, float *, 16);
    uint32_t count = PARAMETER(block, uint32_t, 24), threads = LAUNCH(block)->block[0];
    for (uint64_t i = begin; i < end; i++)
        for (uint32_t t = 0; t < threads; t++)
            if (i * threads + t < count) c[i * threads + t] = a[i * threads + t] + b[i * threads + t];
    return end;
}
"""

EMPTY = "uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) { return end; }"

# Writes the square of each index; nothing else.
SQUARES = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    uint64_t *out = PARAMETER(block, uint64_t *, 0);
    for (uint64_t i = begin; i < end; i++) { place(block, i); out[i] += (uint64_t)block->index * block->index; }
    return end;
}
"""

# Three rounds over a named barrier, warp by warp, with a reduction each round: every warp adds what it got.
BARRIERS = """
static uint32_t warps_of(cuttle_block *block) { return (LAUNCH(block)->block[0] + 31) / 32; }
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    if (begin == end) return end;
    place(block, begin);
    for (uint32_t w = 0; w < warps_of(block); w++) { WARPS(block)[w].resume = 0; WARPS(block)[w].stop = CUTTLE_STOP_YIELD; }
    return begin;
}
uint32_t step(cuttle_block *block, uint32_t w, uint32_t resume) {
    uint32_t *out = PARAMETER(block, uint32_t *, 0) + (block->index * warps_of(block) + w) * 4;
    cuttle_warp *warp = &WARPS(block)[w];
    if (resume > 0) out[resume - 1] = warp->value;
    if (resume == 3) return CUTTLE_STEP_DONE;
    warp->stop = resume == 0 ? CUTTLE_STOP_BARRIER_RED_POPC : resume == 1 ? CUTTLE_STOP_BARRIER_RED_AND : CUTTLE_STOP_BARRIER_RED_OR;
    warp->barrier = resume;
    warp->threads = 0;
    warp->active = 0xffffffff;
    warp->value = w == 1 ? 0x0f : 0xffffffff;
    return resume + 1;
}
"""

# Every second warp waits at a barrier that nobody else reaches.
DEADLOCK = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    place(block, begin);
    for (uint32_t w = 0; w < 2; w++) { WARPS(block)[w].resume = 0; WARPS(block)[w].stop = CUTTLE_STOP_YIELD; }
    return begin;
}
uint32_t step(cuttle_block *block, uint32_t w, uint32_t resume) {
    cuttle_warp *warp = &WARPS(block)[w];
    warp->stop = CUTTLE_STOP_BARRIER_SYNC; warp->barrier = w; warp->threads = 64; warp->active = 0xffffffff;
    return resume + 1;
}
"""

# A producer arrives without waiting, consumers wait for it: one barrier for 64 threads.
ARRIVE = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    place(block, begin);
    for (uint32_t w = 0; w < 2; w++) { WARPS(block)[w].resume = 0; WARPS(block)[w].stop = CUTTLE_STOP_YIELD; }
    return begin;
}
uint32_t step(cuttle_block *block, uint32_t w, uint32_t resume) {
    uint32_t *out = PARAMETER(block, uint32_t *, 0);
    cuttle_warp *warp = &WARPS(block)[w];
    if (resume == 1) { out[w] = w == 0 ? 1 : out[2]; return CUTTLE_STEP_DONE; }
    if (w == 1) out[2] = 0; else out[2] = 7;
    warp->stop = w == 0 ? CUTTLE_STOP_BARRIER_ARRIVE : CUTTLE_STOP_BARRIER_SYNC;
    warp->barrier = 3; warp->threads = 64; warp->active = 0xffffffff;
    return 1;
}
"""

# All blocks meet at a counter in memory, spinning with yields: works only if all get to run.
GRID_BARRIER = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    if (begin == end) return end;
    place(block, begin);
    WARPS(block)[0].resume = 0; WARPS(block)[0].stop = CUTTLE_STOP_YIELD;
    return begin;
}
uint32_t step(cuttle_block *block, uint32_t w, uint32_t resume) {
    uint32_t *counter = PARAMETER(block, uint32_t *, 0);
    const uint32_t *grid = LAUNCH(block)->grid;
    if (resume == 0) __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(counter, __ATOMIC_SEQ_CST) >= grid[0] * grid[1] * grid[2]) {
        __atomic_fetch_add(counter + 1, 1, __ATOMIC_SEQ_CST);
        return CUTTLE_STEP_DONE;
    }
    WARPS(block)[w].stop = CUTTLE_STOP_YIELD;
    return 1;
}
"""

PRINT = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    uint64_t format = PARAMETER(block, uint64_t, 0), arguments = PARAMETER(block, uint64_t, 8);
    int64_t *out = PARAMETER(block, int64_t *, 16);
    for (uint64_t i = begin; i < end; i++) {
        place(block, i);
        out[i] = (int64_t)SERVICE(block, CUTTLE_SERVICE_VPRINTF)(block, 0, format, arguments, 0, 0);
    }
    return end;
}
"""

ASSERT = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    place(block, begin);
    SERVICE(block, CUTTLE_SERVICE_ASSERTFAIL)(block, 37, PARAMETER(block, uint64_t, 0), PARAMETER(block, uint64_t, 8),
                                              12, PARAMETER(block, uint64_t, 16));
    return end;
}
"""

HEAP = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    uint64_t *out = PARAMETER(block, uint64_t *, 0);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t kept = 0, state = i * 2654435761u + 1;
        for (int turn = 0; turn < 200; turn++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            uint64_t bytes = 1 + (state >> 33) % 3000;
            uint64_t *memory = (uint64_t *)SERVICE(block, CUTTLE_SERVICE_MALLOC)(block, 0, bytes, 0, 0, 0);
            if (memory == 0 || ((uint64_t)memory & 15) != 0) { out[i] = 1; break; }
            for (uint64_t b = 0; b < bytes; b++) ((uint8_t *)memory)[b] = (uint8_t)(i + turn);
            if (kept != 0) SERVICE(block, CUTTLE_SERVICE_FREE)(block, 0, kept, 0, 0, 0);
            for (uint64_t b = 0; b < bytes; b++) if (((uint8_t *)memory)[b] != (uint8_t)(i + turn)) out[i] = 2;
            kept = (uint64_t)memory;
        }
        SERVICE(block, CUTTLE_SERVICE_FREE)(block, 0, kept, 0, 0, 0);
    }
    return end;
}
"""

WILD = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    place(block, begin);
    *(volatile uint32_t *)PARAMETER(block, uint64_t, 0) = 1;
    return end;
}
"""

FOREVER = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    for (;;) __asm__ volatile("pause");
}
"""

TRAP = """
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    place(block, begin);
    SERVICE(block, CUTTLE_SERVICE_TRAP)(block, 5, CUTTLE_FAULT_TRAP, 123, 0, 0);
    return end;
}
"""

RECURSION = """
static __attribute__((noinline)) uint64_t deeper(volatile uint64_t *n) {
    volatile uint64_t room[512];
    room[0] = *n;
    return room[0] == 1 ? 0 : deeper(&room[0]) + room[0];
}
uint64_t blocks(cuttle_block *block, uint64_t begin, uint64_t end) {
    volatile uint64_t zero = 0;
    place(block, begin);
    return end + deeper(&zero);
}
"""
