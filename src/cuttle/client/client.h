/* State of the client library: the connection, the calling thread, contexts. Everything here is per process. */
#ifndef CUTTLE_CLIENT_H
#define CUTTLE_CLIENT_H

#include "cuttle_wire.h"
#include "driver_functions.h"
#include "os.h"
#include "thread.h"

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELEASE)

#define DRIVER_VERSION 13000 /* unless CUTTLE_DRIVER_VERSION says otherwise */

/* Handles point to objects that begin with one of these words, so that a handle of the wrong kind is recognised. */
enum object_tag {
    TAG_CONTEXT = 0x43747843,
    TAG_STREAM = 0x43747353,
    TAG_EVENT = 0x43747645,
    TAG_MODULE = 0x43746f4d,
    TAG_FUNCTION = 0x43746e46,
    TAG_ARRAY = 0x43747241,
    TAG_MIPMAP = 0x4374694d,
    TAG_POOL = 0x43746f50,
    TAG_GRAPH = 0x43747247,
    TAG_NODE = 0x4374646e,
    TAG_EXECUTABLE = 0x43747845,
    TAG_LINK = 0x43746e4c,
    TAG_USER_OBJECT = 0x43746f55,
    TAG_TEXTURE_REFERENCE = 0x43745854,
    TAG_DEAD = 0x64656164,
};

static inline bool has_tag(const void *handle, uint32_t tag) {
    return handle != NULL && ((uintptr_t)handle & 7) == 0 && (uintptr_t)handle > 4096 && *(const uint32_t *)handle == tag;
}

/* ------------------------------------------------------------------------------------------------ connection */

enum client_state { CLIENT_NEW = 0, CLIENT_READY = 1, CLIENT_FAILED = 2, CLIENT_CLOSED = 3, CLIENT_FORKED = 4 };

typedef struct client_connection {
    int state; /* client_state */
    CUresult failure;
    cuttle_control_page *control;
    const int32_t *attributes;
    uint8_t *ring;
    uint8_t *payload;
    cuttle_status_page *status;
    cuttle_stream_slot *streams;
    cuttle_event_slot *events;
    cuttle_host_call *host_calls;
    uint8_t *text;
    uint64_t arena_base, arena_bytes;
    int arena_memory;
    int socket;
    bool launch_blocking; /* CUDA_LAUNCH_BLOCKING */
    bool trace;           /* CUTTLE_TRACE */
} client_connection;

extern client_connection client;

/* The program's exit has begun: the CUDA runtime takes everything down, which must not wait for endless kernels and for
 * host functions. All of it ends with the process. */
extern bool client_exits;

CUresult client_connect(void);   /* cuInit */
CUresult client_not_ready(void); /* why the client is not ready */
void client_lost(void);          /* the device process is gone */
void client_close(void);
void client_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline bool in_arena(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer - client.arena_base < client.arena_bytes;
}

/* ------------------------------------------------------------------------------------------------ contexts */

typedef struct local_storage {
    struct local_storage *next;
    void *key, *value;
    void(CUDA_CB *destructor)(CUcontext, void *, void *);
} local_storage;

typedef struct context {
    uint32_t tag;
    bool primary, active, destroyed;
    int device;
    unsigned flags, api_version;
    uint64_t id;
    unsigned retained;
    local_storage *storage;
    void *coredump; /* its settings, once somebody asked */
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct context *next;
} context;

/* The current context of the calling thread, or NULL. */
static inline context *current_context(void) {
    thread_state *thread = cuttle_thread;
    return LIKELY(thread != NULL) && thread->depth != 0 ? thread->contexts[thread->depth - 1] : NULL;
}

/* Checks that nearly every call makes: a working connection, a current context that lives, no sticky error. */
CUresult client_enter_slow(void);
CUresult client_enter_without_current(CUresult entered);

static inline CUresult client_enter(void) {
    context *now = current_context();
    if (LIKELY(client.state == CLIENT_READY && now != NULL && now->active && client.status->sticky_error == 0)) {
        return CUDA_SUCCESS;
    }
    return client_enter_slow();
}

#define ENTER()                                  \
    do {                                         \
        CUresult entered_ = client_enter();      \
        if (UNLIKELY(entered_)) return entered_; \
    } while (0)

/* As ENTER, for calls whose handle (stream, event, module, function) names the context: on NVIDIA's driver they work while no
   context is current. The default streams need one: stream_resolve looks. */
#define ENTER_BY_HANDLE()                                    \
    do {                                                     \
        CUresult entered_ = client_enter();                  \
        if (UNLIKELY(entered_)) {                            \
            entered_ = client_enter_without_current(entered_); \
            if (entered_) return entered_;                   \
        }                                                    \
    } while (0)

/* As ENTER, for calls that need no context. */
#define ENTER_WITHOUT_CONTEXT()                                           \
    do {                                                                  \
        if (UNLIKELY(client.state != CLIENT_READY)) return client_not_ready(); \
    } while (0)

#define TRY(call)                                \
    do {                                         \
        CUresult tried_ = (call);                \
        if (UNLIKELY(tried_)) return tried_;     \
    } while (0)

int driver_version(void); /* what cuDriverGetVersion answers */
context *context_of(CUcontext handle, CUresult *result); /* NULL handle: the current one */
context *primary_context(int device);
void context_storage_clear(context *of); /* fires the destructors of context-local storage */

/* Subjects that keep objects of a context drop them here when it is reset or destroyed. */
void streams_forget(context *of, bool failed); /* failed: their work will never complete */
void modules_forget(context *of);
void allocations_forget(context *of);

/* ------------------------------------------------------------------------------------------------ device output */

void text_drain(void);
void text_drain_last(void); /* at the end of the process: a thread may have been ended while it held the lock */

#endif
