/* What belongs to the calling thread. */
#ifndef CUTTLE_THREAD_H
#define CUTTLE_THREAD_H

#include <stdbool.h>

#include "driver_types.h"

struct context;
struct stream;

typedef struct thread_state {
    uint64_t number;
    unsigned depth, capacity;
    struct context **contexts; /* the stack; the last one is current */
    struct stream *default_stream; /* CU_STREAM_PER_THREAD, made at its first use */
    bool in_host_call; /* runs a host function: CUDA calls are not permitted */
    CUstreamCaptureMode capture_mode;
} thread_state;

/* Few words only: they live in the static thread-local block, which a library loaded late shares with others. */
extern __thread thread_state *cuttle_thread __attribute__((tls_model("initial-exec")));
extern __thread int cuttle_default_stream_is_per_thread __attribute__((tls_model("initial-exec")));

thread_state *thread_enter_slow(void);

static inline thread_state *thread_enter(void) {
    thread_state *thread = cuttle_thread;
    return thread != NULL ? thread : thread_enter_slow();
}

#endif
