#define _GNU_SOURCE
#include "os.h"

#include "cuttle_wire.h"
#include "python_variables.h"

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
#include <sys/resource.h>
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

static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static void (*exit_function)(void *);

static void make_exit_key(void) { pthread_key_create(&exit_key, exit_function); }

void os_thread_at_exit(void (*at_exit)(void *), void *value) {
    exit_function = at_exit;
    pthread_once(&exit_once, make_exit_key);
    pthread_setspecific(exit_key, value);
}

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

/* A limit on the size of files counts for shared memory, too, and would end the program with SIGXFSZ. */
static bool set_size(int descriptor, size_t bytes) {
    struct rlimit limit, raised;
    bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0;
    if (known && limit.rlim_max != RLIM_INFINITY && limit.rlim_max < bytes) {
        errno = EFBIG;
        return false;
    }
    bool low = known && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes;
    raised = (struct rlimit){bytes, limit.rlim_max};
    if (low) setrlimit(RLIMIT_FSIZE, &raised);
    bool done = ftruncate(descriptor, (off_t)bytes) == 0;
    if (low) setrlimit(RLIMIT_FSIZE, &limit);
    return done;
}

static int shared_memory_create(const char *name, size_t bytes) {
    int low = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);
    if (low < 0) return -1;
    if (bytes != 0 && !set_size(low, bytes)) {
        close(low);
        return -1;
    }
    /* Clear of the numbers that the child's descriptors get. */
    int descriptor = fcntl(low, F_DUPFD_CLOEXEC, 16);
    close(low);
    return descriptor;
}

static uint8_t *map_shared(int descriptor, size_t bytes) {
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

bool os_map_shared_at(uint64_t address, int memory, uint64_t offset, uint64_t bytes) {
    void *mapped = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, (off_t)offset);
    return mapped != MAP_FAILED;
}

bool os_replace_pages(uint64_t address, int memory, uint64_t offset, uint64_t bytes) {
    return os_map_shared_at(address, memory, offset, bytes);
}

bool os_is_mapped(const void *memory, uint64_t bytes) {
    enum { PAGES = 4096 };
    unsigned char resident[PAGES];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = (uint64_t)(uintptr_t)memory, end = begin + bytes;
    if (end < begin) return false;
    /* mincore answers ENOMEM for ranges with holes. */
    for (uint64_t at = begin / page * page; at < end; at += PAGES * page) {
        uint64_t part = end - at < PAGES * page ? end - at : PAGES * page;
        if (mincore((void *)(uintptr_t)at, part, resident) != 0 && errno == ENOMEM) return false;
    }
    return true;
}

void os_release(uint64_t address, uint64_t bytes) { munmap((void *)(uintptr_t)address, bytes); }

bool os_make_private(uint64_t address, uint64_t bytes) {
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return false;
    memcpy(copy, (void *)(uintptr_t)address, bytes);
    return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)address) != MAP_FAILED;
}

void *os_file_read(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    long count = ftell(file);
    fseek(file, 0, SEEK_SET);
    char *memory = count > 0 ? calloc((size_t)count + 16, 1) : NULL;
    if (memory != NULL && fread(memory, 1, (size_t)count, file) == (size_t)count) {
        *size = (size_t)count;
    } else {
        free(memory);
        memory = NULL;
        *size = 1;
    }
    fclose(file);
    return memory;
}

void os_text_write(bool to_stderr, const void *bytes, size_t count) { fwrite(bytes, 1, count, to_stderr ? stderr : stdout); }

const char *os_error_text(void) { return strerror(errno); }

const char *os_error_hint(void) { return "look at `ulimit -a`: limits on memory, file size, processes and open files"; }

/* ------------------------------------------------------------------------------------------------ device process */

/* Directory of this library (…/cuttle/client/lib), without the final slash. */
static bool own_directory(char *path, size_t bytes) {
    Dl_info info;
    char *resolved;
    if (!dladdr((void *)os_device_start, &info) || info.dli_fname == NULL) return false;
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

static bool is_for_other_pythons(const char *entry) {
    for (size_t i = 0; i < sizeof python_variables / sizeof *python_variables; i++) {
        if (strncmp(entry, python_variables[i], strlen(python_variables[i])) == 0) return true;
    }
    return false;
}

/* Whether a path list names a directory. */
static bool has_entry(const char *list, const char *directory) {
    size_t length = strlen(directory);
    for (const char *at = list; at != NULL && (at = strstr(at, directory)) != NULL; at += length) {
        if ((at == list || at[-1] == ':') && (at[length] == 0 || at[length] == ':')) return true;
    }
    return false;
}

/* The device process must not load this library, nor modules that lie in the program's working directory. */
__attribute__((noinline)) static char **child_environment(const char *directory, bool named) {
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
        } else if (strncmp(entry, "PYTHONPATH=", 11) == 0) {
            python_path = entry + 11;
            entry = NULL;
        } else if (is_for_other_pythons(entry)) {
            entry = NULL;
        }
        if (entry != NULL) environment[kept++] = entry;
    }
    environment[kept++] = "PYTHONSAFEPATH=1";
    /* The package's parent directory stands two levels above …/cuttle/client. An interpreter that was named to us has
     * the package installed, unless it is a source tree that is not. */
    char *package = strdup(directory), *value = malloc(strlen(directory) + (python_path ? strlen(python_path) : 0) + 16);
    bool found = false;
    for (int above = -1; above < 2 && package != NULL;) {
        char *slash = strrchr(package, '/');
        if (slash == NULL) break;
        if (above >= 0 || strcmp(slash, "/client") == 0) above++;
        *slash = 0;
        found = above == 2;
    }
    if (package == NULL || value == NULL) return NULL;
    const char *name = strrchr(package, '/');
    bool installed = named && name != NULL && strstr(name, "-packages") != NULL;
    bool add = found && !installed && (python_path == NULL || !has_entry(python_path, package));
    if (add) sprintf(value, "PYTHONPATH=%s%s%s", python_path ? python_path : "", python_path ? ":" : "", package);
    else if (python_path != NULL) sprintf(value, "PYTHONPATH=%s", python_path);
    if (add || python_path != NULL) environment[kept++] = value;
    free(package);
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

/* Signals that a terminal or a batch system sends to the whole process group. They are for the program, which may well go
 * on (write a checkpoint, say); the device process ends when the program's socket closes. */
static bool is_for_the_program(int number) {
    switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
    case SIGHUP:
    case SIGALRM:
    case SIGUSR1:
    case SIGUSR2: return true;
    default: return false;
    }
}

/* Runs in the vforked child: system calls only. */
__attribute__((noinline)) static void child_main(const int *descriptors, const char *program, char *const *arguments, char *const *environment) {
    struct sigaction action;
    sigset_t none;
    memset(&action, 0, sizeof action);
    for (int number = 1; number < 65; number++) {
        action.sa_handler = is_for_the_program(number) ? SIG_IGN : SIG_DFL;
        sigaction(number, &action, NULL);
    }
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    if (fcntl(2, F_GETFD) < 0) dup2(null, 2); /* a closed stderr: its number must not go to something else */
    dup2(2, 1);
    for (int i = 0; i < 4; i++) dup2(descriptors[i], 3 + i);
    close_from(7);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A grandchild: the program's own wait() calls must not meet a child that it does not know. */
    if (vfork() == 0) execve(program, arguments, environment);
    _exit(0);
}

/* Moves a descriptor to a high number: a program that closes descriptors which are not its own, and opens files after that,
 * gets low ones, and we would write into them. */
static int high_descriptor(int low) {
    struct rlimit limit;
    int wanted = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1024 ? (int)limit.rlim_cur - 24 : 1000;
    int high = fcntl(low, F_DUPFD_CLOEXEC, wanted > 16 ? wanted : 16);
    if (high < 0) return low;
    close(low);
    return high;
}

const char *os_device_open(os_device *device) {
    device->socket = -1;
    device->control_memory = shared_memory_create("cuttle-control", CUTTLE_CONTROL_BYTES);
    device->status_memory = shared_memory_create("cuttle-status", CUTTLE_STATUS_BYTES);
    device->arena = shared_memory_create("cuttle-arena", 0);
    if (device->control_memory < 0 || device->status_memory < 0 || device->arena < 0) return "shared memory cannot be made";
    device->control = map_shared(device->control_memory, CUTTLE_CONTROL_BYTES);
    device->status = map_shared(device->status_memory, CUTTLE_STATUS_BYTES);
    return device->control != NULL && device->status != NULL ? NULL : "shared memory cannot be mapped";
}

static bool start_child(os_device *device) {
    char directory[4096];
    int pair[2];
    const char *python = getenv("CUTTLE_PYTHON");
    bool named = python != NULL && python[0] != 0;
    if (!own_directory(directory, sizeof directory)) return false;
    char *program = find_program(named ? python : "python3");
    if (program == NULL) return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
    int remote = fcntl(pair[1], F_DUPFD_CLOEXEC, 16), local = high_descriptor(pair[0]);
    close(pair[1]);
    if (local < 0 || remote < 0) {
        free(program);
        close(local);
        close(remote);
        return false;
    }
    int descriptors[4] = {remote, device->control_memory, device->status_memory, device->arena};
    char *arguments[] = {program, "-m", "cuttle.runtime", "3", "4", "5", "6", NULL};
    char **environment = child_environment(directory, named);
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
    device->socket = local;
    return true;
}

const char *os_device_start(os_device *device) {
    bool started = start_child(device);
    close(device->control_memory);
    close(device->status_memory);
    return started ? NULL : "the device process cannot be started";
}

bool os_device_open_arena(os_device *device) { return device->arena >= 0; }

void os_socket_close(int socket) { close(socket); }

void os_memory_close(int memory) { close(memory); }

/* Whether errno means that there is no peer any more, and not that memory is short for a moment. */
static bool peer_is_gone(void) {
    switch (errno) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case EBADF: /* the program has closed our descriptor */
    case ENOTSOCK: return true;
    default: return false;
    }
}

bool os_socket_signal(int socket) {
    for (;;) {
        if (send(socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return true;
        if (errno == EAGAIN) return true; /* a full buffer wakes as well as one more byte */
        if (peer_is_gone()) return false;
        sched_yield();
    }
}

bool os_socket_ended(int socket) {
    struct pollfd item = {socket, POLLRDHUP, 0};
    return poll(&item, 1, 0) > 0;
}

bool os_is_socket(int descriptor) {
    int type;
    socklen_t bytes = sizeof type;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

int os_socket_wait(int socket, unsigned milliseconds) {
    struct pollfd item = {socket, POLLIN, 0};
    char bytes[64];
    if (poll(&item, 1, (int)milliseconds) <= 0) return 0;
    ssize_t taken = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (taken > 0) return 1;
    return taken < 0 && !peer_is_gone() ? 0 : -1;
}

void os_not_inherited(uint64_t address, uint64_t bytes) { madvise((void *)(uintptr_t)address, bytes, MADV_DONTFORK); }
