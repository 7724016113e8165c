/* Locks on Linux. */
#ifndef CUTTLE_OS_LINUX_H
#define CUTTLE_OS_LINUX_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define OS_CAN_REPLACE_PAGES 1

typedef pthread_mutex_t os_lock;
#define OS_LOCK_INITIAL PTHREAD_MUTEX_INITIALIZER

static inline void os_lock_take(os_lock *lock) { pthread_mutex_lock(lock); }
static inline void os_lock_release(os_lock *lock) { pthread_mutex_unlock(lock); }

static inline bool os_lock_try(os_lock *lock) { return pthread_mutex_trylock(lock) == 0; }

typedef pthread_once_t os_once;
#define OS_ONCE_INITIAL PTHREAD_ONCE_INIT

static inline void os_once_run(os_once *once, void (*function)(void)) { pthread_once(once, function); }
static inline void os_yield(void) { sched_yield(); }

#endif
