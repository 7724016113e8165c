/* Faults: what stops this executor. The first one is written into the jobs page; then the process ends.
 *
 * Nothing here allocates or takes locks: it runs in signal handlers. `snprintf` is used for text; it is not on the list
 * of signal-safe functions, but the process is over anyway and glibc's needs no lock for plain conversions.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define NEAR_BYTES 64 /* behind the code of an instruction that may fault */
#define STACK_WORDS 4096
#define SIGNAL_STACK_BYTES ((size_t)64 << 10)

static atomic_flag faulted = ATOMIC_FLAG_INIT;

static void become_first(void)
{
    if (atomic_flag_test_and_set(&faulted)) {
        for (;;) { /* another thread's fault is being written; the end is near */
            pause();
        }
    }
}

/* Fills in who ran. */
static void describe_worker(cuttle_jobs_page *jobs, const worker *self)
{
    jobs->fault_image = UINT32_MAX;
    if (self == NULL || self->running == NULL) {
        return;
    }
    jobs->fault_image = image_index_of(self->running);
    if (self->current == NULL) {
        return;
    }
    const cuttle_block *block = &self->current->block;
    memcpy(jobs->fault_block, block->ctaid, sizeof jobs->fault_block);
}

static _Noreturn void finish(cuttle_jobs_page *jobs, uint32_t kind, const worker *self, const char *text)
{
    int used = 0;
    char *out = (char *)jobs->fault_text;
    size_t capacity = sizeof jobs->fault_text;
    if (self != NULL && self->running != NULL) {
        const uint32_t *at = jobs->fault_block;
        used = snprintf(out, capacity, "kernel %s, block [%u,%u,%u]", self->running->name, at[0], at[1], at[2]);
        if (self->current != NULL && jobs->fault_thread != UINT32_MAX && used >= 0 && (size_t)used < capacity) {
            uint32_t position[3];
            thread_position(&self->current->block, jobs->fault_thread, position);
            used += snprintf(out + used, capacity - (size_t)used, ", thread [%u,%u,%u]", position[0], position[1],
                             position[2]);
        }
    } else if (self != NULL && self->activity != NULL) {
        used = snprintf(out, capacity, "%s", self->activity);
    }
    if (used >= 0 && (size_t)used < capacity) {
        snprintf(out + used, capacity - (size_t)used, "%s%s", used != 0 ? ": " : "", text);
    }
    STORE_RELEASE(jobs->fault_kind, kind);
    _exit(FAULT_EXIT_CODE);
}

_Noreturn void fault_raise_at(uint32_t kind, uint32_t thread, uint32_t line, const char *text)
{
    become_first();
    cuttle_jobs_page *jobs = executor.jobs;
    describe_worker(jobs, this_worker);
    jobs->fault_thread = thread;
    jobs->fault_line = line;
    finish(jobs, kind, this_worker, text);
}

_Noreturn void fault_raise(uint32_t kind, uint32_t thread, const char *text)
{
    fault_raise_at(kind, thread, 0, text);
}

static bool in_stack_guard(const worker *self, uint64_t address)
{
    uint64_t low = (uint64_t)(uintptr_t)self->stack_low;
    return address < low && address >= low - ((uint64_t)1 << 16);
}

static uint64_t program_counter(const void *context)
{
#if defined(__x86_64__)
    return (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
    (void)context;
    return 0;
#endif
}

/* What a page fault was about: the processor's error code has bit 1 set for writes. */
static uint32_t access_kind(const void *context)
{
#if defined(__x86_64__)
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? 2 : 1;
#else
    (void)context;
    return 0;
#endif
}

/* Memory that was given out since the last look may be touched from now on. */
void arena_admit(void)
{
    uint64_t open = atomic_load_explicit(&executor.arena_open, memory_order_relaxed);
    uint64_t used = LOAD_ACQUIRE(executor.jobs->arena_used);
    if (used > executor.arena_bytes) {
        used = executor.arena_bytes;
    }
    while (used > open) {
        /* Whoever moves the mark opens the part: what is mapped otherwise by then lies below it. */
        if (atomic_compare_exchange_weak(&executor.arena_open, &open, used)) {
            mprotect(executor.arena + open, used - open, PROT_READ | PROT_WRITE);
            return;
        }
    }
}

/* Whether an access failed only because its memory was given out while the kernel ran: then it is tried again. */
static bool was_given_out(uint64_t address)
{
    uint64_t offset = address - (uint64_t)(uintptr_t)executor.arena;
    uint64_t open = atomic_load(&executor.arena_open);
    uint64_t used = LOAD_ACQUIRE(executor.jobs->arena_used);
    if (offset < open || offset >= used || used > executor.arena_bytes) {
        return false;
    }
    arena_admit();
    return true;
}

static _Atomic uint32_t timed_out_ms; /* SIGUSR2 is ours, and not somebody's, from when this is not 0 */

/* A kernel runs for too long: the thread that runs it is to say where it stands. */
void fault_time_out(uint32_t timeout_ms)
{
    worker *running = pool_find_running();
    atomic_store(&timed_out_ms, timeout_ms);
    if (running != NULL && pthread_kill(running->thread, SIGUSR2) == 0) {
        usleep(500000); /* its handler ends the process */
    }
    char text[160];
    snprintf(text, sizeof text, "a kernel ran for more than %u ms (CUTTLE_TIMEOUT)", timeout_ms);
    fault_raise(CUTTLE_FAULT_TIME_OUT, UINT32_MAX, text);
}

/* Where a kernel that does not end stands: at this instruction, or at the innermost call into the executor, whose return
 * address is the first one of the image's on the stack. */
static uint32_t line_of_wait(const worker *self, uint64_t offset, const void *context)
{
    const image *of = self->running;
    if (offset < of->code_bytes) {
        return image_line(of, offset, NEAR_BYTES);
    }
#if defined(__x86_64__)
    uint64_t stack = (uint64_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP] & ~(uint64_t)7;
    uint64_t low = (uint64_t)(uintptr_t)self->stack_low, high = low + NATIVE_STACK_BYTES;
    for (int i = 0; i < STACK_WORDS && stack >= low && stack + 8 <= high; i++, stack += 8) {
        offset = *(const uint64_t *)(uintptr_t)stack - (uint64_t)(uintptr_t)of->code;
        uint32_t line = offset < of->code_bytes ? image_line(of, offset - 1, NEAR_BYTES) : 0;
        if (line != 0) {
            return line;
        }
    }
#else
    (void)context;
#endif
    return 0;
}

/* Where a warp of the block waits whose warps are carried on one after the other: one that goes round in a waiting loop, else one
 * at a barrier. */
static uint32_t line_of_stop(const worker *self)
{
    if (self->current == NULL) {
        return 0;
    }
    const cuttle_block *block = &self->current->block;
    const cuttle_launch *launch = (const cuttle_launch *)(uintptr_t)block->launch;
    const cuttle_warp *warps = (const cuttle_warp *)(uintptr_t)block->warps;
    uint32_t count = (launch->block[0] * launch->block[1] * launch->block[2] + 31) / 32;
    const image *of = self->running;
    uint32_t line = 0;
    for (uint32_t w = 0; w < count; w++) {
        for (uint32_t i = 0; i < of->stop_count && warps[w].resume != CUTTLE_STEP_DONE; i++) {
            if (of->stops[i][0] == warps[w].resume && (line == 0 || warps[w].stop == CUTTLE_STOP_YIELD)) {
                line = of->stops[i][1];
            }
        }
    }
    return line;
}

static void on_signal(int number, siginfo_t *facts, void *context)
{
    if (number == SIGSEGV && facts->si_code == SEGV_ACCERR && was_given_out((uint64_t)(uintptr_t)facts->si_addr)) {
        return;
    }
    uint32_t timeout_ms = number == SIGUSR2 ? atomic_load(&timed_out_ms) : 0;
    if (number == SIGUSR2 && timeout_ms == 0) {
        return;
    }
    become_first();
    cuttle_jobs_page *jobs = executor.jobs;
    worker *self = this_worker;
    uint64_t address = number == SIGSEGV || number == SIGBUS ? (uint64_t)(uintptr_t)facts->si_addr : 0;
    uint64_t counter = program_counter(context);
    uint32_t kind = CUTTLE_FAULT_ILLEGAL_ADDRESS;
    uint32_t access = number == SIGSEGV && facts->si_code != SI_KERNEL ? access_kind(context) : 0;
    static const char *const words[] = {"access to", "read from", "write to"};
    char text[200];
    snprintf(text, sizeof text, "%s address %#llx", words[access], (unsigned long long)address);
    if (number == SIGUSR2) {
        kind = CUTTLE_FAULT_TIME_OUT;
        snprintf(text, sizeof text, "it ran for more than %u ms (CUTTLE_TIMEOUT)", timeout_ms);
    } else if (number == SIGILL) {
        kind = CUTTLE_FAULT_ILLEGAL_INSTRUCTION;
        snprintf(text, sizeof text, "illegal instruction");
    } else if (number == SIGFPE) {
        kind = CUTTLE_FAULT_TRAP;
        snprintf(text, sizeof text, "arithmetic trap of the host processor");
    } else if (number == SIGBUS && facts->si_code == BUS_ADRALN) {
        kind = CUTTLE_FAULT_MISALIGNED_ADDRESS;
    } else if (number == SIGBUS) {
        snprintf(text, sizeof text, "no memory behind address %#llx: the machine's memory is used up",
                 (unsigned long long)address);
    } else if (self != NULL && in_stack_guard(self, address)) {
        kind = CUTTLE_FAULT_STACK_OVERFLOW;
        snprintf(text, sizeof text, "stack overflow of a worker's native stack");
    } else if (facts->si_code == SI_KERNEL) {
        snprintf(text, sizeof text, "access to an address that no memory can have, or misaligned");
    }
    describe_worker(jobs, self);
    jobs->fault_address = address;
    jobs->fault_access = access;
    jobs->fault_thread = UINT32_MAX;
    jobs->fault_instruction = 0;
    if (self != NULL && self->running != NULL) {
        const image *of = self->running;
        uint64_t offset = counter - (uint64_t)(uintptr_t)of->code;
        if (number == SIGUSR2) {
            jobs->fault_line = line_of_wait(self, offset, context);
            if (jobs->fault_line == 0) {
                jobs->fault_line = line_of_stop(self);
            }
        } else if (offset < of->code_bytes) {
            jobs->fault_instruction = offset;
            jobs->fault_line = image_line(of, offset, 0);
        }
    }
    finish(jobs, kind, self, text);
}

void faults_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGUSR2};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
    }
}

void faults_prepare_thread(worker *self)
{
    void *memory = mmap(NULL, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "cuttle-executor: no memory for a signal stack\n");
        exit(1);
    }
    self->signal_stack = memory;
    stack_t stack = {.ss_sp = memory, .ss_size = SIGNAL_STACK_BYTES};
    sigaltstack(&stack, NULL);
}
