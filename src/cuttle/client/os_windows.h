/* Locks on Windows: slim reader/writer locks, which are one pointer and need no clean-up. */
#ifndef CUTTLE_OS_WINDOWS_H
#define CUTTLE_OS_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#define OS_CAN_REPLACE_PAGES 0

typedef struct os_lock {
    void *state;
} os_lock;
#define OS_LOCK_INITIAL {0}

void os_lock_take(os_lock *lock);
void os_lock_release(os_lock *lock);
bool os_lock_try(os_lock *lock);

typedef struct os_once {
    uint32_t state; /* 0 not yet, 1 runs, 2 done */
} os_once;
#define OS_ONCE_INITIAL {0}

void os_once_run(os_once *once, void (*function)(void));
void os_yield(void);

#endif
