/* Per-thread state: made at a thread's first call, given back at its end. */
#include "thread.h"

#include "client.h"
#include "stream.h"

#include <stdlib.h>

__thread thread_state *cuttle_thread __attribute__((tls_model("initial-exec")));
__thread int cuttle_default_stream_is_per_thread __attribute__((tls_model("initial-exec")));

static uint64_t thread_count;

static void thread_leave(void *argument) {
    thread_state *thread = argument;
    if (thread->default_stream != NULL && client.state == CLIENT_READY) stream_release(thread->default_stream);
    cuttle_thread = NULL;
    free(thread->contexts);
    free(thread);
}

thread_state *thread_enter_slow(void) {
    thread_state *thread = calloc(1, sizeof *thread);
    if (thread == NULL) return NULL;
    thread->number = __atomic_add_fetch(&thread_count, 1, __ATOMIC_RELAXED);
    thread->capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cuttle_thread = thread;
    os_thread_at_exit(thread_leave, thread);
    return thread;
}
