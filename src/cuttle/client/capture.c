/* Stream capture: the device process builds the graph, the client knows which streams are capturing. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static void begin(stream *on, CUstreamCaptureMode mode) {
    on->capturing = true;
    on->capture_is_loose = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    on->capture_mode = mode;
    on->capture_thread = thread_enter();
    __atomic_fetch_add(&captures_running, 1, __ATOMIC_RELAXED);
    if (!on->capture_is_loose) __atomic_fetch_add(&captures_active, 1, __ATOMIC_RELAXED);
    STORE(client.streams[on->slot].flags, client.streams[on->slot].flags | 4);
}

static void end(stream *on, bool origin) {
    if (!on->capturing) return;
    on->capturing = false;
    on->capture_thread = NULL;
    if (origin && captures_running != 0) __atomic_fetch_sub(&captures_running, 1, __ATOMIC_RELAXED);
    if (origin && !on->capture_is_loose && captures_active != 0) __atomic_fetch_sub(&captures_active, 1, __ATOMIC_RELAXED);
    STORE(client.streams[on->slot].flags, client.streams[on->slot].flags & ~4u);
}

static CUresult begin_capture(CUstream handle, uint64_t graph_id, const CUgraphNode *dependencies, size_t count,
                              CUstreamCaptureMode mode) {
    stream *on;
    uint64_t *numbers;
    ENTER();
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(handle, &on));
    if (on->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (on->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    TRY(node_numbers(dependencies, count, &numbers));
    request call = {.values = {on->slot, mode, graph_id, count}, .count = 4};
    request_payload(&call, numbers, count * 8);
    CUresult result = request_send(&call, CUTTLE_REQUEST_CAPTURE_BEGIN);
    request_done(&call);
    free(numbers);
    if (result == CUDA_SUCCESS) begin(on, mode);
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) { return begin_capture(hStream, 0, NULL, 0, mode); }
CUresult cuStreamBeginCapture(CUstream hStream) { return begin_capture(hStream, 0, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode) {
    graph *to;
    ENTER();
    (void)dependencyData;
    TRY(graph_of(hGraph, &to));
    return begin_capture(hStream, to->id, dependencies, numDependencies, mode);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    stream *on;
    ENTER();
    if (phGraph == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &on));
    if (!on->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    *phGraph = NULL;
    request call = {.values = {on->slot}, .count = 1};
    CUresult result = request_send(&call, CUTTLE_REQUEST_CAPTURE_END);
    if (result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || result == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) {
        request_done(&call);
        return result; /* the capture goes on */
    }
    for (size_t i = 0; i + 4 <= call.reply_bytes; i += 4) {
        uint32_t slot;
        memcpy(&slot, call.reply + i, 4);
        stream *other = stream_of_slot(slot);
        if (other != NULL) end(other, other == on);
    }
    end(on, true);
    request_done(&call);
    uint64_t id = call.values[CUTTLE_REPLY_CAPTURE_END_GRAPH];
    if (result == CUDA_SUCCESS) *phGraph = (CUgraph)graph_of_id(id);
    return result;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
    stream *on;
    uint64_t status;
    ENTER();
    if (captureStatus == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &on));
    *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!on->capturing) return on->legacy ? capture_conflict(on, false) : CUDA_SUCCESS;
    TRY(REQUEST(CUTTLE_REQUEST_CAPTURE_INFO, &status, on->slot));
    *captureStatus = (CUstreamCaptureStatus)status;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out) {
    /* The list stays valid until the thread's next call of this kind. */
    static __thread CUgraphNode *kept;
    stream *on;
    ENTER();
    if (captureStatus_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &on));
    *captureStatus_out = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!on->capturing) return on->legacy ? capture_conflict(on, false) : CUDA_SUCCESS;
    request call = {.values = {on->slot}, .count = 1};
    TRY(request_send(&call, CUTTLE_REQUEST_CAPTURE_INFO));
    uint64_t graph_id = call.values[CUTTLE_REPLY_CAPTURE_INFO_GRAPH];
    *captureStatus_out = (CUstreamCaptureStatus)call.values[CUTTLE_REPLY_CAPTURE_INFO_STATUS];
    if (id_out != NULL) *id_out = call.values[CUTTLE_REPLY_CAPTURE_INFO_IDENTIFIER];
    if (graph_out != NULL) *graph_out = (CUgraph)graph_of_id(graph_id);
    if (edgeData_out != NULL) *edgeData_out = NULL;
    size_t count = call.reply_bytes / 8;
    if (dependencies_out != NULL) {
        free(kept);
        kept = calloc(count + 1, sizeof *kept);
        if (kept != NULL) give_nodes(&call, kept, &count, graph_id);
        *dependencies_out = kept;
    }
    if (numDependencies_out != NULL) *numDependencies_out = count;
    request_done(&call);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
                                   CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out) {
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out) {
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned flags) {
    stream *on;
    uint64_t *numbers;
    ENTER();
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_resolve(hStream, &on));
    if (!on->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    TRY(node_numbers(dependencies, numDependencies, &numbers));
    request call = {.values = {on->slot, flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES, numDependencies}, .count = 3};
    request_payload(&call, numbers, numDependencies * 8);
    CUresult result = request_send(&call, CUTTLE_REQUEST_CAPTURE_SET_DEPENDENCIES);
    request_done(&call);
    free(numbers);
    return result;
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned flags) {
    (void)dependencyData;
    return cuStreamUpdateCaptureDependencies(hStream, dependencies, numDependencies, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER_WITHOUT_CONTEXT();
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    thread_state *thread = thread_enter();
    if (thread == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUstreamCaptureMode before = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
