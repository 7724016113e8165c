/* The functions of kernel32 that the client calls, and of ws2_32 that it looks up, declared here: no SDK header and no C
 * runtime is needed to build the library. Names, types and numbers: Microsoft's public documentation of the Windows API. */
#ifndef CUTTLE_WINDOWS_API_H
#define CUTTLE_WINDOWS_API_H

#include <stddef.h>
#include <stdint.h>

#define WINAPI __stdcall
#define IMPORT __declspec(dllimport)

typedef void *HANDLE;
typedef int32_t BOOL;
typedef uint32_t DWORD;
typedef uint16_t WCHAR_T;

#define INVALID_HANDLE ((HANDLE)(intptr_t)-1)
#define GENERIC_READ 0x80000000u
#define GENERIC_WRITE 0x40000000u
#define FILE_SHARE_ALL 7u
#define OPEN_EXISTING 3u
#define PAGE_NOACCESS 1u
#define PAGE_READWRITE 4u
#define MEM_COMMIT 0x1000u
#define MEM_RESERVE 0x2000u
#define MEM_RELEASE 0x8000u
#define FILE_MAP_READ_WRITE 6u
#define STANDARD_OUTPUT ((DWORD)-11)
#define STANDARD_ERROR ((DWORD)-12)
#define STARTF_USESTDHANDLES 0x100u
#define CREATE_UNICODE_ENVIRONMENT 0x400u
#define CREATE_NEW_PROCESS_GROUP 0x200u
#define DLL_PROCESS_DETACH 0u
#define DLL_PROCESS_ATTACH 1u
#define MODULE_FROM_ADDRESS_PINNED 5u
#define HEAP_ZERO 8u

typedef struct memory_information {
    void *base, *allocation_base;
    DWORD allocation_protection;
#if defined(_WIN64)
    uint16_t partition, unused;
#endif
    size_t bytes;
    DWORD state, protection, type;
} memory_information;

typedef struct startup_information {
    DWORD bytes;
    WCHAR_T *reserved, *desktop, *title;
    DWORD x, y, width, height, columns, rows, fill, flags;
    uint16_t show, reserved_bytes;
    uint8_t *reserved_data;
    HANDLE input, output, error;
} startup_information;

typedef struct process_information {
    HANDLE process, thread;
    DWORD process_id, thread_id;
} process_information;

IMPORT HANDLE WINAPI GetProcessHeap(void);
IMPORT void *WINAPI HeapAlloc(HANDLE heap, DWORD flags, size_t bytes);
IMPORT void *WINAPI HeapReAlloc(HANDLE heap, DWORD flags, void *memory, size_t bytes);
IMPORT BOOL WINAPI HeapFree(HANDLE heap, DWORD flags, void *memory);
IMPORT DWORD WINAPI GetLastError(void);
IMPORT void WINAPI AcquireSRWLockExclusive(void *lock);
IMPORT uint8_t WINAPI TryAcquireSRWLockExclusive(void *lock);
IMPORT void WINAPI ReleaseSRWLockExclusive(void *lock);
IMPORT BOOL WINAPI SwitchToThread(void);
IMPORT void WINAPI Sleep(DWORD milliseconds);
IMPORT BOOL WINAPI QueryPerformanceCounter(int64_t *count);
IMPORT BOOL WINAPI QueryPerformanceFrequency(int64_t *frequency);
IMPORT DWORD WINAPI GetCurrentProcessId(void);
IMPORT DWORD WINAPI GetCurrentThreadId(void);
IMPORT HANDLE WINAPI CreateThread(void *security, size_t stack, DWORD(WINAPI *function)(void *), void *argument, DWORD flags, DWORD *id);
IMPORT BOOL WINAPI CloseHandle(HANDLE handle);
IMPORT DWORD WINAPI FlsAlloc(void(WINAPI *callback)(void *));
IMPORT BOOL WINAPI FlsSetValue(DWORD index, void *value);
IMPORT HANDLE WINAPI CreateFileA(const char *name, DWORD access, DWORD share, void *security, DWORD disposition, DWORD flags, HANDLE pattern);
IMPORT HANDLE WINAPI CreateFileW(const WCHAR_T *name, DWORD access, DWORD share, void *security, DWORD disposition, DWORD flags, HANDLE pattern);
IMPORT BOOL WINAPI GetFileSizeEx(HANDLE file, int64_t *bytes);
IMPORT BOOL WINAPI ReadFile(HANDLE file, void *to, DWORD bytes, DWORD *done, void *overlapped);
IMPORT BOOL WINAPI WriteFile(HANDLE file, const void *from, DWORD bytes, DWORD *done, void *overlapped);
IMPORT HANDLE WINAPI GetStdHandle(DWORD which);
IMPORT HANDLE WINAPI CreateFileMappingW(HANDLE file, void *security, DWORD protection, DWORD size_high, DWORD size_low, const WCHAR_T *name);
IMPORT HANDLE WINAPI OpenFileMappingW(DWORD access, BOOL inherit, const WCHAR_T *name);
IMPORT void *WINAPI MapViewOfFileEx(HANDLE mapping, DWORD access, DWORD offset_high, DWORD offset_low, size_t bytes, void *address);
IMPORT BOOL WINAPI UnmapViewOfFile(const void *address);
IMPORT void *WINAPI VirtualAlloc(void *address, size_t bytes, DWORD type, DWORD protection);
IMPORT BOOL WINAPI VirtualFree(void *address, size_t bytes, DWORD type);
IMPORT size_t WINAPI VirtualQuery(const void *address, memory_information *information, size_t bytes);
IMPORT HANDLE WINAPI GetModuleHandleA(const char *name);
IMPORT BOOL WINAPI GetModuleHandleExA(DWORD flags, const char *name, HANDLE *module);
IMPORT HANDLE WINAPI LoadLibraryA(const char *name);
IMPORT void *WINAPI GetProcAddress(HANDLE module, const char *name);
IMPORT DWORD WINAPI GetEnvironmentVariableA(const char *name, char *to, DWORD bytes);
IMPORT DWORD WINAPI GetEnvironmentVariableW(const WCHAR_T *name, WCHAR_T *to, DWORD count);
IMPORT WCHAR_T *WINAPI GetEnvironmentStringsW(void);
IMPORT BOOL WINAPI FreeEnvironmentStringsW(WCHAR_T *strings);
IMPORT BOOL WINAPI CreateProcessW(const WCHAR_T *program, WCHAR_T *command, void *process_security, void *thread_security, BOOL inherit,
                                  DWORD flags, void *environment, const WCHAR_T *directory, startup_information *startup,
                                  process_information *started);

/* ws2_32 */
typedef uintptr_t SOCKET;
#define INVALID_SOCKET ((SOCKET)-1)
#define AF_INET 2
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define TCP_NODELAY 1
#define SOL_SOCKET 0xffff
#define SO_TYPE 0x1008
#define FIONBIO 0x8004667eu
#define WSAEWOULDBLOCK 10035

typedef struct socket_address {
    int16_t family;
    uint16_t port; /* most significant byte first, as the address */
    uint32_t address;
    uint8_t unused[8];
} socket_address;

typedef struct socket_set {
    uint32_t count;
    SOCKET sockets[64];
} socket_set;

typedef struct socket_time {
    int32_t seconds, microseconds; /* C's long, which is 32 bits on Windows */
} socket_time;

#endif
