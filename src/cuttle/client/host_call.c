#include "host_call.h"

static os_once service_once = OS_ONCE_INITIAL;
static bool service_runs;

/* Takes what the executor posted, in order. CUDA calls made by these functions answer NOT_PERMITTED. */
static void *serve(void *unused) {
    cuttle_status_page *status = client.status;
    thread_state *thread = thread_enter();
    (void)unused;
    if (thread == NULL) return NULL;
    thread->in_host_call = true;
    while (LOAD(client.state) == CLIENT_READY) {
        uint32_t seen = LOAD(status->host_call_word);
        uint64_t tail = status->host_call_tail;
        if (LOAD(status->host_call_head) == tail) {
            os_futex_wait(&status->host_call_word, seen, 1000);
            continue;
        }
        cuttle_host_call call = client.host_calls[tail % CUTTLE_HOST_CALL_SLOTS];
        STORE(status->host_call_tail, tail + 1);
        text_drain();
        ((CUhostFn)(uintptr_t)call.function)((void *)(uintptr_t)call.data);
        cuttle_record_host_done *record = ring_begin(CUTTLE_RECORD_HOST_DONE, call.stream, sizeof *record);
        if (record == NULL) return NULL;
        record->ticket = call.ticket;
        ring_commit(record, false);
    }
    return NULL;
}

static void start_service(void) { service_runs = os_thread_start(serve, NULL); }

bool host_call_service(void) {
    os_once_run(&service_once, start_service);
    return service_runs;
}

CUresult host_call_submit(stream *to, CUhostFn function, void *data, unsigned node_kind) {
    static uint64_t tickets;
    cuttle_record_host_call *record;
    if (!host_call_service()) return CUDA_ERROR_OUT_OF_MEMORY;
    TRY(emit_begin(to, CUTTLE_RECORD_HOST_CALL, sizeof *record, (void **)&record));
    record->function = (uint64_t)(uintptr_t)function;
    record->data = (uint64_t)(uintptr_t)data;
    record->call_kind = 0;
    record->pad = 0;
    record->ticket = __atomic_add_fetch(&tickets, 1, __ATOMIC_RELAXED);
    return emit_commit(to, record, node_kind);
}
