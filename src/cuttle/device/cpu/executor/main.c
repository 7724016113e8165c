/* Start-up, and the main thread's watch over the device process and over time-outs.
 *
 *     cuttle-executor STATUS ARENA JOBS SOCKET      (numbers of inherited descriptors)
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

executor_state executor;
_Thread_local worker *this_worker;

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void futex_wake_own(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void futex_wake_shared(uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static void *map_descriptor(int descriptor, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "cuttle-executor: cannot map shared memory: %s\n", strerror(errno));
        exit(1);
    }
    return memory;
}

static void map_everything(int status, int arena, int jobs)
{
    uint8_t *status_memory = map_descriptor(status, CUTTLE_STATUS_BYTES);
    executor.status = (cuttle_status_page *)(status_memory + CUTTLE_STATUS_PAGE_AT);
    executor.streams = (cuttle_stream_slot *)(status_memory + CUTTLE_STREAMS_AT);
    executor.events = (cuttle_event_slot *)(status_memory + CUTTLE_EVENTS_AT);
    executor.host_calls = (cuttle_host_call *)(status_memory + CUTTLE_HOST_CALLS_AT);
    executor.text = status_memory + CUTTLE_TEXT_AT;
    uint8_t *jobs_memory = map_descriptor(jobs, CUTTLE_JOBS_BYTES);
    executor.jobs = (cuttle_jobs_page *)(jobs_memory + CUTTLE_JOBS_PAGE_AT);
    executor.job_ring = jobs_memory + CUTTLE_JOB_RING_AT;
    executor.arena_bytes = executor.jobs->arena_bytes;
    void *wanted = (void *)(uintptr_t)executor.jobs->arena_base;
    executor.arena = mmap(wanted, executor.arena_bytes, PROT_NONE,
                          MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, arena, 0);
    if (executor.arena != wanted) {
        fprintf(stderr, "cuttle-executor: cannot map the arena at %p: %s\n", wanted, strerror(errno));
        exit(1);
    }
}

static uint32_t available_cores(void)
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
        return (uint32_t)CPU_COUNT(&cores);
    }
    return 1;
}

/* Sleeps until the device process is gone; looks at the running kernel's age meanwhile. */
static _Noreturn void watch(void)
{
    struct pollfd peer = {.fd = executor.socket, .events = POLLRDHUP};
    for (;;) {
        uint32_t timeout_ms = LOAD_RELAXED(executor.jobs->timeout_ms);
        /* Looking often costs wake-ups, seldom makes time-outs late: a quarter of the time-out is a compromise. */
        int pause_ms = timeout_ms == 0 ? 2000 : timeout_ms < 400 ? (int)timeout_ms / 4 + 1 : 100;
        if (poll(&peer, 1, pause_ms) > 0 && peer.revents != 0) {
            _exit(0);
        }
        uint64_t started = atomic_load_explicit(&executor.launch_started_ns, memory_order_relaxed);
        if (timeout_ms != 0 && started != 0 && clock_ns() > started + (uint64_t)timeout_ms * 1000000u) {
            fault_time_out(timeout_ms);
        }
    }
}

int main(int count, char **arguments)
{
    if (count != 5) {
        fprintf(stderr, "usage: cuttle-executor STATUS ARENA JOBS SOCKET (descriptor numbers)\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    executor.socket = atoi(arguments[4]);
    map_everything(atoi(arguments[1]), atoi(arguments[2]), atoi(arguments[3]));
    executor.workers = executor.jobs->workers != 0 ? executor.jobs->workers : available_cores();
    if (executor.workers > MAXIMUM_WORKERS) {
        executor.workers = MAXIMUM_WORKERS;
    }
    faults_install();
    pool_start(executor.workers);
    watch();
}
