/* Events: recorded through the ring, read from shared slots. */
#include "event.h"

#include "request.h"

#include <stdlib.h>

static os_lock events_lock = OS_LOCK_INITIAL;
static event *events[CUTTLE_EVENT_SLOTS];
static uint32_t next_slot;
static event *spare; /* destroyed ones: kept, so that a stale handle is recognised */

event *event_of_slot(uint32_t slot) { return slot < CUTTLE_EVENT_SLOTS ? events[slot] : NULL; }

static CUresult event_of(CUevent handle, event **found) {
    if (!has_tag(handle, TAG_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (event *)handle;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned Flags) {
    ENTER();
    if (phEvent == NULL || (Flags & ~7u) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    os_lock_take(&events_lock);
    event *made = spare;
    if (made != NULL) spare = made->next;
    else made = calloc(1, sizeof *made);
    if (made == NULL) {
        os_lock_release(&events_lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint32_t tried = 0, slot = next_slot;
    while (tried < CUTTLE_EVENT_SLOTS && events[slot] != NULL) {
        slot = (slot + 1) % CUTTLE_EVENT_SLOTS;
        tried++;
    }
    if (tried == CUTTLE_EVENT_SLOTS) {
        made->next = spare;
        spare = made;
        os_lock_release(&events_lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    next_slot = (slot + 1) % CUTTLE_EVENT_SLOTS;
    *made = (event){.tag = TAG_EVENT, .slot = slot, .flags = Flags, .owner = current_context()};
    events[slot] = made;
    os_lock_release(&events_lock);
    client.events[slot].flags = Flags;
    *phEvent = (CUevent)made;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent) {
    event *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(event_of(hEvent, &of));
    /* The slot's numbers go on counting, so that a record still under way does no harm to the next event. */
    os_lock_take(&events_lock);
    of->tag = TAG_DEAD;
    events[of->slot] = NULL;
    of->next = spare;
    spare = of;
    os_lock_release(&events_lock);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent) { return cuEventDestroy_v2(hEvent); }

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned flags) {
    event *of;
    stream *on;
    ENTER_BY_HANDLE();
    if ((flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(event_of(hEvent, &of));
    TRY(stream_resolve(hStream, &on));
    if (on->capturing && (flags & CU_EVENT_RECORD_EXTERNAL) == 0) {
        of->captured = true;
        return REQUEST(CUTTLE_REQUEST_CAPTURE_EVENT_RECORD, NULL, on->slot, of->slot);
    }
    cuttle_record_event_record *record;
    TRY(emit_begin(on, CUTTLE_RECORD_EVENT_RECORD, sizeof *record, (void **)&record));
    /* In a graph the number stays 0: each launch gives its own. */
    cuttle_event_slot *slot = &client.events[of->slot];
    record->event = of->slot;
    record->pad = 0;
    record->number = on->capturing ? 0 : slot->recorded + 1;
    if (!on->capturing) {
        slot->stream = on->slot;
        STORE(slot->recorded, record->number);
    }
    of->recorded = true;
    of->captured = false;
    return emit_commit(on, record, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { return cuEventRecordWithFlags(hEvent, hStream, 0); }

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned Flags) {
    event *of;
    stream *on;
    ENTER_BY_HANDLE();
    if ((Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(event_of(hEvent, &of));
    TRY(stream_resolve(hStream, &on));
    if (of->captured && (Flags & CU_EVENT_WAIT_EXTERNAL) == 0) {
        uint64_t joined = 0;
        TRY(REQUEST(CUTTLE_REQUEST_CAPTURE_EVENT_WAIT, &joined, on->slot, of->slot));
        if (joined && !on->capturing) {
            on->capturing = true;
            on->capture_is_loose = false;
            STORE(client.streams[on->slot].flags, client.streams[on->slot].flags | 4);
        }
        return CUDA_SUCCESS;
    }
    if (on->capturing && (Flags & CU_EVENT_WAIT_EXTERNAL) == 0) {
        return of->recorded ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_SUCCESS;
    }
    uint64_t number = LOAD(client.events[of->slot].recorded);
    if (!on->capturing && (!of->recorded || LOAD(client.events[of->slot].completed) >= number)) return CUDA_SUCCESS;
    cuttle_record_event_wait *record;
    TRY(emit_begin(on, CUTTLE_RECORD_EVENT_WAIT, sizeof *record, (void **)&record));
    record->event = of->slot;
    record->pad = 0;
    record->number = on->capturing ? 0 : number;
    return emit_commit(on, record, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static bool is_complete(const event *of) {
    return !of->recorded || LOAD(client.events[of->slot].completed) >= LOAD(client.events[of->slot].recorded);
}

CUresult cuEventQuery(CUevent hEvent) {
    event *of;
    ENTER_BY_HANDLE();
    TRY(event_of(hEvent, &of));
    if (of->captured) return CUDA_ERROR_CAPTURED_EVENT;
    TRY(capture_forbids_unsafe());
    return is_complete(of) ? launch_error_take() : not_ready();
}

CUresult cuEventSynchronize(CUevent hEvent) {
    event *of;
    ENTER_BY_HANDLE();
    TRY(event_of(hEvent, &of));
    if (of->captured) return CUDA_ERROR_CAPTURED_EVENT;
    TRY(capture_forbids_unsafe());
    CUresult result = CUDA_SUCCESS;
    uint64_t number = LOAD(client.events[of->slot].recorded);
    if (of->recorded && LOAD(client.events[of->slot].completed) < number) {
        for (unsigned turn = 0; turn < 400 && LOAD(client.events[of->slot].completed) < number; turn++) os_spin(turn);
        __atomic_fetch_add(&client.status->completion_waiters, 1, __ATOMIC_SEQ_CST);
        for (;;) {
            uint32_t seen = LOAD(client.status->completion_word);
            if (LOAD(client.events[of->slot].completed) >= number) break;
            if ((result = wait_for_completion(seen)) != CUDA_SUCCESS) break;
        }
        if (client.state == CLIENT_READY) __atomic_fetch_sub(&client.status->completion_waiters, 1, __ATOMIC_SEQ_CST);
    }
    text_drain();
    return result == CUDA_SUCCESS ? launch_error_take() : result;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    event *start, *end;
    ENTER_BY_HANDLE();
    if (pMilliseconds == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(event_of(hStart, &start));
    TRY(event_of(hEnd, &end));
    if (start->captured || end->captured) return CUDA_ERROR_CAPTURED_EVENT;
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || !start->recorded || !end->recorded) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!is_complete(start) || !is_complete(end)) return not_ready();
    int64_t nanoseconds = (int64_t)(client.events[end->slot].time_ns - client.events[start->slot].time_ns);
    *pMilliseconds = (float)((double)nanoseconds * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
