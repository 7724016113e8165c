/* Stream objects: the client gives out the slots, the device process hears of them through the ring. */
#include "stream.h"

#include "host_call.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

stream legacy_stream = {.tag = TAG_STREAM, .slot = 0, .legacy = true, .id = 1};
unsigned captures_active, captures_running;

static os_lock streams_lock = OS_LOCK_INITIAL;
static stream *streams[CUTTLE_STREAM_SLOTS] = {&legacy_stream};
static uint32_t slots_used = 1;
static uint64_t stream_count = 2;

uint32_t stream_slots_used(void) { return LOAD(slots_used); }

stream *stream_of_slot(uint32_t slot) { return slot < CUTTLE_STREAM_SLOTS ? streams[slot] : NULL; }

/* A slot is free when its last stream is gone and the work of that stream is done. */
static bool slot_is_free(uint32_t slot) {
    return streams[slot] == NULL && LOAD(client.streams[slot].completed) >= client.streams[slot].submitted;
}

static CUresult create(stream **created, unsigned flags, int priority, bool per_thread) {
    stream *made = calloc(1, sizeof *made);
    uint32_t slot = 1;
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    os_lock_take(&streams_lock);
    while (slot < CUTTLE_STREAM_SLOTS && !slot_is_free(slot)) slot++;
    if (slot == CUTTLE_STREAM_SLOTS) {
        os_lock_release(&streams_lock);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (stream){.tag = TAG_STREAM, .slot = slot, .flags = flags, .priority = priority, .per_thread = per_thread,
                     .id = ++stream_count, .owner = current_context()};
    streams[slot] = made;
    if (slot >= slots_used) STORE(slots_used, slot + 1);
    os_lock_release(&streams_lock);
    cuttle_stream_slot *shared = &client.streams[slot];
    shared->priority = priority;
    shared->identifier = made->id;
    STORE(shared->flags, 1u | ((flags & CU_STREAM_NON_BLOCKING) ? 2u : 0u));
    cuttle_record_stream_create *record = ring_begin(CUTTLE_RECORD_STREAM_CREATE, slot, sizeof *record);
    if (record == NULL) return client_not_ready();
    record->flags = flags;
    record->priority = priority;
    ring_commit(record, false);
    *created = made;
    return CUDA_SUCCESS;
}

CUresult stream_resolve_slow(CUstream handle, stream **found) {
    bool per_thread = handle == (CUstream)CU_STREAM_PER_THREAD || (handle == NULL && cuttle_default_stream_is_per_thread);
    bool is_default = per_thread || handle == NULL || handle == (CUstream)CU_STREAM_LEGACY;
    if (is_default && current_context() == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    if (per_thread) {
        thread_state *thread = thread_enter();
        if (thread == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        if (thread->default_stream == NULL) TRY(create(&thread->default_stream, 0, 0, true));
        *found = thread->default_stream;
        return CUDA_SUCCESS;
    }
    if (is_default) {
        *found = &legacy_stream;
        return CUDA_SUCCESS;
    }
    if (has_tag(handle, TAG_DEAD)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return CUDA_ERROR_INVALID_HANDLE;
}

/* The object stays in memory with a dead tag: a stale handle is recognised. */
static void forget(stream *of) {
    os_lock_take(&streams_lock);
    streams[of->slot] = NULL;
    of->tag = TAG_DEAD;
    os_lock_release(&streams_lock);
    STORE(client.streams[of->slot].flags, 0);
}

void stream_release(stream *of) {
    void *record = ring_begin(CUTTLE_RECORD_STREAM_DESTROY, of->slot, sizeof(cuttle_record_stream_destroy));
    if (record != NULL) ring_commit(record, false);
    forget(of);
}

void streams_forget(context *of, bool failed) {
    for (uint32_t slot = 0; slot < stream_slots_used(); slot++) {
        stream *found = streams[slot];
        if (found != NULL && !found->legacy && !found->per_thread && found->owner == of) forget(found);
        /* What a dead executor never finished is over now; per-thread streams live on. */
        if (failed) STORE(client.streams[slot].completed, client.streams[slot].submitted);
    }
}

/* ------------------------------------------------------------------------------------------------ records */

CUresult capture_forbids(stream *on) { return capture_conflict(on, true); }

CUresult capture_conflict(stream *on, bool invalidate) {
    if (LIKELY(captures_active == 0 && !on->capturing)) return CUDA_SUCCESS;
    if (on->capturing) {
        if (invalidate) REQUEST(CUTTLE_REQUEST_CAPTURE_INVALIDATE, NULL, on->slot);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (!on->legacy) return CUDA_SUCCESS;
    /* The legacy stream would have to wait for the capturing streams. */
    for (uint32_t slot = 1; slot < stream_slots_used(); slot++) {
        stream *other = streams[slot];
        if (other != NULL && other->capturing && !other->capture_is_loose && !(other->flags & CU_STREAM_NON_BLOCKING)) {
            if (invalidate) REQUEST(CUTTLE_REQUEST_CAPTURE_INVALIDATE, NULL, slot);
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return CUDA_SUCCESS;
}

CUresult capture_forbids_waiting(void) {
    if (LIKELY(captures_running == 0)) return CUDA_SUCCESS;
    for (uint32_t slot = 1; slot < stream_slots_used(); slot++) {
        if (streams[slot] != NULL && streams[slot]->capturing) return capture_forbids(streams[slot]);
    }
    return CUDA_SUCCESS;
}

/* The rules of cuThreadExchangeStreamCaptureMode; which calls are unsafe was asked of an H200. */
CUresult capture_forbids_unsafe(void) {
    if (LIKELY(captures_active == 0)) return CUDA_SUCCESS;
    thread_state *here = thread_enter();
    if (here == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (here->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    for (uint32_t slot = 1; slot < stream_slots_used(); slot++) {
        stream *other = streams[slot];
        if (other == NULL || !other->capturing || other->capture_thread == NULL || other->capture_is_loose) continue;
        bool watches_all = other->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && here->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (other->capture_thread == here || watches_all) return capture_forbids(other);
    }
    return CUDA_SUCCESS;
}

CUresult emit_begin(stream *to, uint32_t kind, size_t bytes, void **record) {
    if (UNLIKELY(to->capturing)) {
        size_t slots = (bytes + CUTTLE_SLOT_BYTES - 1) / CUTTLE_SLOT_BYTES;
        cuttle_record *made = calloc(slots, CUTTLE_SLOT_BYTES);
        if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        *made = (cuttle_record){.kind = (uint16_t)kind, .slots = (uint16_t)slots, .stream = to->slot};
        *record = made;
        return CUDA_SUCCESS;
    }
    if (UNLIKELY(captures_active != 0 && to->legacy)) TRY(capture_forbids(to));
    *record = ring_begin(kind, to->slot, bytes);
    return *record != NULL ? CUDA_SUCCESS : client_not_ready();
}

CUresult emit_commit(stream *to, void *record, unsigned node_kind) {
    if (LIKELY(!to->capturing)) {
        uint64_t sequence = ring_commit(record, true);
        if (LIKELY(!client.launch_blocking)) return CUDA_SUCCESS;
        CUresult result = wait_sequence(to->slot, sequence);
        return result == CUDA_SUCCESS ? launch_error_take() : result;
    }
    request call = {0};
    request_argument(&call, to->slot);
    request_argument(&call, node_kind);
    request_argument(&call, 0);
    request_payload(&call, record, (size_t)((cuttle_record *)record)->slots * CUTTLE_SLOT_BYTES);
    CUresult result = request_send(&call, CUTTLE_REQUEST_CAPTURE_ADD);
    request_done(&call);
    free(record);
    return result;
}

/* ------------------------------------------------------------------------------------------------ the API */

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority) {
    ENTER();
    if (phStream == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0) return CUDA_ERROR_INVALID_VALUE;
    stream *made;
    priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    TRY(create(&made, flags, priority, false));
    *phStream = (CUstream)made;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned Flags) { return cuStreamCreateWithPriority(phStream, Flags, 0); }

CUresult cuStreamDestroy_v2(CUstream hStream) {
    ENTER_WITHOUT_CONTEXT();
    if ((uintptr_t)hStream <= 2 || !has_tag(hStream, TAG_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    stream *of = (stream *)hStream;
    if (of->legacy || of->per_thread) return CUDA_ERROR_INVALID_HANDLE;
    stream_release(of);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream) { return cuStreamDestroy_v2(hStream); }

CUresult cuStreamSynchronize(CUstream hStream) {
    stream *of;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &of));
    TRY(capture_forbids(of));
    TRY(capture_forbids_unsafe());
    return wait_stream(of);
}

CUresult cuStreamQuery(CUstream hStream) {
    stream *of;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &of));
    TRY(capture_forbids(of));
    TRY(capture_forbids_unsafe());
    if (!stream_is_idle(of)) return not_ready();
    text_drain();
    return LOAD(client.status->sticky_error) != 0 ? (CUresult)client.status->sticky_error : launch_error_take();
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned *flags) {
    stream *of;
    ENTER_BY_HANDLE();
    if (flags == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    *flags = of->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority) {
    stream *of;
    ENTER_BY_HANDLE();
    if (priority == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    *priority = of->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    stream *of;
    ENTER_BY_HANDLE();
    if (streamId == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    *streamId = of->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    stream *of;
    ENTER_BY_HANDLE();
    if (pctx == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    *pctx = (CUcontext)(of->owner != NULL ? of->owner : current_context());
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
    if (pGreenCtx != NULL) *pGreenCtx = NULL;
    return cuStreamGetCtx(hStream, pCtx);
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device) {
    stream *of;
    ENTER_BY_HANDLE();
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    *device = of->owner != NULL ? of->owner->device : current_context()->device;
    return CUDA_SUCCESS;
}

/* Attributes are hints of a kind that this device has no use for. */
CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out) {
    stream *of;
    ENTER();
    if (value_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_STREAM_ATTRIBUTE_PRIORITY) value_out->priority = of->priority;
    if (attr == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY) value_out->syncPolicy = CU_SYNC_POLICY_AUTO;
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value) {
    stream *of;
    ENTER();
    if (value == NULL || attr == 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    if (attr == CU_STREAM_ATTRIBUTE_PRIORITY) of->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
    stream *to, *from;
    ENTER();
    TRY(stream_resolve(dst, &to));
    return stream_resolve(src, &from);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned flags) {
    stream *of;
    ENTER();
    (void)length;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!in_arena((void *)(uintptr_t)dptr)) return CUDA_ERROR_INVALID_VALUE;
    return stream_resolve(hStream, &of);
}

/* ------------------------------------------------------------------------------------------------ waiting for values */

static CUresult value_record(CUstream hStream, uint32_t kind, CUdeviceptr address, uint64_t value, unsigned flags, uint32_t bits) {
    stream *of;
    cuttle_record_wait_value *record; /* WRITE_VALUE has the same fields */
    ENTER();
    if (!in_arena((void *)(uintptr_t)address) || address % (bits / 8) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    TRY(emit_begin(of, kind, sizeof *record, (void **)&record));
    record->address = address;
    record->value = value;
    record->flags = flags;
    record->bits = bits;
    return emit_commit(of, record, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned flags) {
    return value_record(stream, CUTTLE_RECORD_WAIT_VALUE, addr, value, flags, 32);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned flags) {
    return value_record(stream, CUTTLE_RECORD_WAIT_VALUE, addr, value, flags, 64);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned flags) {
    return value_record(stream, CUTTLE_RECORD_WRITE_VALUE, addr, value, flags, 32);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned flags) {
    return value_record(stream, CUTTLE_RECORD_WRITE_VALUE, addr, value, flags, 64);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams *paramArray, unsigned flags) {
    if (flags != 0 || (count != 0 && paramArray == NULL)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *one = &paramArray[i];
        switch (one->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            TRY(cuStreamWaitValue32_v2(stream, one->waitValue.address, one->waitValue.value, one->waitValue.flags));
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            TRY(cuStreamWaitValue64_v2(stream, one->waitValue.address, one->waitValue.value64, one->waitValue.flags));
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            TRY(cuStreamWriteValue32_v2(stream, one->writeValue.address, one->writeValue.value, one->writeValue.flags));
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            TRY(cuStreamWriteValue64_v2(stream, one->writeValue.address, one->writeValue.value64, one->writeValue.flags));
            break;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: break; /* jobs run strictly in order */
        default: return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ host functions */

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    stream *of;
    ENTER();
    if (fn == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    return host_call_submit(of, fn, userData, CU_GRAPH_NODE_TYPE_HOST);
}

typedef struct callback_call {
    CUstreamCallback function;
    CUstream handle;
    void *data;
} callback_call;

static void CUDA_CB run_callback(void *argument) {
    callback_call call = *(callback_call *)argument;
    free(argument);
    call.function(call.handle, CUDA_SUCCESS, call.data);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags) {
    stream *of;
    ENTER();
    if (callback == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &of));
    TRY(capture_forbids(of));
    callback_call *call = malloc(sizeof *call);
    if (call == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *call = (callback_call){callback, hStream, userData};
    return host_call_submit(of, run_callback, call, CU_GRAPH_NODE_TYPE_HOST);
}
