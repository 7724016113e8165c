/* Windows: starts the device process and shares memory with it (docs/design/clients.md).
 *
 * The client listens on a loopback socket, whose number and a secret the child finds in its environment. The child makes the
 * shared memory and says where it is. Under Wine the child is a Linux process: its memfds are opened through /proc. */
#include "os.h"

#include "cuttle_wire.h"
#include "python_variables.h"
#include "windows/windows_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_LIMIT_MS 30000
#define TEXT(literal) ((const WCHAR_T *)u##literal)

/* ------------------------------------------------------------------------------------------------ sockets */

/* Looked up at the first use: a program that never calls cuInit needs no Winsock. */
static struct {
    int(WINAPI *start)(uint16_t version, void *data);
    SOCKET(WINAPI *make)(int family, int type, int protocol);
    int(WINAPI *bind)(SOCKET socket, const socket_address *address, int bytes);
    int(WINAPI *listen)(SOCKET socket, int backlog);
    SOCKET(WINAPI *accept)(SOCKET socket, socket_address *address, int *bytes);
    int(WINAPI *name)(SOCKET socket, socket_address *address, int *bytes);
    int(WINAPI *send)(SOCKET socket, const void *from, int bytes, int flags);
    int(WINAPI *receive)(SOCKET socket, void *to, int bytes, int flags);
    int(WINAPI *select)(int unused, socket_set *read, socket_set *write, socket_set *except, const socket_time *limit);
    int(WINAPI *set_option)(SOCKET socket, int level, int name, const void *value, int bytes);
    int(WINAPI *get_option)(SOCKET socket, int level, int name, void *value, int *bytes);
    int(WINAPI *control)(SOCKET socket, uint32_t command, uint32_t *value);
    int(WINAPI *close)(SOCKET socket);
    int(WINAPI *error)(void);
} winsock;

static const char *last_problem;

static bool load_winsock(void) {
    static const char *const names[] = {"WSAStartup", "socket", "bind", "listen", "accept", "getsockname", "send", "recv", "select",
                                        "setsockopt", "getsockopt", "ioctlsocket", "closesocket", "WSAGetLastError"};
    uint8_t data[1024];
    HANDLE library = LoadLibraryA("ws2_32.dll");
    void **functions = (void **)&winsock;
    if (library == NULL) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        functions[i] = GetProcAddress(library, names[i]);
        if (functions[i] == NULL) return false;
    }
    return winsock.start(0x0202, data) == 0;
}

/* 1: something to read or to accept, 0: time is over. */
static int wait_readable(SOCKET socket, unsigned milliseconds) {
    socket_set one = {1, {socket}};
    socket_time limit = {(int32_t)(milliseconds / 1000), (int32_t)(milliseconds % 1000 * 1000)};
    return winsock.select(0, &one, NULL, NULL, &limit) > 0;
}

static bool receive_all(SOCKET socket, void *to, int bytes) {
    for (int have = 0; have < bytes;) {
        if (!wait_readable(socket, 2000)) return false;
        int more = winsock.receive(socket, (uint8_t *)to + have, bytes - have, 0);
        if (more <= 0) return false;
        have += more;
    }
    return true;
}

bool os_socket_signal(int socket) {
    if (winsock.send((SOCKET)socket, "", 1, 0) == 1) return true;
    return winsock.error() == WSAEWOULDBLOCK; /* a full buffer wakes as well as one more byte */
}

int os_socket_wait(int socket, unsigned milliseconds) {
    uint8_t bytes[64];
    if (!wait_readable((SOCKET)socket, milliseconds)) return 0;
    if (winsock.receive((SOCKET)socket, bytes, sizeof bytes, 0) > 0) return 1;
    return winsock.error() == WSAEWOULDBLOCK ? 0 : -1;
}

/* Bytes that wait in front of the end hide it: they are for sleepers, who will find it. */
bool os_socket_ended(int socket) {
    enum { PEEK = 2 };
    uint8_t byte;
    if (!wait_readable((SOCKET)socket, 0)) return false;
    int seen = winsock.receive((SOCKET)socket, &byte, 1, PEEK);
    return seen == 0 || (seen < 0 && winsock.error() != WSAEWOULDBLOCK);
}

bool os_is_socket(int socket) {
    int type, bytes = sizeof type;
    return winsock.get_option((SOCKET)socket, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

void os_socket_close(int socket) { winsock.close((SOCKET)socket); }

void os_memory_close(int memory) { CloseHandle((HANDLE)(intptr_t)memory); }

const char *os_error_text(void) {
    static char text[64];
    if (last_problem != NULL) return last_problem;
    snprintf(text, sizeof text, "Windows error %u", (unsigned)GetLastError());
    return text;
}

const char *os_error_hint(void) { return "CUTTLE_PYTHON, or python3 on the PATH, has to be a Python that has Cuttle; `cuttle run` sets it"; }

/* ------------------------------------------------------------------------------------------------ child */

static bool on_wine(void) { return GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version") != NULL; }

static bool is_for_other_pythons(const WCHAR_T *entry) {
    for (size_t i = 0; i < sizeof python_variables / sizeof *python_variables; i++) {
        const char *name = python_variables[i];
        size_t at = 0;
        while (name[at] != 0 && entry[at] == (WCHAR_T)name[at]) at++;
        if (name[at] == 0) return true;
    }
    return false;
}

static size_t length_of(const WCHAR_T *text) {
    size_t count = 0;
    while (text[count] != 0) count++;
    return count;
}

static WCHAR_T *append(WCHAR_T *to, const WCHAR_T *text) {
    while (*text != 0) *to++ = *text++;
    return to;
}

static WCHAR_T *append_narrow(WCHAR_T *to, const char *text) {
    while (*text != 0) *to++ = (WCHAR_T)*text++;
    return to;
}

/* The program's environment for our Python, with one more variable: `connect`. */
static WCHAR_T *child_environment(const char *connect) {
    WCHAR_T *strings = GetEnvironmentStringsW();
    if (strings == NULL) return NULL;
    size_t count = 0;
    while (strings[count] != 0) count += length_of(strings + count) + 1;
    WCHAR_T *block = malloc((count + strlen(connect) + 64) * sizeof(WCHAR_T)), *to = block;
    for (WCHAR_T *entry = strings; block != NULL && *entry != 0; entry += length_of(entry) + 1) {
        if (is_for_other_pythons(entry)) continue;
        to = append(to, entry);
        *to++ = 0;
    }
    FreeEnvironmentStringsW(strings);
    if (block == NULL) return NULL;
    to = append(to, TEXT("PYTHONSAFEPATH=1"));
    *to++ = 0;
    to = append_narrow(to, connect);
    *to++ = 0;
    *to = 0;
    return block;
}

/* Under Wine, env finds the interpreter on the PATH that Linux has, which a Windows program does not see. */
static bool start_child(const char *connect, bool wine) {
    enum { ROOM = 2048 };
    WCHAR_T command[ROOM + 64], python[ROOM], *to = command;
    startup_information startup = {.bytes = sizeof startup, .flags = STARTF_USESTDHANDLES};
    process_information started = {0};
    DWORD count = GetEnvironmentVariableW(TEXT("CUTTLE_PYTHON"), python, ROOM);
    if (count >= ROOM) return false;
    if (count == 0) *append(python, wine ? TEXT("python3") : TEXT("python.exe")) = 0;
    if (wine) to = append(to, TEXT("env "));
    to = append(to, TEXT("\""));
    to = append(to, python);
    to = append(to, TEXT("\" -m cuttle.runtime connect"));
    *to = 0;
    WCHAR_T *environment = child_environment(connect);
    if (environment == NULL) return false;
    startup.output = startup.error = GetStdHandle(STANDARD_ERROR);
    BOOL done = CreateProcessW(wine ? TEXT("\\\\?\\unix\\usr\\bin\\env") : NULL, command, NULL, NULL, 1,
                               CREATE_UNICODE_ENVIRONMENT | CREATE_NEW_PROCESS_GROUP, environment, NULL, &startup, &started);
    free(environment);
    if (!done) return false;
    if (started.process != NULL) CloseHandle(started.process); /* none under Wine: it is no Windows process */
    if (started.thread != NULL) CloseHandle(started.thread);
    return true;
}

/* ------------------------------------------------------------------------------------------------ shared memory */

#define SECRET_BYTES 16

typedef struct greeting {
    uint8_t secret[SECRET_BYTES];
    uint32_t process;
    uint32_t control, status, arena; /* descriptors under Wine; nothing on Windows, where mappings have names */
} greeting;

static const char *const memory_names[] = {"control", "status", "arena"};

static HANDLE open_memory(bool wine, const greeting *from, const char *secret, int which) {
    char name[96];
    WCHAR_T wide[96];
    if (!wine) {
        snprintf(name, sizeof name, "Local\\cuttle-%s-%s", secret, memory_names[which]);
        *append_narrow(wide, name) = 0;
        return OpenFileMappingW(FILE_MAP_READ_WRITE, 0, wide);
    }
    snprintf(name, sizeof name, "\\\\?\\unix\\proc\\%u\\fd\\%u", from->process, (&from->control)[which]);
    *append_narrow(wide, name) = 0;
    HANDLE file = CreateFileW(wide, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_ALL, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE) return NULL;
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READWRITE, 0, 0, NULL);
    CloseHandle(file);
    return mapping;
}

static uint8_t *map_memory(bool wine, const greeting *from, const char *secret, int which, size_t bytes) {
    HANDLE mapping = open_memory(wine, from, secret, which);
    if (mapping == NULL) return NULL;
    uint8_t *memory = MapViewOfFileEx(mapping, FILE_MAP_READ_WRITE, 0, 0, bytes, NULL);
    CloseHandle(mapping);
    return memory;
}

static SOCKET listen_on_loopback(uint16_t *port) {
    socket_address address = {.family = AF_INET, .address = 0x0100007f};
    int bytes = sizeof address;
    SOCKET listener = winsock.make(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    if (listener == INVALID_SOCKET) return listener;
    if (winsock.bind(listener, &address, sizeof address) == 0 && winsock.listen(listener, 4) == 0 &&
        winsock.name(listener, &address, &bytes) == 0) {
        *port = (uint16_t)(address.port << 8 | address.port >> 8);
        return listener;
    }
    winsock.close(listener);
    return INVALID_SOCKET;
}

/* The connection that knows the secret. Others may find the port: any user of the machine can connect to it. */
static SOCKET accept_child(SOCKET listener, const uint8_t *secret, greeting *hello) {
    for (uint64_t end = os_time_ns() + START_LIMIT_MS * 1000000ull; os_time_ns() < end;) {
        if (!wait_readable(listener, 100)) continue;
        SOCKET made = winsock.accept(listener, NULL, NULL);
        if (made == INVALID_SOCKET) continue;
        if (receive_all(made, hello, sizeof *hello) && memcmp(hello->secret, secret, SECRET_BYTES) == 0) return made;
        winsock.close(made);
    }
    return INVALID_SOCKET;
}

static bool make_secret(uint8_t *secret) {
    HANDLE library = LoadLibraryA("advapi32.dll");
    uint8_t(WINAPI *random)(void *, uint32_t) = NULL;
    if (library != NULL) random = (uint8_t(WINAPI *)(void *, uint32_t))GetProcAddress(library, "SystemFunction036"); /* RtlGenRandom */
    return random != NULL && random(secret, SECRET_BYTES);
}

static bool wine;
static char secret_text[2 * SECRET_BYTES + 1];
static greeting hello;

static const char *connect_child(os_device *device, SOCKET listener, uint16_t port, const uint8_t *secret) {
    char connect[96];
    snprintf(connect, sizeof connect, "CUTTLE_CONNECT=%u:%s", (unsigned)port, secret_text);
    if (!start_child(connect, wine)) return "the device process cannot be started";
    SOCKET made = accept_child(listener, secret, &hello);
    last_problem = "it has not connected";
    if (made == INVALID_SOCKET) return "the device process did not start";
    last_problem = NULL;
    uint32_t on = 1;
    winsock.set_option(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    winsock.control(made, FIONBIO, &on);
    device->socket = (int)made;
    device->control = map_memory(wine, &hello, secret_text, 0, CUTTLE_CONTROL_BYTES);
    device->status = map_memory(wine, &hello, secret_text, 1, CUTTLE_STATUS_BYTES);
    return device->control != NULL && device->status != NULL ? NULL : "shared memory cannot be mapped";
}

const char *os_device_open(os_device *device) {
    uint8_t secret[SECRET_BYTES];
    uint16_t port;
    *device = (os_device){.socket = -1, .arena = -1};
    if (!load_winsock() || !make_secret(secret)) return "the network functions of Windows cannot be used";
    wine = on_wine();
    for (int i = 0; i < SECRET_BYTES; i++) snprintf(secret_text + 2 * i, 3, "%02x", secret[i]);
    SOCKET listener = listen_on_loopback(&port);
    if (listener == INVALID_SOCKET) return "no loopback connection can be made";
    const char *problem = connect_child(device, listener, port, secret);
    winsock.close(listener);
    return problem;
}

const char *os_device_start(os_device *device) {
    return os_socket_signal(device->socket) ? NULL : "the device process has ended";
}

bool os_device_open_arena(os_device *device) {
    HANDLE memory = open_memory(wine, &hello, secret_text, 2);
    device->arena = (int)(intptr_t)memory;
    return memory != NULL;
}
