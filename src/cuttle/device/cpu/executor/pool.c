/* The workers. Worker 0 is the job thread; the others sleep until a task is opened for them.
 *
 * A task is "open" while work may be left. Helpers enter an open task and leave it; the job thread closes it when its own
 * part is done and waits only for those inside. So a helper that wakes too late costs nothing.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A microsecond is some 30 pauses on current processors; spinning longer than this hurts on busy machines. */
#define HELPER_SPINS 600
#define JOIN_SPINS 2000

#define OPEN 0x80000000u

static struct {
    _Alignas(64) _Atomic uint32_t state; /* OPEN bit and the number of helpers inside */
    _Alignas(64) _Atomic uint32_t generation; /* futex: incremented for each task */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t places; /* helpers that may still enter this task */
    pool_task task;
    void *argument;
} pool;

static worker workers[MAXIMUM_WORKERS];

static bool enter(void)
{
    uint32_t state = atomic_load(&pool.state);
    while ((state & OPEN) != 0) {
        if (atomic_compare_exchange_weak(&pool.state, &state, state + 1)) {
            return true;
        }
    }
    return false;
}

static void leave(void)
{
    /* The last one out wakes the job thread, which may sleep on the word. */
    if (atomic_fetch_sub(&pool.state, 1) == 1) {
        futex_wake_own(&pool.state, 1);
    }
}

static bool take_place(void)
{
    uint32_t places = atomic_load(&pool.places);
    while (places != 0) {
        if (atomic_compare_exchange_weak(&pool.places, &places, places - 1)) {
            return true;
        }
    }
    return false;
}

static void *helper_main(void *argument)
{
    worker *self = argument;
    this_worker = self;
    faults_prepare_thread(self);
    uint32_t seen = 0;
    for (;;) {
        for (int spin = 0; spin < HELPER_SPINS && atomic_load(&pool.generation) == seen; spin++) {
            spin_politely(spin);
        }
        while (atomic_load(&pool.generation) == seen) {
            atomic_fetch_add(&pool.sleepers, 1);
            futex_wait(&pool.generation, seen);
            atomic_fetch_sub(&pool.sleepers, 1);
        }
        seen = atomic_load(&pool.generation);
        if (enter()) {
            if (take_place()) {
                pool.task(self, pool.argument);
            }
            leave();
        }
    }
    return NULL;
}

void pool_run(pool_task task, void *argument, uint32_t width)
{
    if (width <= 1 || executor.workers <= 1) {
        task(this_worker, argument);
        return;
    }
    uint32_t helpers = (width < executor.workers ? width : executor.workers) - 1;
    pool.task = task;
    pool.argument = argument;
    atomic_store(&pool.places, helpers);
    atomic_store(&pool.state, OPEN);
    atomic_fetch_add(&pool.generation, 1);
    if (atomic_load(&pool.sleepers) != 0) {
        futex_wake_own(&pool.generation, (int)helpers);
    }
    task(this_worker, argument);
    uint32_t state = atomic_fetch_and(&pool.state, ~OPEN) & ~OPEN;
    for (int spin = 0; state != 0; spin++) {
        if (spin < JOIN_SPINS) {
            spin_politely(spin);
        } else {
            futex_wait(&pool.state, state);
        }
        state = atomic_load(&pool.state);
    }
}

/* Threads get stacks of a known place, so that running into the guard page can be told from other faults. */
static void start_thread(worker *self, void *(*entry)(void *))
{
    size_t guard = 1 << 16;
    uint8_t *memory = mmap(NULL, NATIVE_STACK_BYTES + guard, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
        fprintf(stderr, "cuttle-executor: no memory for thread stacks\n");
        exit(1);
    }
    self->stack_low = memory + guard;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, self->stack_low, NATIVE_STACK_BYTES);
    if (pthread_create(&self->thread, &attributes, entry, self) != 0) {
        fprintf(stderr, "cuttle-executor: cannot start a thread\n");
        exit(1);
    }
    pthread_attr_destroy(&attributes);
}

static void *job_thread_main(void *argument)
{
    this_worker = argument;
    faults_prepare_thread(argument);
    return run_jobs(NULL);
}

/* A worker that runs a kernel right now, or NULL. */
worker *pool_find_running(void)
{
    for (uint32_t number = 0; number < executor.workers; number++) {
        if (workers[number].running != NULL) {
            return &workers[number];
        }
    }
    return NULL;
}

void pool_start(uint32_t count)
{
    for (uint32_t number = 0; number < count; number++) {
        workers[number].number = number;
        start_thread(&workers[number], number == 0 ? job_thread_main : helper_main);
    }
}
