/* Launches: blocks of one grid, handed out to the workers in increasing order. */
#define _GNU_SOURCE
#include "executor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Below this much expected work a launch is not worth waking helpers for. */
#define ALONE_NANOSECONDS 8000.0
/* Memory that the blocks in flight of one worker may take, where blocks need not all be there. */
#define IN_FLIGHT_BYTES ((size_t)256 << 20)
#define MAXIMUM_PARAMETER_BYTES 65536

struct launch_state {
    cuttle_launch launch;
    image *image;
    uint64_t blocks;
    uint32_t cluster_blocks;
    uint64_t units; /* clusters, which are handed out as a whole; blocks where there are none */
    uint64_t chunk;
    uint32_t warps;
    size_t shared_bytes;
    size_t local_bytes;
    size_t frame_bytes;
    bool all_resident; /* cooperative: every block has its place from the start */
    _Alignas(64) _Atomic uint64_t next;
};

static block_slot *take_slot(worker *self, const launch_state *state)
{
    block_slot *slot = self->spare;
    if (slot != NULL) {
        self->spare = slot->next;
    } else {
        slot = aligned_alloc(64, (sizeof *slot + 63) / 64 * 64);
        if (slot == NULL) {
            fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for a block");
        }
        memset(slot, 0, sizeof *slot);
    }
    buffer_reserve(&slot->shared, state->shared_bytes);
    buffer_reserve(&slot->local, state->local_bytes);
    buffer_reserve(&slot->frame, state->frame_bytes);
    buffer_reserve(&slot->warps, state->warps * sizeof(cuttle_warp));
    slot->block.launch = (uint64_t)(uintptr_t)&state->launch;
    slot->block.shared = (uint64_t)(uintptr_t)slot->shared.memory;
    slot->block.local = (uint64_t)(uintptr_t)slot->local.memory;
    slot->block.frame = (uint64_t)(uintptr_t)slot->frame.memory;
    slot->block.warps = (uint64_t)(uintptr_t)slot->warps.memory;
    slot->block.worker = (uint64_t)(uintptr_t)self;
    slot->block.local_limit = state->image->local_bytes;
    slot->cluster = &slot->own;
    slot->scheduled = false;
    slot->next = NULL;
    return slot;
}

static void return_slot(worker *self, block_slot *slot)
{
    slot->next = self->spare;
    self->spare = slot;
}

static void name_block(block_slot *slot, const launch_state *state, uint64_t index)
{
    const uint32_t *grid = state->launch.grid;
    slot->block.index = (uint32_t)index;
    slot->block.ctaid[0] = (uint32_t)(index % grid[0]);
    slot->block.ctaid[1] = (uint32_t)(index / grid[0] % grid[1]);
    slot->block.ctaid[2] = (uint32_t)(index / grid[0] / grid[1]);
}

/* Waits a little for other workers, longer and longer. */
static void wait_for_others(uint32_t *fruitless)
{
    if (++*fruitless < 64) {
        cpu_relax();
    } else if (*fruitless < 4096) {
        sched_yield();
    } else {
        usleep(50);
    }
}

/* Blocks that never wait for each other. */
static void run_plain(worker *self, launch_state *state)
{
    uint64_t begin = atomic_fetch_add(&state->next, state->chunk);
    if (begin >= state->blocks) {
        return;
    }
    block_slot *slot = take_slot(self, state);
    self->running = state->image;
    self->current = slot;
    for (; begin < state->blocks; begin = atomic_fetch_add(&state->next, state->chunk)) {
        uint64_t end = begin + state->chunk < state->blocks ? begin + state->chunk : state->blocks;
        while (begin < end) {
            begin = state->image->blocks(&slot->block, begin, end);
            if (begin >= end) {
                break;
            }
            uint32_t fruitless = 0;
            enum block_outcome outcome;
            name_block(slot, state, begin);
            schedule_adopt(slot, state->warps);
            while ((outcome = schedule_block(slot, state->image, state->warps)) != BLOCK_FINISHED) {
                if (outcome == BLOCK_ADVANCED) {
                    fruitless = 0;
                } else {
                    wait_for_others(&fruitless);
                }
            }
            begin++;
        }
    }
    self->current = NULL;
    self->running = NULL;
    return_slot(self, slot);
}

typedef struct flight {
    block_slot **slots;
    size_t count;
    size_t capacity;
} flight;

static void flight_add(flight *in_flight, block_slot *slot)
{
    if (in_flight->count == in_flight->capacity) {
        in_flight->capacity = in_flight->capacity * 2 + 16;
        in_flight->slots = realloc(in_flight->slots, in_flight->capacity * sizeof *in_flight->slots);
        if (in_flight->slots == NULL) {
            fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for blocks in flight");
        }
    }
    in_flight->slots[in_flight->count++] = slot;
}

/* The block is done; its shared memory stays as long as its cluster has others. */
static void finish_block(worker *self, block_slot *slot)
{
    cluster *of = slot->cluster;
    if (of == &slot->own) {
        return_slot(self, slot);
        return;
    }
    if (--of->left != 0) {
        return;
    }
    for (uint32_t rank = 0; rank < of->blocks; rank++) {
        return_slot(self, of->slots[rank]);
    }
    cluster_return(self, of);
}

/* One round over all blocks in flight. Returns whether any of them did more than yield. */
static bool advance_flight(worker *self, launch_state *state, flight *in_flight)
{
    bool advanced = false;
    size_t kept = 0;
    for (size_t i = 0; i < in_flight->count; i++) {
        block_slot *slot = in_flight->slots[i];
        self->current = slot;
        enum block_outcome outcome = schedule_block(slot, state->image, state->warps);
        advanced |= outcome == BLOCK_FINISHED || outcome == BLOCK_ADVANCED;
        slot->cluster->moved |= outcome != BLOCK_WAITS_FOR_CLUSTER;
        if (outcome == BLOCK_FINISHED) {
            finish_block(self, slot);
        } else {
            in_flight->slots[kept++] = slot;
        }
    }
    in_flight->count = kept;
    for (size_t i = 0; i < kept; i++) {
        if (!in_flight->slots[i]->cluster->moved) {
            fault_raise(CUTTLE_FAULT_BARRIER_DEADLOCK, 0, "all blocks of a cluster wait at barriers that no other will reach");
        }
    }
    for (size_t i = 0; i < kept; i++) {
        in_flight->slots[i]->cluster->moved = false;
    }
    return advanced;
}

/* Runs a block as far as it comes by itself. */
static void start_block(worker *self, launch_state *state, flight *in_flight, block_slot *slot, uint64_t index)
{
    self->current = slot;
    if (state->image->blocks(&slot->block, index, index + 1) > index) {
        if (slot->cluster != &slot->own) {
            cluster_finish_block(slot->cluster);
        }
        finish_block(self, slot);
        return;
    }
    name_block(slot, state, index);
    schedule_adopt(slot, state->warps);
    flight_add(in_flight, slot);
}

static void start_cluster(worker *self, launch_state *state, flight *in_flight, uint64_t number)
{
    const uint32_t *grid = state->launch.grid;
    const uint32_t *shape = state->launch.cluster;
    const uint64_t across[2] = {grid[0] / shape[0], grid[1] / shape[1]};
    const uint64_t first[3] = {number % across[0] * shape[0], number / across[0] % across[1] * shape[1],
                               number / across[0] / across[1] * shape[2]};
    cluster *of = cluster_take(self, state->cluster_blocks, state->warps, state->shared_bytes);
    for (uint32_t rank = 0; rank < of->blocks; rank++) {
        block_slot *slot = of->slots[rank] = take_slot(self, state);
        slot->cluster = of;
        slot->block.shared = (uint64_t)(uintptr_t)of->memory + (uint64_t)rank * CUTTLE_CLUSTER_STRIDE;
    }
    for (uint32_t rank = 0; rank < state->cluster_blocks; rank++) {
        const uint64_t at[3] = {first[0] + rank % shape[0], first[1] + rank / shape[0] % shape[1],
                                first[2] + rank / shape[0] / shape[1]};
        start_block(self, state, in_flight, of->slots[rank], at[0] + grid[0] * (at[1] + grid[1] * at[2]));
    }
}

/* Starts the next block or cluster. Returns false when none is left. */
static bool start_unit(worker *self, launch_state *state, flight *in_flight)
{
    if (atomic_load_explicit(&state->next, memory_order_relaxed) >= state->units) {
        return false;
    }
    uint64_t number = atomic_fetch_add(&state->next, 1);
    if (number >= state->units) {
        return false;
    }
    if (state->cluster_blocks > 1) {
        start_cluster(self, state, in_flight, number);
    } else {
        start_block(self, state, in_flight, take_slot(self, state), number);
    }
    return true;
}

/* Blocks that may wait for each other: a worker starts further ones whenever all it has only yield. Since blocks are
 * handed out in increasing order, whatever waits for an earlier block gets it; and blocks that wait for all others (grid
 * barriers) find them all started sooner or later, however many workers take part. */
static void run_flowing(worker *self, launch_state *state)
{
    flight in_flight = {0};
    size_t bytes = state->shared_bytes + state->local_bytes + state->frame_bytes + 4096;
    size_t limit = state->all_resident ? SIZE_MAX : IN_FLIGHT_BYTES / bytes + 8;
    uint32_t fruitless = 0;
    self->running = state->image;
    for (;;) {
        if (advance_flight(self, state, &in_flight)) {
            fruitless = 0;
            continue;
        }
        if (in_flight.count < limit && start_unit(self, state, &in_flight)) {
            continue;
        }
        if (in_flight.count == 0) {
            break;
        }
        wait_for_others(&fruitless);
    }
    self->current = NULL;
    self->running = NULL;
    free(in_flight.slots);
}

static void run_share(worker *self, void *argument)
{
    launch_state *state = argument;
    if (state->image->may_yield || state->cluster_blocks > 1) {
        run_flowing(self, state);
    } else {
        run_plain(self, state);
    }
}

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static uint32_t at_least_one(uint32_t blocks)
{
    return blocks != 0 ? blocks : 1;
}

static void describe(launch_state *state, const cuttle_record_launch *record, const uint8_t *parameters)
{
    static uint64_t grid_id;
    /* What cooperative groups keep for a grid: the counter of its barrier, 4 bytes in. */
    static _Alignas(64) uint8_t grid_workspace[1024];
    image *of = state->image;
    state->launch = (cuttle_launch){
        .parameters = (uint64_t)(uintptr_t)parameters,
        .symbols = of->symbols,
        .services = (uint64_t)(uintptr_t)service_addresses(),
        .grid = {record->grid[0], record->grid[1], record->grid[2]},
        .block = {record->block[0], record->block[1], record->block[2]},
        .dynamic_shared_bytes = record->dynamic_shared_bytes,
        .static_shared_bytes = of->static_shared_bytes,
        .cluster = {at_least_one(record->cluster[0]), at_least_one(record->cluster[1]), at_least_one(record->cluster[2])},
        .flags = record->flags | (record->cluster[0] != 0 ? 4u : 0u),
        .grid_id = ++grid_id,
        .parameter_bytes = record->parameter_bytes,
        .workspace = (record->flags & 1) != 0 ? (uint64_t)(uintptr_t)grid_workspace : 0,
    };
    memset(grid_workspace, 0, (record->flags & 1) != 0 ? sizeof grid_workspace : 0);
    uint64_t threads = (uint64_t)record->block[0] * record->block[1] * record->block[2];
    state->blocks = (uint64_t)record->grid[0] * record->grid[1] * record->grid[2];
    const uint32_t *shape = state->launch.cluster;
    uint64_t together = (uint64_t)shape[0] * shape[1] * shape[2];
    if (together > MAXIMUM_CLUSTER || record->grid[0] % shape[0] != 0 || record->grid[1] % shape[1] != 0 ||
        record->grid[2] % shape[2] != 0) {
        fault_raise(CUTTLE_FAULT_IMAGE_FAILED_TO_LOAD, 0, "a launch with impossible clusters");
    }
    state->cluster_blocks = (uint32_t)together;
    state->units = state->blocks / together;
    state->warps = (uint32_t)((threads + CUTTLE_WARP_LANES - 1) / CUTTLE_WARP_LANES);
    state->shared_bytes = round_up((size_t)of->static_shared_bytes + record->dynamic_shared_bytes, 256);
    state->local_bytes = (size_t)state->warps * CUTTLE_WARP_LANES * of->local_bytes;
    state->frame_bytes = (size_t)state->warps * of->frame_bytes;
    state->all_resident = (record->flags & 1) != 0;
}

/* Helpers to ask for. A launch that was short the last time runs on the job thread alone. */
static uint32_t choose_width(const launch_state *state)
{
    double expected = state->image->nanoseconds_per_block * (double)state->blocks;
    if (state->units == 1 || (expected > 0 && expected < ALONE_NANOSECONDS)) {
        return 1;
    }
    return state->units < executor.workers ? (uint32_t)state->units : executor.workers;
}

void run_launch(const cuttle_record_launch *record, const uint8_t *parameters)
{
    static _Alignas(64) uint8_t parameter_copy[MAXIMUM_PARAMETER_BYTES];
    static launch_state state;
    image *of = image_find(record->target);
    if (of == NULL || record->parameter_bytes > sizeof parameter_copy) {
        fault_raise(CUTTLE_FAULT_IMAGE_FAILED_TO_LOAD, 0, "a launch names an image that is not loaded");
    }
    /* Copied for its alignment: in the ring, parameters are only 8-byte aligned. */
    memcpy(parameter_copy, parameters, record->parameter_bytes);
    state.image = of;
    describe(&state, record, parameter_copy);
    if (state.blocks == 0 || state.warps == 0) {
        return;
    }
    uint32_t width = choose_width(&state);
    /* At least 8 chunks for each worker keep the end of a grid even. */
    state.chunk = state.blocks / ((uint64_t)width * 8);
    if (state.chunk == 0) {
        state.chunk = 1;
    }
    if (width == 1) {
        state.chunk = state.blocks;
        state.launch.flags |= 2; /* Kernels then leave out bus locks, see abi/kernel_abi.py. */
    }
    atomic_store(&state.next, 0);
    uint64_t started = clock_ns();
    atomic_store_explicit(&executor.launch_started_ns, started, memory_order_relaxed);
    pool_run(run_share, &state, width);
    atomic_store_explicit(&executor.launch_started_ns, 0, memory_order_relaxed);
    double each = (double)(clock_ns() - started) * width / (double)state.blocks;
    of->nanoseconds_per_block = of->nanoseconds_per_block == 0 ? each : of->nanoseconds_per_block * 0.75 + each * 0.25;
}
