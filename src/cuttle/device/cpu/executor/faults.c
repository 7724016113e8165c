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

static _Noreturn void finish(cuttle_jobs_page *jobs, uint32_t kind, const worker *self, const char *text, uint32_t line)
{
    int used = 0;
    char *out = (char *)jobs->fault_text;
    size_t capacity = sizeof jobs->fault_text;
    if (self != NULL && self->running != NULL) {
        used = snprintf(out, capacity, "kernel %s, block [%u,%u,%u]: ", self->running->name, jobs->fault_block[0],
                        jobs->fault_block[1], jobs->fault_block[2]);
    } else if (self != NULL && self->activity != NULL) {
        used = snprintf(out, capacity, "%s: ", self->activity);
    }
    if (used >= 0 && (size_t)used < capacity) {
        used += snprintf(out + used, capacity - (size_t)used, "%s", text);
    }
    if (line != 0 && used >= 0 && (size_t)used < capacity) {
        snprintf(out + used, capacity - (size_t)used, " (PTX line %u)", line);
    }
    STORE_RELEASE(jobs->fault_kind, kind);
    _exit(FAULT_EXIT_CODE);
}

_Noreturn void fault_raise(uint32_t kind, uint32_t thread, const char *text)
{
    become_first();
    cuttle_jobs_page *jobs = executor.jobs;
    describe_worker(jobs, this_worker);
    jobs->fault_thread = thread;
    finish(jobs, kind, this_worker, text, 0);
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

static void on_signal(int number, siginfo_t *facts, void *context)
{
    become_first();
    cuttle_jobs_page *jobs = executor.jobs;
    worker *self = this_worker;
    uint64_t address = number == SIGSEGV || number == SIGBUS ? (uint64_t)(uintptr_t)facts->si_addr : 0;
    uint64_t counter = program_counter(context);
    uint32_t kind = CUTTLE_FAULT_ILLEGAL_ADDRESS;
    uint32_t line = 0;
    char text[200];
    snprintf(text, sizeof text, "access to address %#llx", (unsigned long long)address);
    if (number == SIGILL) {
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
    jobs->fault_instruction = 0;
    if (self != NULL && self->running != NULL) {
        uint64_t offset = counter - (uint64_t)(uintptr_t)self->running->code;
        if (offset < self->running->code_bytes) {
            jobs->fault_instruction = offset;
            line = image_line(self->running, offset);
        }
    }
    finish(jobs, kind, self, text, line);
}

void faults_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
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
