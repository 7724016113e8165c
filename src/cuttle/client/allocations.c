/* A sorted array: look-ups are many, changes few. */
#include "allocations.h"

#include "request.h"

#include <stdlib.h>
#include <string.h>

static os_lock allocations_lock = OS_LOCK_INITIAL;
static allocation *table;
static size_t count, capacity;
static size_t registered; /* entries of registered host memory */
static uint64_t identifiers;

/* Index of the first entry whose base is above `address`. */
static size_t above(uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].base <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

void allocations_add(const allocation *made) {
    os_lock_take(&allocations_lock);
    size_t at = above(made->base);
    bool known = at != 0 && table[at - 1].base == made->base;
    if (!known && count == capacity) {
        size_t grown = capacity ? capacity * 2 : 256;
        allocation *moved = realloc(table, grown * sizeof *table);
        if (moved == NULL) {
            os_lock_release(&allocations_lock);
            return;
        }
        table = moved;
        capacity = grown;
    }
    if (known) {
        at--;
        if (table[at].kind == ALLOCATION_REGISTERED) registered--;
    } else {
        memmove(table + at + 1, table + at, (count - at) * sizeof *table);
        count++;
    }
    uint64_t id = known ? table[at].id : ++identifiers;
    table[at] = *made;
    table[at].id = id;
    if (made->kind == ALLOCATION_MANAGED) table[at].synchronizes = true; /* as on an H200 */
    if (table[at].owner == NULL) table[at].owner = current_context();
    if (made->kind == ALLOCATION_REGISTERED) registered++;
    os_lock_release(&allocations_lock);
}

bool allocations_find(uint64_t address, allocation *found) {
    os_lock_take(&allocations_lock);
    size_t at = above(address);
    bool hit = at != 0 && address - table[at - 1].base < table[at - 1].bytes;
    if (hit) *found = table[at - 1];
    os_lock_release(&allocations_lock);
    return hit;
}

bool allocations_find_host(uint64_t address, allocation *found) {
    bool hit = false;
    if (__atomic_load_n(&registered, __ATOMIC_RELAXED) == 0) return false;
    os_lock_take(&allocations_lock);
    for (size_t i = 0; i < count && !hit; i++) {
        hit = table[i].kind == ALLOCATION_REGISTERED && address - table[i].host < table[i].bytes;
        if (hit) *found = table[i];
    }
    os_lock_release(&allocations_lock);
    return hit;
}

static void drop(size_t at) {
    if (table[at].kind == ALLOCATION_REGISTERED) registered--;
    memmove(table + at, table + at + 1, (count - at - 1) * sizeof *table);
    count--;
}

bool allocations_remove(uint64_t base, allocation *removed) {
    os_lock_take(&allocations_lock);
    size_t at = above(base);
    bool hit = at != 0 && table[at - 1].base == base;
    if (hit) {
        if (removed != NULL) *removed = table[at - 1];
        drop(at - 1);
    }
    os_lock_release(&allocations_lock);
    return hit;
}

void allocations_set_synchronizes(uint64_t base, bool on) {
    os_lock_take(&allocations_lock);
    size_t at = above(base);
    if (at != 0 && table[at - 1].base == base) table[at - 1].synchronizes = on;
    os_lock_release(&allocations_lock);
}

void allocations_forget_module(uint64_t module) {
    os_lock_take(&allocations_lock);
    for (size_t i = count; i-- > 0;) {
        if (table[i].module == module && module != 0) drop(i);
    }
    os_lock_release(&allocations_lock);
}

/* Registered pages become the program's own again, before the device process takes the arena space back. */
void allocations_forget(context *of) {
    os_lock_take(&allocations_lock);
    for (size_t i = count; i-- > 0;) {
        if (table[i].owner != of) continue;
        if (table[i].kind == ALLOCATION_REGISTERED) os_make_private(table[i].host, table[i].bytes);
        drop(i);
    }
    os_lock_release(&allocations_lock);
}
