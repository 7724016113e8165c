/* The job loop: takes jobs in ring order, runs them, says that they are complete. */
#define _GNU_SOURCE
#include "executor.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_SPINS 800

static void wake_waiters(void)
{
    /* Pairs with the client: it counts itself as a waiter, then looks at the completion once more. */
    atomic_thread_fence(memory_order_seq_cst);
    if (LOAD_RELAXED(executor.status->completion_waiters) != 0) {
        __atomic_fetch_add(&executor.status->completion_word, 1, __ATOMIC_SEQ_CST);
        futex_wake_shared(&executor.status->completion_word, INT_MAX);
    }
}

static void complete(uint32_t stream, uint64_t sequence)
{
    /* Sequence 0 marks jobs that are only part of what their stream waits for. */
    if (sequence != 0 && stream < CUTTLE_STREAM_SLOTS) {
        STORE_RELEASE(executor.streams[stream].completed, sequence);
        wake_waiters();
    }
}

static void record_event(const cuttle_record_event_record *record)
{
    if (record->event >= CUTTLE_EVENT_SLOTS) {
        return;
    }
    cuttle_event_slot *event = &executor.events[record->event];
    event->time_ns = clock_ns();
    STORE_RELEASE(event->completed, record->number);
    wake_waiters();
}

static void post_host_call(const cuttle_record_host_call *record)
{
    cuttle_status_page *status = executor.status;
    uint64_t head = status->host_call_head;
    while (head - LOAD_ACQUIRE(status->host_call_tail) >= CUTTLE_HOST_CALL_SLOTS) {
        usleep(50);
    }
    executor.host_calls[head % CUTTLE_HOST_CALL_SLOTS] = (cuttle_host_call){
        .function = record->function,
        .data = record->data,
        .stream = record->stream,
        .kind = record->call_kind,
        .ticket = record->ticket,
    };
    STORE_RELEASE(status->host_call_head, head + 1);
    __atomic_fetch_add(&status->host_call_word, 1, __ATOMIC_SEQ_CST);
    futex_wake_shared(&status->host_call_word, INT_MAX);
}

static void write_value(const cuttle_record_write_value *record)
{
    this_worker->activity = "a value write";
    if (record->bits == 64) {
        __atomic_store_n((uint64_t *)(uintptr_t)record->address, record->value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((uint32_t *)(uintptr_t)record->address, (uint32_t)record->value, __ATOMIC_SEQ_CST);
    }
    this_worker->activity = NULL;
}

static void load(const cuttle_record_load *record, const uint8_t *path_bytes)
{
    char path[4096];
    if (record->path_bytes >= sizeof path) {
        fault_raise(CUTTLE_FAULT_IMAGE_FAILED_TO_LOAD, 0, "an image's path is too long");
    }
    memcpy(path, path_bytes, record->path_bytes);
    path[record->path_bytes] = '\0';
    image_load(record->image, path, record->symbols);
}

static void run_job(const uint8_t *slot, uint16_t kind)
{
    switch (kind) {
    case CUTTLE_RECORD_LAUNCH:
        run_launch((const cuttle_record_launch *)slot, slot + sizeof(cuttle_record_launch));
        break;
    case CUTTLE_RECORD_COPY: run_copy((const cuttle_record_copy *)slot); break;
    case CUTTLE_RECORD_COPY_3D: run_copy_3d((const cuttle_record_copy_3d *)slot); break;
    case CUTTLE_RECORD_FILL: run_fill((const cuttle_record_fill *)slot); break;
    case CUTTLE_RECORD_EVENT_RECORD: record_event((const cuttle_record_event_record *)slot); break;
    case CUTTLE_RECORD_HOST_CALL: post_host_call((const cuttle_record_host_call *)slot); break;
    case CUTTLE_RECORD_WRITE_VALUE: write_value((const cuttle_record_write_value *)slot); break;
    case CUTTLE_RECORD_LOAD: load((const cuttle_record_load *)slot, slot + sizeof(cuttle_record_load)); break;
    case CUTTLE_RECORD_UNLOAD: image_unload(((const cuttle_record_unload *)slot)->image); break;
    case CUTTLE_RECORD_SHUTDOWN: _exit(0);
    default: break; /* NOP, MARK, and what is ordered by the ring alone */
    }
}

static void drain_socket(void)
{
    char bytes[64];
    ssize_t count = recv(executor.socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count == 0) {
        _exit(0);
    }
}

/* Spins for some tens of microseconds, then sleeps until the device process writes a byte. */
static void wait_for_jobs(cuttle_jobs_page *jobs, uint64_t tail)
{
    for (int spin = 0; spin < IDLE_SPINS; spin++) {
        if (LOAD_ACQUIRE(jobs->head) != tail) {
            return;
        }
        spin_politely(spin);
    }
    struct pollfd peer = {.fd = executor.socket, .events = POLLIN};
    /* The device process cannot fence between its stores of `head` and its look at `executor_sleeping`. Its store has
     * long arrived after a millisecond, so the first sleep is that short and `head` is looked at again. */
    int pause_ms = 1;
    __atomic_store_n(&jobs->executor_sleeping, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&jobs->head, __ATOMIC_SEQ_CST) == tail) {
        if (poll(&peer, 1, pause_ms) > 0) {
            drain_socket();
            __atomic_store_n(&jobs->executor_sleeping, 1, __ATOMIC_SEQ_CST);
        }
        pause_ms = -1;
    }
    __atomic_store_n(&jobs->executor_sleeping, 0, __ATOMIC_SEQ_CST);
}

void *run_jobs(void *unused)
{
    (void)unused;
    cuttle_jobs_page *jobs = executor.jobs;
    uint64_t tail = jobs->tail;
    for (;;) {
        uint64_t head = LOAD_ACQUIRE(jobs->head);
        if (head == tail) {
            wait_for_jobs(jobs, tail);
            continue;
        }
        while (tail != head) {
            const uint8_t *slot = executor.job_ring + (tail % CUTTLE_JOB_SLOTS) * CUTTLE_SLOT_BYTES;
            const cuttle_record_mark *header = (const cuttle_record_mark *)slot;
            uint16_t kind = header->kind;
            uint16_t slots = header->slots != 0 ? header->slots : 1;
            arena_admit();
            run_job(slot, kind);
            if (kind != CUTTLE_RECORD_HOST_CALL) {
                /* A host call is complete when the device process sends a MARK, after HOST_DONE. */
                complete(header->stream, header->sequence);
            }
            tail += slots;
            STORE_RELEASE(jobs->tail, tail);
        }
    }
    return NULL;
}
