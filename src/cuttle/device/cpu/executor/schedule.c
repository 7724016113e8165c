/* Carrying a block on by the general rules, one warp at a time: named barriers with thread counts, reductions, arrivals
 * that do not wait, yields. Generated code takes this way only when a block's warps do not stop all alike.
 *
 * Threads are counted by whole warps: a warp arrives once, when all its lanes that have not exited are at the barrier (the
 * generated code sees to that). A barrier for the whole block counts finished warps as arrived; one with an explicit count
 * does not. A count that is no multiple of the warp is an illegal instruction, as on an H200.
 */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

static cuttle_warp *warp_at(block_slot *slot, uint32_t number)
{
    return (cuttle_warp *)slot->warps.memory + number;
}

static void clear_barrier(barrier_state *barrier)
{
    *barrier = (barrier_state){.all = true};
}

static void release(block_slot *slot, uint32_t number, uint32_t warps)
{
    barrier_state *barrier = &slot->barriers[number];
    for (uint32_t w = 0; w < warps; w++) {
        if (slot->waiting[w] != number + 1) {
            continue;
        }
        slot->waiting[w] = 0;
        cuttle_warp *warp = warp_at(slot, w);
        if (warp->stop == CUTTLE_STOP_BARRIER_RED_POPC) {
            warp->value = barrier->predicate_lanes;
        } else if (warp->stop == CUTTLE_STOP_BARRIER_RED_AND) {
            warp->value = barrier->all;
        } else if (warp->stop == CUTTLE_STOP_BARRIER_RED_OR) {
            warp->value = barrier->any;
        }
    }
    clear_barrier(barrier);
}

static void release_if_complete(block_slot *slot, uint32_t number, uint32_t warps)
{
    barrier_state *barrier = &slot->barriers[number];
    if (barrier->arrived == 0) {
        return;
    }
    uint32_t whole_block = warps * CUTTLE_WARP_LANES;
    bool counts_block = barrier->expected == 0 || barrier->expected >= whole_block;
    uint32_t expected = counts_block ? whole_block - slot->finished * CUTTLE_WARP_LANES : barrier->expected;
    if (barrier->arrived >= expected) {
        release(slot, number, warps);
    }
}

static void arrive(block_slot *slot, uint32_t number, uint32_t warps)
{
    cuttle_warp *warp = warp_at(slot, number);
    uint32_t barrier_number = warp->barrier % BARRIERS; /* as an H200 does with numbers above 15 */
    if (warp->threads % CUTTLE_WARP_LANES != 0) {
        fault_raise(CUTTLE_FAULT_ILLEGAL_INSTRUCTION, number * CUTTLE_WARP_LANES,
                    "a barrier for a number of threads that is no multiple of 32");
    }
    barrier_state *barrier = &slot->barriers[barrier_number];
    barrier->arrived += CUTTLE_WARP_LANES;
    barrier->expected = warp->threads;
    if (warp->stop != CUTTLE_STOP_BARRIER_ARRIVE) {
        slot->waiting[number] = (uint8_t)(barrier_number + 1);
    }
    if (warp->stop >= CUTTLE_STOP_BARRIER_RED_POPC && warp->stop <= CUTTLE_STOP_BARRIER_RED_OR) {
        barrier->predicate_lanes += (uint32_t)__builtin_popcount(warp->value & warp->active);
        barrier->all = barrier->all && (warp->value & warp->active) == warp->active;
        barrier->any = barrier->any || (warp->value & warp->active) != 0;
    }
    release_if_complete(slot, barrier_number, warps);
}

/* Books the stop that a warp just made. Returns whether it did more than yield. */
static bool book_stop(block_slot *slot, uint32_t number, uint32_t warps)
{
    cuttle_warp *warp = warp_at(slot, number);
    if (warp->resume == CUTTLE_STEP_DONE) {
        slot->finished++;
        cluster_finish(slot->cluster, slot, number);
        for (uint32_t b = 0; b < BARRIERS; b++) {
            release_if_complete(slot, b, warps);
        }
        return true;
    }
    switch (warp->stop) {
    case CUTTLE_STOP_BARRIER_SYNC:
    case CUTTLE_STOP_BARRIER_RED_POPC:
    case CUTTLE_STOP_BARRIER_RED_AND:
    case CUTTLE_STOP_BARRIER_RED_OR:
    case CUTTLE_STOP_BARRIER_ARRIVE: arrive(slot, number, warps); return true;
    case CUTTLE_STOP_CLUSTER_ARRIVE: cluster_arrive(slot, number); return true;
    case CUTTLE_STOP_CLUSTER_WAIT:
        slot->waiting[number] = cluster_must_wait(slot, number) ? BARRIERS + 1 : 0;
        return true;
    default: return false;
    }
}

/* Takes over a block that `blocks` could not finish: its warps have stopped, none is booked yet. */
void schedule_adopt(block_slot *slot, uint32_t warps)
{
    if (slot->waiting_capacity < warps) {
        free(slot->waiting);
        free(slot->cluster_phases);
        slot->waiting = malloc(warps);
        slot->cluster_phases = malloc(warps * sizeof *slot->cluster_phases);
        slot->waiting_capacity = warps;
        if (slot->waiting == NULL || slot->cluster_phases == NULL) {
            fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for the warps of a block");
        }
    }
    memset(slot->waiting, 0, warps);
    memset(slot->cluster_phases, 0, warps * sizeof *slot->cluster_phases);
    if (slot->cluster == &slot->own) {
        cluster_begin(&slot->own, 1, warps);
        slot->own.slots[0] = slot;
    }
    slot->scheduled = true;
    for (uint32_t b = 0; b < BARRIERS; b++) {
        clear_barrier(&slot->barriers[b]);
    }
    slot->next_warp = 0;
    slot->finished = 0;
    for (uint32_t w = 0; w < warps; w++) {
        book_stop(slot, w, warps);
    }
}

/* Whether a warp waits for other blocks, so that the block is not stuck by itself. */
static bool waits_for_cluster(const block_slot *slot, uint32_t warps)
{
    return slot->cluster->blocks > 1 && memchr(slot->waiting, BARRIERS + 1, warps) != NULL;
}

/* Lets every warp that can run do so once, up to its next stop. */
enum block_outcome schedule_block(block_slot *slot, const image *of, uint32_t warps)
{
    if (slot->finished == warps) {
        return BLOCK_FINISHED;
    }
    bool ran = false;
    bool advanced = false;
    uint32_t first = slot->next_warp;
    for (uint32_t n = 0; n < warps; n++) {
        uint32_t w = first + n < warps ? first + n : first + n - warps;
        cuttle_warp *warp = warp_at(slot, w);
        if (warp->resume == CUTTLE_STEP_DONE || slot->waiting[w] != 0) {
            continue;
        }
        ran = true;
        warp->resume = of->step(&slot->block, w, warp->resume);
        advanced |= book_stop(slot, w, warps);
    }
    slot->next_warp = first + 1 < warps ? first + 1 : 0;
    if (slot->finished == warps) {
        return BLOCK_FINISHED;
    }
    if (!ran && waits_for_cluster(slot, warps)) {
        return BLOCK_WAITS_FOR_CLUSTER;
    }
    if (!ran) {
        fault_raise(CUTTLE_FAULT_BARRIER_DEADLOCK, 0, "all warps of a block wait at barriers that no other warp will reach");
    }
    return advanced ? BLOCK_ADVANCED : BLOCK_ONLY_YIELDED;
}
