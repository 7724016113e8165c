/* Clusters: their shared memory and their barrier. All blocks of a cluster run on one worker, so nothing here is atomic. */
#define _GNU_SOURCE
#include "executor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

/* Room for the shared memory of `blocks` blocks; behind each one's there is nothing, as on hardware. */
static void reserve(cluster *of, uint32_t blocks, size_t bytes)
{
    size_t rounded = bytes == 0 ? PAGE : (bytes + PAGE - 1) / PAGE * PAGE;
    if (of->memory != NULL && of->capacity >= blocks && of->bytes >= rounded) {
        return;
    }
    if (of->memory != NULL) {
        munmap(of->memory, (size_t)of->capacity * CUTTLE_CLUSTER_STRIDE);
    }
    of->memory = reserve_addresses((size_t)blocks * CUTTLE_CLUSTER_STRIDE);
    bool there = of->memory != MAP_FAILED;
    for (uint32_t rank = 0; rank < blocks && there; rank++) {
        there = mprotect(of->memory + (size_t)rank * CUTTLE_CLUSTER_STRIDE, rounded, PROT_READ | PROT_WRITE) == 0;
    }
    if (!there) {
        fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for the shared memory of a cluster");
    }
    of->bytes = rounded;
    of->capacity = blocks;
}

cluster *cluster_take(worker *self, uint32_t blocks, uint32_t warps, size_t shared_bytes)
{
    cluster *of = self->spare_clusters;
    if (of != NULL) {
        self->spare_clusters = of->next;
    } else {
        of = calloc(1, sizeof *of);
        if (of == NULL) {
            fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for a cluster");
        }
    }
    reserve(of, blocks, shared_bytes);
    cluster_begin(of, blocks, warps);
    return of;
}

void cluster_return(worker *self, cluster *of)
{
    of->next = self->spare_clusters;
    self->spare_clusters = of;
}

/* `warps` are those of one block. */
void cluster_begin(cluster *of, uint32_t blocks, uint32_t warps)
{
    of->blocks = of->left = blocks;
    of->warps = blocks * warps;
    of->arrived = of->finished = of->phase = 0;
    of->moved = false;
    memset(of->slots, 0, sizeof of->slots);
}

static void complete_if_all_are_there(cluster *of)
{
    if (of->arrived == 0 || of->arrived + of->finished < of->warps) {
        return;
    }
    of->arrived = 0;
    of->phase++;
    for (uint32_t rank = 0; rank < of->blocks; rank++) {
        block_slot *slot = of->slots[rank];
        if (slot == NULL || !slot->scheduled) {
            continue;
        }
        for (uint32_t w = 0; w < of->warps / of->blocks; w++) {
            if (slot->waiting[w] == BARRIERS + 1) {
                slot->waiting[w] = 0;
            }
        }
    }
}

void cluster_arrive(block_slot *slot, uint32_t warp)
{
    slot->cluster->arrived++;
    slot->cluster_phases[warp] = slot->cluster->phase + 1;
    complete_if_all_are_there(slot->cluster);
}

bool cluster_must_wait(const block_slot *slot, uint32_t warp)
{
    return (int32_t)(slot->cluster->phase - slot->cluster_phases[warp]) < 0;
}

/* A warp of a scheduled block is done. */
void cluster_finish(cluster *of, const block_slot *slot, uint32_t warp)
{
    of->finished++;
    if (slot->cluster_phases[warp] == of->phase + 1) {
        of->arrived--; /* it arrived, and ended without waiting: it counts once */
    }
    complete_if_all_are_there(of);
}

/* A block has run to its end at one go. */
void cluster_finish_block(cluster *of)
{
    of->finished += of->warps / of->blocks;
    complete_if_all_are_there(of);
}
