/* Starts the device process and shares memory with it; ends the connection. docs/design/boundary.md, "Start". */
#include "client.h"

#include "unsupported.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_LIMIT_MS 120000

client_connection client = {.socket = -1, .arena_memory = -1};

static os_lock connect_lock = OS_LOCK_INITIAL;

void client_log(const char *format, ...) {
    char line[768] = "cuttle: ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + 8, sizeof line - 9, format, arguments);
    va_end(arguments);
    size_t end = strlen(line);
    line[end] = '\n';
    os_text_write(true, line, end + 1);
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != 0 && strcmp(value, "0") != 0;
}

static bool reserve(uint64_t base, uint64_t bytes) {
    if (!os_reserve(base, bytes)) return false;
    client.arena_base = base;
    client.arena_bytes = bytes;
    return true;
}

#if UINTPTR_MAX == 0xffffffff
/* A window of the program's own 4 GiB, in its lower half (generic addresses are extended by sign): the largest that is free, but
 * the program needs room, too. Where its image, heap and stacks lie differs from program to program. */
static bool reserve_arena(void) {
    static const uint32_t megabytes[] = {1024, 768, 640, 512, 384, 256, 192, 128, 96, 64};
    const uint32_t step = 16 << 20;
    for (size_t i = 0; i < sizeof megabytes / sizeof *megabytes; i++) {
        uint32_t bytes = megabytes[i] << 20;
        for (uint32_t base = 0x80000000 - bytes; base >= 0x10000000; base -= step) {
            if (reserve(base, bytes)) return true;
        }
    }
    return false;
}
#elif defined(_WIN32)
/* All of it is mapped at once, in pieces: as much as a device can be expected to have. */
static bool reserve_arena(void) {
    for (uint64_t bytes = 64ull << 30; bytes >= (1ull << 30); bytes >>= 1) {
        for (unsigned step = 0; step < 6; step++) {
            if (reserve(CUTTLE_ARENA_BASE + step * CUTTLE_ARENA_STEP, bytes)) return true;
        }
    }
    return false;
}
#else
static bool reserve_arena(void) {
    /* A smaller range where the address space is limited. */
    for (uint64_t bytes = CUTTLE_ARENA_STEP; bytes >= (1ull << 32); bytes >>= 4) {
        for (unsigned step = 0; step < 6; step++) {
            if (reserve(CUTTLE_ARENA_BASE + step * CUTTLE_ARENA_STEP, bytes)) return true;
        }
    }
    return false;
}
#endif

static CUresult wait_until_ready(void) {
    uint64_t limit = os_time_ns() + START_LIMIT_MS * 1000000ull;
    while (LOAD(client.control->magic) != CUTTLE_READY_MAGIC) {
        int waited = os_socket_wait(client.socket, 200);
        if (waited < 0) {
            const char *python = getenv("CUTTLE_PYTHON");
            client_log("the device process did not start (%s -m cuttle.runtime)\n"
                       "  hint: `cuttle doctor` looks for the reason; CUTTLE_PYTHON names the interpreter that has Cuttle",
                       python != NULL && python[0] != 0 ? python : "python3");
            return CUDA_ERROR_SYSTEM_NOT_READY;
        }
        if (waited == 0 && os_time_ns() > limit) {
            client_log("the device process did not become ready in %d s", START_LIMIT_MS / 1000);
            return CUDA_ERROR_SYSTEM_NOT_READY;
        }
    }
    return (CUresult)client.control->ready_error;
}

static CUresult no_start(const char *what) {
    client_log("%s: %s\n  hint: %s", what, os_error_text(), os_error_hint());
    return CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult start(void) {
    os_device device;
    const char *problem = os_device_open(&device);
    if (problem != NULL) return no_start(problem);
    uint8_t *control_memory = device.control, *status_memory = device.status;
    client.socket = device.socket;
    if (!reserve_arena()) return no_start("no range of addresses is free for device memory");
    client.control = (cuttle_control_page *)(control_memory + CUTTLE_CONTROL_PAGE_AT);
    client.attributes = (const int32_t *)(control_memory + CUTTLE_ATTRIBUTES_AT);
    client.ring = control_memory + CUTTLE_RING_AT;
    client.payload = control_memory + CUTTLE_PAYLOAD_AT;
    client.status = (cuttle_status_page *)(status_memory + CUTTLE_STATUS_PAGE_AT);
    client.streams = (cuttle_stream_slot *)(status_memory + CUTTLE_STREAMS_AT);
    client.events = (cuttle_event_slot *)(status_memory + CUTTLE_EVENTS_AT);
    client.host_calls = (cuttle_host_call *)(status_memory + CUTTLE_HOST_CALLS_AT);
    client.text = status_memory + CUTTLE_TEXT_AT;
    client.control->version = CUTTLE_PROTOCOL_VERSION;
    client.control->client_pid = (int32_t)os_process_id();
    client.control->arena_base = client.arena_base;
    client.control->arena_bytes = client.arena_bytes; /* at most; the device process says how much it takes */
    client.streams[0].flags = 1; /* the legacy default stream */

    problem = os_device_start(&device);
    if (problem != NULL) return no_start(problem);
    client.socket = device.socket;
    TRY(wait_until_ready());
    if (!os_device_open_arena(&device)) return no_start("device memory cannot be opened");
    client.arena_memory = device.arena;
    uint64_t reserved = client.arena_bytes, bytes = client.control->arena_bytes;
    if (bytes == 0 || bytes > reserved) return CUDA_ERROR_SYSTEM_NOT_READY;
    if (!os_map_shared_at(client.arena_base, device.arena, 0, bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
    os_not_inherited(client.arena_base, bytes);
    if (reserved > bytes) os_release(client.arena_base + bytes, reserved - bytes);
    client.arena_bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult client_connect(void) {
    if (LIKELY(LOAD(client.state) == CLIENT_READY)) return CUDA_SUCCESS;
    os_lock_take(&connect_lock);
    if (client.state == CLIENT_NEW) {
        client.launch_blocking = is_set("CUDA_LAUNCH_BLOCKING");
        client.trace = is_set("CUTTLE_TRACE");
        CUresult result = start();
        if (result != CUDA_SUCCESS) {
            client.failure = result;
            client.arena_bytes = 0;
            if (client.socket >= 0) os_socket_close(client.socket); /* nothing is left running */
            client.socket = -1;
            STORE(client.state, CLIENT_FAILED);
        } else {
            STORE(client.state, CLIENT_READY);
        }
    }
    os_lock_release(&connect_lock);
    return client.state == CLIENT_READY ? CUDA_SUCCESS : client_not_ready();
}

CUresult client_not_ready(void) {
    switch (client.state) {
    case CLIENT_READY: return CUDA_SUCCESS;
    case CLIENT_FAILED: return client.failure;
    case CLIENT_CLOSED: return CUDA_ERROR_DEINITIALIZED;
    default: return CUDA_ERROR_NOT_INITIALIZED;
    }
}

CUresult client_enter_slow(void) {
    if (client.state != CLIENT_READY) return client_not_ready();
    thread_state *thread = thread_enter();
    if (thread == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (thread->in_host_call) return CUDA_ERROR_NOT_PERMITTED;
    context *now = current_context();
    if (now == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    if (now->destroyed || !now->active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)LOAD(client.status->sticky_error);
}

CUresult client_enter_without_current(CUresult entered) {
    if (entered != CUDA_ERROR_INVALID_CONTEXT || current_context() != NULL) return entered;
    return (CUresult)LOAD(client.status->sticky_error);
}

void client_lost(void) {
    os_lock_take(&connect_lock);
    if (client.state == CLIENT_READY) {
        if (!os_is_socket(client.socket)) {
            client_log("the program has closed a descriptor that is not its own: the connection to the device process is lost\n"
                       "  hint: close descriptors before the first CUDA call, or only those that the program opened");
        } else if (client.status->end_text[0] != 0) {
            client_log("the device process has ended unexpectedly: %.250s", (const char *)client.status->end_text);
        } else {
            client_log("the device process %d has ended unexpectedly: it was killed, or it crashed (then see above)\n"
                       "  hint: when memory runs out, the system kills processes: CUTTLE_MEMORY sets how much the device has",
                       (int)client.control->device_pid);
        }
        client.failure = CUDA_ERROR_SYSTEM_NOT_READY;
        STORE(client.state, CLIENT_FAILED);
    }
    os_lock_release(&connect_lock);
}

void client_close(void) {
    if (client.state != CLIENT_READY) return;
    STORE(client.state, CLIENT_CLOSED);
    os_socket_close(client.socket); /* the device process ends when it sees this */
    client.socket = -1;
}

static unsigned unsupported_calls[2048];

CUresult cuttle_unsupported(unsigned index, const char *name) {
    unsigned before = __atomic_fetch_add(&unsupported_calls[index % 2048], 1, __ATOMIC_RELAXED);
    if (before == 0 && (client.trace || is_set("CUTTLE_TRACE"))) client_log("%s is not supported yet", name);
    return CUDA_ERROR_NOT_SUPPORTED;
}
