/* Streams, and waiting for what was submitted to them. */
#ifndef CUTTLE_STREAM_H
#define CUTTLE_STREAM_H

#include "client.h"
#include "ring.h"

typedef struct stream {
    uint32_t tag;
    uint32_t slot;
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    bool legacy, per_thread;
    bool capturing;
    bool capture_is_loose; /* begun with the relaxed mode: other calls are not watched */
    CUstreamCaptureMode capture_mode;
    struct thread_state *capture_thread; /* that began the capture here; NULL for streams that joined one */
    uint64_t id;
    context *owner;
} stream;

extern stream legacy_stream;
extern unsigned captures_active;  /* streams that capture in a mode that watches other calls */
extern unsigned captures_running; /* in any mode */

CUresult stream_resolve_slow(CUstream handle, stream **found);

static inline CUresult stream_resolve(CUstream handle, stream **found) {
    if (LIKELY((uintptr_t)handle > 2 && has_tag(handle, TAG_STREAM))) {
        *found = (stream *)handle;
        return CUDA_SUCCESS;
    }
    return stream_resolve_slow(handle, found);
}

void stream_release(stream *of);
stream *stream_of_slot(uint32_t slot);
uint32_t stream_slots_used(void); /* slots from this number on were never used */

/* Waits until a slot's completed number reaches `sequence`; the sticky error if that cannot be. */
CUresult wait_sequence(uint32_t slot, uint64_t sequence);
/* Waits for everything that was submitted to the stream (the legacy stream: to all blocking streams). */
CUresult wait_stream(stream *of);
/* Waits for everything that a stream's next work has to come after: its own, and what the default stream was given before. */
CUresult wait_before(stream *next);
CUresult wait_all(void);
CUresult wait_all_ended(void); /* leaves the error of a refused launch to others */
/* The error of a launch that did not happen because its kernel cannot run. It is answered once, and all else goes on. */
CUresult launch_error_take(void);
bool stream_is_idle(stream *of);
CUresult not_ready(void); /* CUDA_ERROR_NOT_READY, or what else is to be said */
/* Sleeps until something completes, or a few milliseconds. `seen` is completion_word before the condition was looked at. */
CUresult wait_for_completion(uint32_t seen);

/* A record for a stream: goes into the ring, or becomes a graph node while the stream is capturing. */
CUresult emit_begin(stream *to, uint32_t kind, size_t bytes, void **record);
CUresult emit_commit(stream *to, void *record, unsigned node_kind);
/* Error of calls that wait or copy at once while the stream (or, in a watching mode, another one) is capturing. */
CUresult capture_forbids(stream *on);
/* The same without ending the other capture: for calls that only ask. */
CUresult capture_conflict(stream *on, bool invalidate);
CUresult capture_forbids_waiting(void); /* for the whole context */
/* For calls that CUDA calls potentially unsafe: an error, and the end of the capture, while one watches this thread. */
CUresult capture_forbids_unsafe(void);

#endif
