/* What the client library needs from the operating system; os_linux.c implements it. */
#ifndef CUTTLE_OS_H
#define CUTTLE_OS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef pthread_mutex_t os_lock;
#define OS_LOCK_INITIAL PTHREAD_MUTEX_INITIALIZER

static inline void os_lock_take(os_lock *lock) { pthread_mutex_lock(lock); }
static inline void os_lock_release(os_lock *lock) { pthread_mutex_unlock(lock); }

static inline void os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A turn of a waiting loop: on a machine with few cores, the process waited for may need this very core. */
static inline void os_spin(unsigned turn) {
    if ((turn & 31) == 31) sched_yield();
    else os_pause();
}

uint64_t os_time_ns(void);
uint32_t os_process_id(void);
/* The value that the CUDA runtime also sees as the calling thread's identity (low 32 bits of pthread_self). */
uint32_t os_thread_identity(void);

/* Sleeps while *word == value, at most `milliseconds`. The word may be in memory shared between processes. */
void os_futex_wait(uint32_t *word, uint32_t value, unsigned milliseconds);
void os_futex_wake(uint32_t *word);

/* Starts a detached thread with all signals blocked. */
bool os_thread_start(void *(*function)(void *), void *argument);

int os_shared_memory_create(const char *name, size_t bytes); /* descriptor, or -1 */
void *os_map_shared(int descriptor, size_t bytes);           /* NULL on failure; not inherited by fork */
bool os_reserve(uint64_t address, uint64_t bytes);           /* takes an address range without memory */
bool os_map_shared_at(uint64_t address, int descriptor, uint64_t offset, uint64_t bytes);
bool os_is_mapped(const void *memory, uint64_t bytes); /* whether all of a range is memory */
void os_release(uint64_t address, uint64_t bytes);
void os_not_inherited(uint64_t address, uint64_t bytes); /* by fork */
/* Puts private anonymous pages with the same contents in the place of a range (end of cuMemHostRegister). */
bool os_make_private(uint64_t address, uint64_t bytes);

/* The device process. */
typedef struct os_child {
    int socket;
} os_child;

bool os_child_start(os_child *child, int control, int status, int arena);
bool os_socket_signal(int socket);                        /* one byte; false when the peer is gone */
bool os_socket_ended(int socket);                         /* a look that takes no bytes, which are for sleepers */
bool os_is_socket(int descriptor);                        /* false when the program has closed it */
int os_socket_wait(int socket, unsigned milliseconds);    /* 1 bytes were taken, 0 time is over, -1 peer is gone */

#endif
