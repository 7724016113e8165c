#define _GNU_SOURCE
#include "os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

uint64_t os_time_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t os_process_id(void) { return (uint32_t)getpid(); }

uint32_t os_thread_identity(void) { return (uint32_t)(uintptr_t)pthread_self(); }

void os_futex_wait(uint32_t *word, uint32_t value, unsigned milliseconds) {
    struct timespec limit = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void os_futex_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, 0x7fffffff, NULL, NULL, 0); }

bool os_thread_start(void *(*function)(void *), void *argument) {
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, function, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed == 0;
}

int os_shared_memory_create(const char *name, size_t bytes) {
    int low = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
    if (low < 0) return -1;
    if (bytes != 0 && ftruncate(low, (off_t)bytes) != 0) {
        close(low);
        return -1;
    }
    /* Clear of the numbers that the child's descriptors get. */
    int descriptor = fcntl(low, F_DUPFD_CLOEXEC, 16);
    close(low);
    return descriptor;
}

void *os_map_shared(int descriptor, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

bool os_reserve(uint64_t address, uint64_t bytes) {
    void *wanted = (void *)(uintptr_t)address;
    void *memory = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (memory == wanted) return true;
    munmap(memory, bytes); /* kernels before 4.17 take the address as a hint */
    return false;
}

bool os_map_shared_at(uint64_t address, int descriptor, uint64_t offset, uint64_t bytes) {
    void *memory = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
                        (off_t)offset);
    return memory != MAP_FAILED;
}

void os_release(uint64_t address, uint64_t bytes) { munmap((void *)(uintptr_t)address, bytes); }

bool os_make_private(uint64_t address, uint64_t bytes) {
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return false;
    memcpy(copy, (void *)(uintptr_t)address, bytes);
    return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)address) != MAP_FAILED;
}

/* ------------------------------------------------------------------------------------------------ device process */

/* Directory of this library (…/cuttle/client/lib), without the final slash. */
static bool own_directory(char *path, size_t bytes) {
    Dl_info info;
    char *resolved;
    if (!dladdr((void *)os_child_start, &info) || info.dli_fname == NULL) return false;
    resolved = realpath(info.dli_fname, NULL);
    if (resolved == NULL) return false;
    char *slash = strrchr(resolved, '/');
    bool fits = slash != NULL && (size_t)(slash - resolved) < bytes;
    if (fits) {
        memcpy(path, resolved, (size_t)(slash - resolved));
        path[slash - resolved] = 0;
    }
    free(resolved);
    return fits;
}

/* Value of a path list without the entries that lie in `directory`; NULL if nothing is left. */
static char *without_entries(const char *name, const char *list, const char *separators, const char *directory) {
    char *copy = strdup(list), *kept = malloc(strlen(name) + strlen(list) + 2), *state = NULL;
    bool any = false;
    if (copy == NULL || kept == NULL) return NULL;
    strcpy(kept, name);
    strcat(kept, "=");
    for (char *entry = strtok_r(copy, separators, &state); entry != NULL; entry = strtok_r(NULL, separators, &state)) {
        char *resolved = realpath(entry, NULL);
        bool ours = resolved != NULL && strncmp(resolved, directory, strlen(directory)) == 0;
        free(resolved);
        if (ours) continue;
        if (any) strcat(kept, ":");
        strcat(kept, entry);
        any = true;
    }
    free(copy);
    if (any) return kept;
    free(kept);
    return NULL;
}

/* The device process must not load this library, nor modules that lie in the program's working directory. */
__attribute__((noinline)) static char **child_environment(const char *directory, bool add_package) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL) count++;
    char **environment = calloc(count + 4, sizeof(char *));
    const char *python_path = NULL;
    if (environment == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        char *entry = environ[i];
        if (strncmp(entry, "LD_LIBRARY_PATH=", 16) == 0) {
            entry = without_entries("LD_LIBRARY_PATH", entry + 16, ":", directory);
        } else if (strncmp(entry, "LD_PRELOAD=", 11) == 0) {
            entry = without_entries("LD_PRELOAD", entry + 11, ": ", directory);
        } else if (strncmp(entry, "PYTHONPATH=", 11) == 0 && add_package) {
            python_path = entry + 11;
            entry = NULL;
        } else if (strncmp(entry, "PYTHONSAFEPATH=", 15) == 0) {
            entry = NULL;
        }
        if (entry != NULL) environment[kept++] = entry;
    }
    environment[kept++] = "PYTHONSAFEPATH=1";
    if (add_package) {
        /* The package's parent directory stands three levels above …/cuttle/client/lib. */
        char *value = malloc(strlen(directory) + (python_path ? strlen(python_path) : 0) + 16);
        if (value != NULL) {
            sprintf(value, "PYTHONPATH=%s%s%s", python_path ? python_path : "", python_path ? ":" : "", directory);
            for (int level = 0; level < 3; level++) {
                char *slash = strrchr(value, '/');
                if (slash != NULL) *slash = 0;
            }
            environment[kept++] = value;
        }
    }
    environment[kept] = NULL;
    return environment;
}

__attribute__((noinline)) static char *find_program(const char *name) {
    if (strchr(name, '/') != NULL) return strdup(name);
    const char *path = getenv("PATH");
    char *copy = strdup(path != NULL ? path : "/usr/local/bin:/usr/bin:/bin"), *state = NULL, *found = NULL;
    for (char *entry = strtok_r(copy, ":", &state); entry != NULL && found == NULL; entry = strtok_r(NULL, ":", &state)) {
        char *candidate = malloc(strlen(entry) + strlen(name) + 2);
        if (candidate == NULL) break;
        sprintf(candidate, "%s/%s", entry, name);
        if (access(candidate, X_OK) == 0) found = candidate;
        else free(candidate);
    }
    free(copy);
    return found;
}

static void close_from(int first) {
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) return;
    for (int descriptor = first; descriptor < 1024; descriptor++) close(descriptor);
}

/* Runs in the vforked child: system calls only. */
__attribute__((noinline)) static void child_main(const int *descriptors, const char *program, char *const *arguments, char *const *environment) {
    struct sigaction action;
    sigset_t none;
    memset(&action, 0, sizeof action);
    for (int number = 1; number < 65; number++) {
        /* Ctrl-C is for the program; the device process ends when the program's socket closes. */
        action.sa_handler = number == SIGINT || number == SIGQUIT ? SIG_IGN : SIG_DFL;
        sigaction(number, &action, NULL);
    }
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(2, 1);
    for (int i = 0; i < 4; i++) dup2(descriptors[i], 3 + i);
    close_from(7);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A grandchild: the program's own wait() calls must not meet a child that it does not know. */
    if (vfork() == 0) execve(program, arguments, environment);
    _exit(0);
}

bool os_child_start(os_child *child, int control, int status, int arena) {
    char directory[4096];
    int pair[2];
    const char *python = getenv("CUTTLE_PYTHON");
    bool named = python != NULL && python[0] != 0;
    if (!own_directory(directory, sizeof directory)) return false;
    char *program = find_program(named ? python : "python3");
    if (program == NULL) return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
    int remote = fcntl(pair[1], F_DUPFD_CLOEXEC, 16), local = fcntl(pair[0], F_DUPFD_CLOEXEC, 16);
    close(pair[0]);
    close(pair[1]);
    int descriptors[4] = {remote, control, status, arena};
    char *arguments[] = {program, "-m", "cuttle.runtime", "3", "4", "5", "6", NULL};
    char **environment = child_environment(directory, !named);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t process = environment == NULL ? -1 : vfork();
    if (process == 0) child_main(descriptors, program, arguments, environment);
    if (process > 0) waitpid(process, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(remote);
    free(program);
    free(environment);
    if (process < 0) {
        close(local);
        return false;
    }
    child->socket = local;
    return true;
}

bool os_socket_signal(int socket) {
    ssize_t sent;
    do {
        sent = send(socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent == 1 || errno == EAGAIN; /* a full buffer wakes as well as one more byte */
}

int os_socket_wait(int socket, unsigned milliseconds) {
    struct pollfd item = {socket, POLLIN, 0};
    char bytes[64];
    if (poll(&item, 1, (int)milliseconds) <= 0) return 0;
    ssize_t taken = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (taken > 0) return 1;
    if (taken < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    return -1;
}

void os_not_inherited(uint64_t address, uint64_t bytes) { madvise((void *)(uintptr_t)address, bytes, MADV_DONTFORK); }
