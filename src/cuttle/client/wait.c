/* Waiting for completion: the counters stand in shared memory, so that nobody has to be asked. */
#include "stream.h"

#include <string.h>

#define SPIN_NS 20000
#define SLEEP_MS 20

CUresult wait_for_completion(uint32_t seen) {
    cuttle_status_page *status = client.status;
    os_futex_wait(&status->completion_word, seen, SLEEP_MS);
    if (UNLIKELY(client.state != CLIENT_READY)) return client_not_ready();
    if (LOAD(status->sticky_error) != 0) return (CUresult)status->sticky_error;
    if (LOAD(status->completion_word) == seen && os_socket_wait(client.socket, 0) < 0) {
        client_lost();
        return client_not_ready();
    }
    return CUDA_SUCCESS;
}

/* A program that polls never sleeps in `wait_for_completion`: it has to hear of the device process's end here. */
CUresult not_ready(void) {
    static uint64_t looked_ns;
    uint64_t now = os_time_ns(), before = LOAD(looked_ns);
    if (now - before > SLEEP_MS * 1000000ull && __atomic_compare_exchange_n(&looked_ns, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
        os_socket_ended(client.socket)) {
        client_lost();
        return client_not_ready();
    }
    return CUDA_ERROR_NOT_READY;
}

CUresult wait_sequence(uint32_t slot, uint64_t sequence) {
    cuttle_stream_slot *stream = &client.streams[slot];
    cuttle_status_page *status = client.status;
    CUresult result = CUDA_SUCCESS;
    if (LOAD(stream->completed) >= sequence) return CUDA_SUCCESS;
    uint64_t spin_until = os_time_ns() + SPIN_NS;
    for (unsigned turn = 1; LOAD(stream->completed) < sequence; turn++) {
        os_spin(turn);
        if ((turn & 63) == 0 && os_time_ns() > spin_until) break;
    }
    __atomic_fetch_add(&status->completion_waiters, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t seen = LOAD(status->completion_word);
        if (LOAD(stream->completed) >= sequence) break;
        if (LOAD(status->sticky_error) != 0) {
            result = (CUresult)status->sticky_error;
            break;
        }
        if (UNLIKELY(LOAD(status->text_head) - status->text_tail > CUTTLE_TEXT_FIFO_BYTES / 8)) text_drain();
        if ((result = wait_for_completion(seen)) != CUDA_SUCCESS) break;
    }
    if (client.state == CLIENT_READY) __atomic_fetch_sub(&status->completion_waiters, 1, __ATOMIC_SEQ_CST);
    return result;
}

/* What was submitted to each slot of interest is read once: work submitted by others meanwhile is not waited for. */
static CUresult wait_slots(bool blocking_only) {
    CUresult result = CUDA_SUCCESS;
    uint32_t slots = stream_slots_used();
    uint64_t wanted[slots];
    for (uint32_t slot = 0; slot < slots; slot++) {
        cuttle_stream_slot *stream = &client.streams[slot];
        bool skip = blocking_only && (stream->flags & 2) != 0; /* a destroyed stream (flags 0) may still have work */
        wanted[slot] = skip ? 0 : LOAD(stream->submitted);
    }
    for (uint32_t slot = 0; slot < slots && result == CUDA_SUCCESS; slot++) result = wait_sequence(slot, wanted[slot]);
    return result;
}

CUresult launch_error_take(void) {
    if (LIKELY(LOAD(client.status->launch_error) == 0)) return CUDA_SUCCESS;
    return (CUresult)__atomic_exchange_n(&client.status->launch_error, 0, __ATOMIC_SEQ_CST);
}

CUresult wait_stream(stream *of) {
    CUresult result = of->legacy ? wait_slots(true) : wait_sequence(of->slot, LOAD(client.streams[of->slot].submitted));
    text_drain();
    return result == CUDA_SUCCESS ? launch_error_take() : result;
}

CUresult wait_before(stream *next) {
    if (!next->legacy && (next->flags & CU_STREAM_NON_BLOCKING) == 0) {
        TRY(wait_sequence(legacy_stream.slot, LOAD(client.streams[legacy_stream.slot].submitted)));
    }
    return wait_stream(next);
}

CUresult wait_all(void) {
    CUresult result = wait_all_ended();
    return result == CUDA_SUCCESS ? launch_error_take() : result;
}

CUresult wait_all_ended(void) {
    CUresult result = wait_slots(false);
    text_drain();
    return result;
}

bool stream_is_idle(stream *of) {
    uint32_t slots = of->legacy ? stream_slots_used() : of->slot + 1;
    for (uint32_t slot = of->legacy ? 0 : of->slot; slot < slots; slot++) {
        cuttle_stream_slot *stream = &client.streams[slot];
        if (of->legacy && ((stream->flags & 1) == 0 || (stream->flags & 2) != 0)) continue;
        if (LOAD(stream->completed) < LOAD(stream->submitted)) return false;
    }
    return true;
}
