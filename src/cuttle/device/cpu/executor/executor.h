/* The executor: a disposable process that runs the device process's jobs, strictly in order.
 *
 * One thread (the job thread, worker 0) takes jobs from the ring; a pool of further workers helps with launches and big
 * copies. The main thread only watches: it ends the process when the device process is gone, and enforces the time-out.
 */
#ifndef CUTTLE_EXECUTOR_H
#define CUTTLE_EXECUTOR_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuttle_wire.h"

#define MAXIMUM_WORKERS 256
#define FAULT_EXIT_CODE 70
#define NATIVE_STACK_BYTES ((size_t)256 << 20) /* reserved, not taken: deep recursion with a large stack limit */

typedef uint64_t (*blocks_function)(cuttle_block *block, uint64_t begin, uint64_t end);
typedef uint32_t (*step_function)(cuttle_block *block, uint32_t warp, uint32_t resume);

/* A compiled kernel, ready to run. */
typedef struct image {
    uint8_t *code;
    uint64_t code_bytes;
    blocks_function blocks;
    step_function step;
    char name[256];
    uint32_t static_shared_bytes;
    uint32_t local_bytes; /* per thread */
    uint32_t frame_bytes; /* per warp */
    bool can_stop;
    bool may_yield;
    uint64_t symbols; /* arena address of the symbol address array */
    uint32_t (*lines)[2]; /* blob offset, PTX line; ascending */
    uint32_t line_count;
    uint32_t (*stops)[2]; /* resume point, PTX line of the instruction that a warp waits at */
    uint32_t stop_count;
    double nanoseconds_per_block; /* running estimate, 0: not known yet */
} image;

/* What one barrier of a block has gathered so far. */
typedef struct barrier_state {
    uint32_t arrived; /* threads, whole warps */
    uint32_t expected; /* threads; 0: the whole block */
    uint32_t predicate_lanes; /* popcount of the predicates */
    bool all;
    bool any;
} barrier_state;

#define BARRIERS 16

/* A growing buffer between guard pages. */
typedef struct guarded_buffer {
    uint8_t *memory;
    size_t bytes;
} guarded_buffer;

#define MAXIMUM_CLUSTER 16

/* Blocks that run together on one worker, may wait for each other and see each other's shared memory. A block outside of
 * clusters is one by itself. */
typedef struct cluster {
    uint32_t blocks;
    uint32_t left; /* blocks that are not finished */
    uint32_t warps; /* of all blocks */
    uint32_t arrived; /* warps, at the cluster's barrier in this phase */
    uint32_t finished; /* warps that are done: they count as arrived from then on */
    uint32_t phase;
    bool moved; /* a warp of it could run in this round of the worker */
    uint8_t *memory; /* shared memory of all blocks, CUTTLE_CLUSTER_STRIDE apart */
    size_t bytes; /* that are there of each block's shared memory */
    uint32_t capacity; /* blocks there is room for in it */
    struct block_slot *slots[MAXIMUM_CLUSTER];
    struct cluster *next;
} cluster;

/* One block in flight with everything it needs; reused. */
typedef struct block_slot {
    cuttle_block block;
    cluster *cluster;
    cluster own; /* where the block is in no cluster */
    guarded_buffer shared;
    guarded_buffer local;
    guarded_buffer frame;
    guarded_buffer warps;
    barrier_state barriers[BARRIERS];
    uint8_t *waiting; /* per warp: 1 + barrier number while it waits (BARRIERS: the cluster's), 0 otherwise */
    uint32_t *cluster_phases; /* per warp: the phase of the cluster's barrier that begins when its last arrival counts */
    uint32_t waiting_capacity;
    bool scheduled; /* carried on by schedule.c: the fields around here hold */
    uint32_t next_warp; /* where the round robin goes on */
    uint32_t finished; /* warps that are done */
    struct block_slot *next;
} block_slot;

typedef struct launch_state launch_state;

typedef struct worker {
    uint32_t number;
    block_slot *current; /* block that runs right now: for fault reports */
    const image *running; /* likewise */
    const char *activity; /* "copy" and the like while no kernel runs */
    block_slot *spare; /* block slots not in use */
    cluster *spare_clusters;
    uint8_t *stack_low; /* lowest usable address of the native stack */
    void *signal_stack;
    pthread_t thread;
} worker;

typedef struct executor_state {
    cuttle_status_page *status;
    cuttle_stream_slot *streams;
    cuttle_event_slot *events;
    cuttle_host_call *host_calls;
    uint8_t *text;
    cuttle_jobs_page *jobs;
    uint8_t *job_ring;
    uint8_t *arena;
    uint64_t arena_bytes;
    _Atomic uint64_t arena_open; /* bytes of it that may be touched */
    int socket;
    uint32_t workers;
    _Atomic uint64_t launch_started_ns; /* 0: no kernel runs */
} executor_state;

extern executor_state executor;
extern _Thread_local worker *this_worker;

/* jobs.c */
void *run_jobs(void *unused);

/* pool.c: `task` runs on the calling worker and on up to `width` - 1 others at the same time. */
typedef void (*pool_task)(worker *self, void *argument);
void pool_start(uint32_t workers);
void pool_run(pool_task task, void *argument, uint32_t width);
worker *pool_find_running(void);

/* image.c */
image *image_find(uint32_t index);
void image_load(uint32_t index, const char *path, uint64_t symbols);
void image_unload(uint32_t index);
uint32_t image_index_of(const image *searched);
/* The PTX line of code at an offset, 0 for code of no line; up to `nearby` bytes behind a line's code still count as it. */
uint32_t image_line(const image *of, uint64_t offset, uint64_t nearby);

/* json.c: the few things an image's metadata needs. A value is found by its key at the top level. */
const char *json_find(const char *object, const char *key);
bool json_unsigned(const char *value, uint64_t *result);
bool json_true(const char *value);
bool json_string(const char *value, char *result, size_t capacity);
const char *json_first(const char *array); /* first element, or NULL */
const char *json_next(const char *element); /* next element, or NULL */

/* launch.c */
void run_launch(const cuttle_record_launch *record, const uint8_t *parameters);

/* schedule.c: carries a block on by the general rules. */
enum block_outcome { BLOCK_FINISHED, BLOCK_ADVANCED, BLOCK_ONLY_YIELDED, BLOCK_WAITS_FOR_CLUSTER };
void schedule_adopt(block_slot *slot, uint32_t warps);
enum block_outcome schedule_block(block_slot *slot, const image *of, uint32_t warps);

/* cluster.c */
cluster *cluster_take(worker *self, uint32_t blocks, uint32_t warps, size_t shared_bytes);
void cluster_return(worker *self, cluster *of);
void cluster_begin(cluster *of, uint32_t blocks, uint32_t warps);
void cluster_arrive(block_slot *slot, uint32_t warp);
bool cluster_must_wait(const block_slot *slot, uint32_t warp);
void cluster_finish(cluster *of, const block_slot *slot, uint32_t warp);
void cluster_finish_block(cluster *of);

/* memory.c: buffers of workers, and the heap behind device malloc. */
void *reserve_addresses(size_t bytes);
void buffer_reserve(guarded_buffer *buffer, size_t bytes);
uint64_t heap_allocate(uint64_t bytes);
void heap_free(uint64_t address);

/* copy.c */
void run_copy(const cuttle_record_copy *record);
void run_copy_3d(const cuttle_record_copy_3d *record);
void run_fill(const cuttle_record_fill *record);

/* services.c */
const uint64_t *service_addresses(void);
void thread_position(const cuttle_block *block, uint64_t thread, uint32_t position[3]);

/* texture.c */
uint64_t service_texture(cuttle_block *block, uint32_t thread, uint64_t columns, uint64_t active, uint64_t stride, uint64_t form);

/* text.c */
enum text_channel { TEXT_STDOUT = 1, TEXT_STDERR = 2 };
void text_write(enum text_channel channel, const char *bytes, size_t count);
int32_t text_format(const char *format, const uint8_t *arguments, char *result, size_t capacity, size_t *length);

/* faults.c */
void faults_install(void);
void faults_prepare_thread(worker *self);
void fault_time_out(uint32_t timeout_ms);
void arena_admit(void);
_Noreturn void fault_raise(uint32_t kind, uint32_t thread, const char *text);
_Noreturn void fault_raise_at(uint32_t kind, uint32_t thread, uint32_t line, const char *text);

/* Small helpers that everything needs. */
uint64_t clock_ns(void); /* CLOCK_MONOTONIC */
void futex_wait(_Atomic uint32_t *word, uint32_t expected);
void futex_wake_own(_Atomic uint32_t *word, int count); /* among own threads */
void futex_wake_shared(uint32_t *word, int count); /* in memory shared with other processes */

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A turn of a waiting loop: on a machine with few cores, the one waited for may need this very core. */
static inline void spin_politely(int turn)
{
    if (turn % 32 == 31) {
        sched_yield();
    } else {
        cpu_relax();
    }
}

#define LOAD_ACQUIRE(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
#define STORE_RELEASE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELEASE)
#define LOAD_RELAXED(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)

#endif
