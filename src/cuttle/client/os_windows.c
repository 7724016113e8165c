/* Windows: locks, time, threads, memory and output. os_windows_device.c has the device process. */
#include "os.h"

#include "windows/windows_api.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ the library itself */

/* What a C runtime would bring for thread-local variables: the linker fills the block, the loader reads the directory. */
uint32_t _tls_index;
__attribute__((section(".tls"))) char cuttle_tls_start = 0;
__attribute__((section(".tls$ZZZ"))) char cuttle_tls_end = 0;

typedef struct tls_directory {
    uintptr_t start, end, index, callbacks;
    uint32_t zero_bytes, characteristics;
} tls_directory;

__attribute__((used)) const tls_directory _tls_used = {
    .start = (uintptr_t)&cuttle_tls_start,
    .end = (uintptr_t)&cuttle_tls_end,
    .index = (uintptr_t)&_tls_index,
};

void client_process_ends(void); /* exit.c */

/* The library stays: threads and thread-exit callbacks of ours may be there for as long as the process. */
BOOL WINAPI DllMainCRTStartup(HANDLE module, DWORD reason, void *process_ends) {
    (void)module;
    if (reason == DLL_PROCESS_ATTACH) {
        HANDLE pinned;
        GetModuleHandleExA(MODULE_FROM_ADDRESS_PINNED, (const char *)&_tls_index, &pinned);
    } else if (reason == DLL_PROCESS_DETACH && process_ends != NULL) {
        client_process_ends();
    }
    return 1;
}

/* ------------------------------------------------------------------------------------------------ locks, time, threads */

void os_lock_take(os_lock *lock) { AcquireSRWLockExclusive(lock); }
void os_lock_release(os_lock *lock) { ReleaseSRWLockExclusive(lock); }
bool os_lock_try(os_lock *lock) { return TryAcquireSRWLockExclusive(lock) != 0; }
void os_yield(void) { SwitchToThread(); }

void os_once_run(os_once *once, void (*function)(void)) {
    uint32_t state = 0;
    if (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == 2) return;
    if (__atomic_compare_exchange_n(&once->state, &state, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        function();
        __atomic_store_n(&once->state, 2, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) != 2) SwitchToThread();
}

uint64_t os_time_ns(void) {
    static int64_t frequency; /* the same for as long as the machine runs */
    int64_t now;
    if (__atomic_load_n(&frequency, __ATOMIC_RELAXED) == 0) {
        int64_t found;
        QueryPerformanceFrequency(&found);
        __atomic_store_n(&frequency, found, __ATOMIC_RELAXED);
    }
    QueryPerformanceCounter(&now);
    uint64_t per_second = (uint64_t)__atomic_load_n(&frequency, __ATOMIC_RELAXED), count = (uint64_t)now;
    return count / per_second * 1000000000u + count % per_second * 1000000000u / per_second;
}

uint32_t os_process_id(void) { return GetCurrentProcessId(); }
uint32_t os_thread_identity(void) { return GetCurrentThreadId(); }

/* The other processes cannot wake a Windows thread that waits for an address: look again, ever more seldom. */
void os_futex_wait(uint32_t *word, uint32_t value, unsigned milliseconds) {
    uint64_t end = os_time_ns() + milliseconds * 1000000ull;
    for (unsigned turn = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) == value && os_time_ns() < end; turn++) {
        if (turn < 64) SwitchToThread();
        else Sleep(turn < 1064 ? 1 : 4);
    }
}

void os_futex_wake(uint32_t *word) { (void)word; } /* waiters look by themselves */

typedef struct thread_start {
    void *(*function)(void *);
    void *argument;
} thread_start;

static DWORD WINAPI run_thread(void *argument) {
    thread_start start = *(thread_start *)argument;
    free(argument);
    start.function(start.argument);
    return 0;
}

bool os_thread_start(void *(*function)(void *), void *argument) {
    thread_start *start = malloc(sizeof *start);
    if (start == NULL) return false;
    *start = (thread_start){function, argument};
    HANDLE thread = CreateThread(NULL, 0, run_thread, start, 0, NULL);
    if (thread == NULL) free(start);
    else CloseHandle(thread);
    return thread != NULL;
}

static void (*exit_function)(void *);
static DWORD exit_index;
static os_once exit_once = OS_ONCE_INITIAL;

static void WINAPI thread_ends(void *value) {
    if (value != NULL) exit_function(value);
}

static void make_exit_index(void) { exit_index = FlsAlloc(thread_ends); }

void os_thread_at_exit(void (*at_exit)(void *), void *value) {
    exit_function = at_exit;
    os_once_run(&exit_once, make_exit_index);
    FlsSetValue(exit_index, value);
}

/* ------------------------------------------------------------------------------------------------ memory */

bool os_reserve(uint64_t address, uint64_t bytes) {
    if (address + bytes > UINTPTR_MAX) return false;
    void *wanted = (void *)(uintptr_t)address, *memory = VirtualAlloc(wanted, (size_t)bytes, MEM_RESERVE, PAGE_NOACCESS);
    if (memory == wanted) return true;
    if (memory != NULL) VirtualFree(memory, 0, MEM_RELEASE);
    return false;
}

/* Windows gives a reservation back only as a whole: the rest of a large one stays. */
void os_release(uint64_t address, uint64_t bytes) {
    (void)address;
    (void)bytes;
}

/* In pieces: Wine was seen to refuse single views of 32 GiB. The reservation makes room for them first. */
bool os_map_shared_at(uint64_t address, int memory, uint64_t offset, uint64_t bytes) {
    const uint64_t piece = (uint64_t)(sizeof(void *) == 8 ? 1024 : 64) << 20;
    HANDLE file = (HANDLE)(intptr_t)memory;
    VirtualFree((void *)(uintptr_t)address, 0, MEM_RELEASE);
    for (uint64_t done = 0; done < bytes; done += piece) {
        uint64_t part = bytes - done < piece ? bytes - done : piece, at = offset + done;
        void *wanted = (void *)(uintptr_t)(address + done);
        if (MapViewOfFileEx(file, FILE_MAP_READ_WRITE, (DWORD)(at >> 32), (DWORD)at, (size_t)part, wanted) != wanted) return false;
    }
    return true;
}

bool os_replace_pages(uint64_t address, int memory, uint64_t offset, uint64_t bytes) {
    (void)address;
    (void)memory;
    (void)offset;
    (void)bytes;
    return false; /* no part of an allocation can be given to something else */
}

bool os_make_private(uint64_t address, uint64_t bytes) {
    (void)address;
    (void)bytes;
    return false;
}

void os_not_inherited(uint64_t address, uint64_t bytes) {
    (void)address;
    (void)bytes; /* there is no fork */
}

bool os_is_mapped(const void *memory, uint64_t bytes) {
    const uint8_t *at = memory, *end = at + bytes;
    memory_information information;
    if (end < at || bytes > SIZE_MAX) return false;
    while (at < end) {
        if (VirtualQuery(at, &information, sizeof information) == 0) return false;
        if (information.state != MEM_COMMIT || (information.protection & PAGE_NOACCESS) != 0) return false;
        at = (const uint8_t *)information.base + information.bytes;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ files and output */

void *os_file_read(const char *path, size_t *size) {
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_ALL, NULL, OPEN_EXISTING, 0, NULL);
    int64_t count = 0;
    DWORD done = 0;
    *size = 0;
    if (file == INVALID_HANDLE) return NULL;
    bool sized = GetFileSizeEx(file, &count) && count > 0 && count < 0x7fffffff;
    char *memory = sized ? calloc((size_t)count + 16, 1) : NULL;
    if (memory != NULL && ReadFile(file, memory, (DWORD)count, &done, NULL) && done == (DWORD)count) {
        *size = (size_t)count;
    } else {
        free(memory);
        memory = NULL;
        *size = 1;
    }
    CloseHandle(file);
    return memory;
}

/* Not through the buffer of the program's C runtime, which may be any or none. */
void os_text_write(bool to_stderr, const void *bytes, size_t count) {
    HANDLE file = GetStdHandle(to_stderr ? STANDARD_ERROR : STANDARD_OUTPUT);
    const uint8_t *at = bytes;
    for (DWORD done; count != 0; at += done, count -= done) {
        if (!WriteFile(file, at, count < 1 << 20 ? (DWORD)count : 1 << 20, &done, NULL) || done == 0) return;
    }
}
