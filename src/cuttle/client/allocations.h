/* The allocations that the program knows, for look-ups by address without a request. */
#ifndef CUTTLE_ALLOCATIONS_H
#define CUTTLE_ALLOCATIONS_H

#include "client.h"

enum allocation_kind { /* as POINTER_RANGE of abi/requests.py */
    ALLOCATION_DEVICE = 0,
    ALLOCATION_MANAGED = 1,
    ALLOCATION_PINNED = 2,
    ALLOCATION_VARIABLE = 3,
    ALLOCATION_ARRAY = 4,
    ALLOCATION_REGISTERED = 5,
    ALLOCATION_POOL = 6,
    ALLOCATION_MAPPED = 7, /* cuMemMap: the client's own number */
};

typedef struct allocation {
    uint64_t base, bytes;
    uint32_t kind, flags;
    uint64_t host;       /* registered host memory: where the program's pages are */
    uint64_t host_start; /* … and the address that was registered (not page aligned) */
    uint64_t id;
    uint64_t module;     /* of variables */
    uint64_t pool;
    context *owner;
    bool synchronizes; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: kept for those who ask; copies behave the same */
    bool of_graph; /* of an allocation node: stays where it is for the graph's next launch, whoever frees it */
} allocation;

void allocations_add(const allocation *made);
/* Finds by a device address inside of it. */
bool allocations_find(uint64_t address, allocation *found);
/* Finds registered memory by a host address inside of it. */
bool allocations_find_host(uint64_t address, allocation *found);
bool allocations_remove(uint64_t base, allocation *removed);
void allocations_set_synchronizes(uint64_t base, bool on);
void allocations_forget_module(uint64_t module);

#endif
