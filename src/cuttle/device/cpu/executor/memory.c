/* Buffers of workers, between guard pages; and the heap behind device malloc, inside the arena. */
#define _GNU_SOURCE
#include "executor.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

/* Generic addresses of a 32-bit program are 32 bits wide and are extended by sign: what they reach lies below 2 GiB, as its
 * arena does. The system gives no such addresses by itself. */
static void *map_low(size_t bytes)
{
    static const uintptr_t begin = 0x10000000, end = 0x80000000, step = 0x100000;
    static _Atomic uintptr_t next = 0x10000000; /* where to look first */
    uintptr_t start = next;
    for (int turn = 0; turn < 2; turn++, start = begin) {
        for (uintptr_t at = start; at + bytes <= end; at += step) {
            void *memory = mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
            if (memory == (void *)at) {
                next = at + (bytes + step - 1) / step * step;
                return memory;
            }
            if (memory != MAP_FAILED) {
                munmap(memory, bytes); /* kernels before 4.17 take the address as a hint */
            }
        }
    }
    return MAP_FAILED;
}

/* Addresses without memory, for shared and local memory of blocks; MAP_FAILED if there are none. */
void *reserve_addresses(size_t bytes)
{
    if ((uintptr_t)executor.arena + executor.arena_bytes <= 0x80000000) {
        return map_low(bytes);
    }
    return mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Grows a buffer; its contents are lost. Memory is 4096-byte aligned. */
void buffer_reserve(guarded_buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->bytes && buffer->memory != NULL) {
        return;
    }
    if (buffer->memory != NULL) {
        munmap(buffer->memory - PAGE, buffer->bytes + 2 * PAGE);
    }
    size_t rounded = bytes == 0 ? PAGE : (bytes + PAGE - 1) / PAGE * PAGE;
    uint8_t *memory = reserve_addresses(rounded + 2 * PAGE);
    if (memory == MAP_FAILED || mprotect(memory + PAGE, rounded, PROT_READ | PROT_WRITE) != 0) {
        fault_raise(CUTTLE_FAULT_TRAP, 0, "no memory for shared and local memory of blocks");
    }
    buffer->memory = memory + PAGE;
    buffer->bytes = rounded;
}

/* The heap: blocks with sizes at both ends, free ones in lists by their size's power of two; neighbours are joined. */

typedef struct heap_block {
    uint64_t bytes; /* whole block with this header; bit 0: in use */
    uint64_t previous_bytes; /* size of the block in front of it; 0 for the first */
    struct heap_block *next; /* in its list, while free */
    struct heap_block *previous;
} heap_block;

#define HEADER_BYTES ((uint64_t)16)
#define SMALLEST_BLOCK ((uint64_t)32)
#define LISTS 48

static struct {
    pthread_mutex_t lock;
    heap_block *lists[LISTS];
    uint8_t *begin;
    uint8_t *end;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned list_of(uint64_t bytes)
{
    unsigned number = 63u - (unsigned)__builtin_clzll(bytes);
    return number < LISTS ? number : LISTS - 1;
}

static void list_add(heap_block *block)
{
    heap_block **list = &heap.lists[list_of(block->bytes)];
    block->previous = NULL;
    block->next = *list;
    if (*list != NULL) {
        (*list)->previous = block;
    }
    *list = block;
}

static void list_remove(heap_block *block)
{
    if (block->previous != NULL) {
        block->previous->next = block->next;
    } else {
        heap.lists[list_of(block->bytes)] = block->next;
    }
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
}

static heap_block *behind(heap_block *block)
{
    uint8_t *place = (uint8_t *)block + (block->bytes & ~(uint64_t)1);
    return place < heap.end ? (heap_block *)place : NULL;
}

static void set_size(heap_block *block, uint64_t bytes, bool used)
{
    block->bytes = bytes | used;
    heap_block *next = behind(block);
    if (next != NULL) {
        next->previous_bytes = bytes;
    }
}

static bool heap_open(void)
{
    if (heap.begin != NULL) {
        return true;
    }
    uint64_t bytes = executor.jobs->heap_bytes & ~(uint64_t)63;
    if (executor.jobs->heap_base == 0 || bytes < 2 * SMALLEST_BLOCK) {
        return false;
    }
    heap.begin = (uint8_t *)(uintptr_t)executor.jobs->heap_base;
    heap.end = heap.begin + bytes;
    heap_block *all = (heap_block *)heap.begin;
    all->previous_bytes = 0;
    set_size(all, bytes, false);
    list_add(all);
    return true;
}

static heap_block *find_fit(uint64_t bytes)
{
    for (unsigned list = list_of(bytes); list < LISTS; list++) {
        for (heap_block *block = heap.lists[list]; block != NULL; block = block->next) {
            if (block->bytes >= bytes) {
                return block;
            }
        }
    }
    return NULL;
}

/* 16-byte aligned memory, or 0. */
uint64_t heap_allocate(uint64_t bytes)
{
    if (bytes == 0 || bytes > executor.arena_bytes) {
        return 0;
    }
    bytes = (bytes + HEADER_BYTES + 15) & ~(uint64_t)15;
    if (bytes < SMALLEST_BLOCK) {
        bytes = SMALLEST_BLOCK;
    }
    pthread_mutex_lock(&heap.lock);
    heap_block *block = heap_open() ? find_fit(bytes) : NULL;
    if (block != NULL) {
        list_remove(block);
        uint64_t rest = block->bytes - bytes;
        if (rest >= SMALLEST_BLOCK) {
            set_size(block, bytes, true);
            heap_block *remainder = behind(block);
            remainder->previous_bytes = bytes;
            set_size(remainder, rest, false);
            list_add(remainder);
        } else {
            set_size(block, block->bytes, true);
        }
    }
    pthread_mutex_unlock(&heap.lock);
    return block != NULL ? (uint64_t)(uintptr_t)block + HEADER_BYTES : 0;
}

/* Addresses that the heap did not hand out are ignored, as are second frees that can be recognised. */
void heap_free(uint64_t address)
{
    uint8_t *place = (uint8_t *)(uintptr_t)address;
    pthread_mutex_lock(&heap.lock);
    if (heap.begin != NULL && place >= heap.begin + HEADER_BYTES && place < heap.end && (address & 15) == 0) {
        heap_block *block = (heap_block *)(place - HEADER_BYTES);
        if ((block->bytes & 1) != 0) {
            uint64_t bytes = block->bytes & ~(uint64_t)1;
            heap_block *next = behind(block);
            if (next != NULL && (next->bytes & 1) == 0) {
                list_remove(next);
                bytes += next->bytes;
            }
            if (block->previous_bytes != 0) {
                heap_block *before = (heap_block *)((uint8_t *)block - block->previous_bytes);
                if ((before->bytes & 1) == 0) {
                    list_remove(before);
                    bytes += before->bytes;
                    block = before;
                }
            }
            set_size(block, bytes, false);
            list_add(block);
        }
    }
    pthread_mutex_unlock(&heap.lock);
}
