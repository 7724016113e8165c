/* What the client library needs from the operating system: os_linux*.c and os_windows*.c implement it.
 * `os_lock`, `os_once` and `os_yield` stand in os_linux.h and os_windows.h. */
#ifndef CUTTLE_OS_H
#define CUTTLE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#include "os_windows.h"
#else
#include "os_linux.h"
#endif

static inline void os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A turn of a waiting loop: on a machine with few cores, the process waited for may need this very core. */
static inline void os_spin(unsigned turn) {
    if ((turn & 31) == 31) os_yield();
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

bool os_reserve(uint64_t address, uint64_t bytes);           /* takes an address range without memory */
bool os_map_shared_at(uint64_t address, int memory, uint64_t offset, uint64_t bytes); /* over a reserved range */
bool os_is_mapped(const void *memory, uint64_t bytes); /* whether all of a range is memory */
void os_release(uint64_t address, uint64_t bytes);
void os_not_inherited(uint64_t address, uint64_t bytes); /* by fork */
/* Puts shared pages in the place of the program's own (cuMemHostRegister), and private ones with the same contents back.
 * Not possible on Windows: OS_CAN_REPLACE_PAGES. */
bool os_replace_pages(uint64_t address, int memory, uint64_t offset, uint64_t bytes);
bool os_make_private(uint64_t address, uint64_t bytes);

/* Calls `at_exit(value)` when the calling thread ends. One function for all threads. */
void os_thread_at_exit(void (*at_exit)(void *), void *value);

/* A whole file, with 16 zero bytes behind it: free it. NULL with *count 0: os_error_text says why; NULL with *count 1: it is
 * empty, or no file. */
void *os_file_read(const char *path, size_t *count);
void os_text_write(bool to_stderr, const void *bytes, size_t count); /* the program's own stdout or stderr */
const char *os_error_text(void);                                     /* of the last call that failed */
const char *os_error_hint(void);                                     /* what a user can do about it */

/* The device process and what is shared with it. `os_device_open` leaves control and status memory mapped (not inherited by
 * fork); the device process looks at it from `os_device_start` on. Both answer NULL, or what could not be done. */
typedef struct os_device {
    int socket;
    int arena; /* os_map_shared_at */
    uint8_t *control, *status;
    int control_memory, status_memory; /* Linux: for the child */
} os_device;

const char *os_device_open(os_device *device);
const char *os_device_start(os_device *device);
bool os_device_open_arena(os_device *device); /* once the device process has given it its size */

void os_socket_close(int socket);
void os_memory_close(int memory);
bool os_socket_signal(int socket);                        /* one byte; false when the peer is gone */
bool os_socket_ended(int socket);                         /* a look that takes no bytes, which are for sleepers */
bool os_is_socket(int socket);                            /* false when the program has closed it */
int os_socket_wait(int socket, unsigned milliseconds);    /* 1 bytes were taken, 0 time is over, -1 peer is gone */

#endif
