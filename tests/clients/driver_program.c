/* A program of the driver interface for Windows (x86-64, i386) and 32-bit Linux, which brings its own declarations and, on
 * Windows, no C runtime. It loads the driver library as such programs do, and prints one line per check: `ok NAME` or `wrong NAME`.
 * Arguments pick the checks; none: all but those that end badly. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define CALL __stdcall
#define IMPORT __declspec(dllimport)
IMPORT void *CALL LoadLibraryA(const char *name);
IMPORT void *CALL GetProcAddress(void *library, const char *name);
IMPORT int CALL WriteFile(void *file, const void *from, uint32_t bytes, uint32_t *done, void *overlapped);
IMPORT void *CALL GetStdHandle(uint32_t which);
IMPORT void CALL ExitProcess(uint32_t code);
IMPORT void *CALL CreateThread(void *security, size_t stack, uint32_t(CALL *function)(void *), void *argument, uint32_t flags, uint32_t *id);
IMPORT uint32_t CALL WaitForSingleObject(void *handle, uint32_t milliseconds);
IMPORT char *CALL GetCommandLineA(void);
IMPORT void CALL Sleep(uint32_t milliseconds);
static void write_out(const char *text, size_t count) {
    uint32_t done;
    WriteFile(GetStdHandle((uint32_t)-11), text, (uint32_t)count, &done, 0);
}
static void end(int code) { ExitProcess((uint32_t)code); }
static void nap(void) { Sleep(1); }
#else
#define CALL
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static void write_out(const char *text, size_t count) {
    if (write(1, text, count) < 0) _exit(9);
}
static void end(int code) { exit(code); }
static void nap(void) { usleep(1000); }
#endif

typedef uintptr_t address; /* CUdeviceptr: as wide as the program's pointers */
typedef int (CALL *any_function)();

static void *library;
static int failures;

static size_t length(const char *text) {
    size_t count = 0;
    while (((const volatile char *)text)[count] != 0) count++;
    return count;
}

static bool same(const char *one, const char *other) {
    while (*one != 0 && *one == *other) one++, other++;
    return *one == *other;
}

static void say(const char *text) { write_out(text, length(text)); }

static void say_number(long long value) {
    char digits[24];
    int at = 24;
    unsigned long long left = value < 0 ? 0ull - (unsigned long long)value : (unsigned long long)value;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + (uint32_t)left % 10);
        left = (uint32_t)left / 10;
    } while (left != 0);
    if (value < 0) digits[--at] = '-';
    write_out(digits + at, (size_t)(24 - at));
}

static void check(bool right, const char *name) {
    say(right ? "ok " : "wrong ");
    say(name);
    say("\n");
    failures += !right;
}

static void *find(const char *name) {
#if defined(_WIN32)
    void *function = GetProcAddress(library, name);
#else
    void *function = dlsym(library, name);
#endif
    if (function == NULL) {
        say("missing ");
        say(name);
        say("\n");
        end(3);
    }
    return function;
}

/* C's call with the arguments as they are: each of the caller's types must be the parameter's. */
#define DRIVER(name, types, ...) (((int(CALL *) types)find(#name))(__VA_ARGS__))

static void must(int result, const char *what) {
    if (result == 0) return;
    say("failed ");
    say(what);
    say(" ");
    say_number(result);
    end(2);
}
#define MUST(name, types, ...) must(DRIVER(name, types, __VA_ARGS__), #name)

#if UINTPTR_MAX == 0xffffffff
#define BITS "32"
#define WIDE_INDEX "mul.lo.u32 %p9, %r2, 4;\n"
#else
#define BITS "64"
#define WIDE_INDEX "mul.wide.u32 %p9, %r2, 4;\n"
#endif
#define P ".u" BITS " "

static const char ptx[] =
    ".version 4.0\n.target sm_30\n.address_size " BITS "\n"
    ".extern .func (.param .b32 r) vprintf (.param .b" BITS " f, .param .b" BITS " a);\n"
    ".global .align 4 .u32 scale[2] = {3, 5};\n"
    ".global .align 1 .b8 text[18] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 32, 115, 97, 121, 115, 32, 104, 105, 10};\n"
    ".global .align 1 .b8 format[10] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 0};\n"
    /* y[i] = x[i] * scale[0] + y[i] for i < n */
    ".visible .entry grow(.param " P "x, .param " P "y, .param .u32 n)\n{\n"
    ".reg .pred %q; .reg .b32 %r<9>; .reg .b" BITS " %p<10>;\n"
    "ld.param" P "%p1, [x];\nld.param" P "%p2, [y];\nld.param.u32 %r1, [n];\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\nmad.lo.u32 %r2, %r2, %r3, %r4;\n"
    "setp.ge.u32 %q, %r2, %r1;\n@%q bra OUT;\n"
    "cvta.to.global" P "%p1, %p1;\ncvta.to.global" P "%p2, %p2;\n" WIDE_INDEX "add" P "%p1, %p1, %p9;\nadd" P "%p2, %p2, %p9;\n"
    "ld.global.u32 %r5, [%p1];\nld.global.u32 %r6, [%p2];\nld.global.u32 %r7, [scale];\n"
    "mad.lo.u32 %r6, %r5, %r7, %r6;\nst.global.u32 [%p2], %r6;\nOUT: ret;\n}\n"
    /* turns a block's numbers around through shared memory, by generic addresses */
    ".visible .entry turn(.param " P "x)\n{\n"
    ".shared .align 4 .b8 pool[256]; .local .align 4 .b8 mine[8];\n"
    ".reg .b32 %r<9>; .reg .b" BITS " %p<10>;\n"
    "ld.param" P "%p1, [x];\nmov.u32 %r2, %tid.x;\n" WIDE_INDEX "add" P "%p2, %p1, %p9;\nld.u32 %r3, [%p2];\n"
    "mov" P "%p3, pool;\ncvta.shared" P "%p3, %p3;\nadd" P "%p3, %p3, %p9;\nst.u32 [%p3], %r3;\nbar.sync 0;\n"
    "mov.u32 %r4, %ntid.x;\nsub.u32 %r2, %r4, %r2;\nsub.u32 %r2, %r2, 1;\n" WIDE_INDEX
    "mov" P "%p4, pool;\ncvta.shared" P "%p4, %p4;\nadd" P "%p4, %p4, %p9;\nld.u32 %r5, [%p4];\n"
    "mov" P "%p5, mine;\ncvta.local" P "%p5, %p5;\nst.u32 [%p5+4], %r5;\nld.u32 %r6, [%p5+4];\nst.u32 [%p2], %r6;\nret;\n}\n"
    ".visible .entry speak()\n{\n"
    ".local .align 8 .b8 frame[8]; .reg .b32 %r<4>; .reg .b" BITS " %p<4>;\n"
    "mov.u32 %r1, %tid.x;\nst.local.u32 [frame], %r1;\nmov" P "%p1, frame;\ncvta.local" P "%p1, %p1;\n"
    "mov" P "%p2, format;\ncvta.global" P "%p2, %p2;\n"
    "{ .param .b" BITS " f; .param .b" BITS " a; .param .b32 r;\n st.param.b" BITS " [f], %p2; st.param.b" BITS " [a], %p1;\n"
    " call.uni (r), vprintf, (f, a); }\nret;\n}\n"
    ".visible .entry wild(.param " P "x)\n{\n.reg .b" BITS " %p<2>; .reg .b32 %r<2>;\n"
    "ld.param" P "%p1, [x];\nmov.u32 %r1, 1;\nst.global.u32 [%p1], %r1;\nret;\n}\n";

static void *module, *context;

static void *kernel(const char *name) {
    void *function;
    MUST(cuModuleGetFunction, (void **, void *, const char *), &function, module, name);
    return function;
}

static int launch(void *function, unsigned blocks, unsigned threads, void *stream, void **parameters, void **extra) {
    return DRIVER(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
                  function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, extra);
}

static address memory(size_t bytes) {
    address made;
    MUST(cuMemAlloc_v2, (address *, size_t), &made, bytes);
    return made;
}

#define COUNT 1000
static uint32_t numbers[COUNT], results[COUNT];

static void check_launches(void) {
    address x = memory(sizeof numbers), y = memory(sizeof numbers);
    uint32_t n = COUNT;
    void *parameters[] = {&x, &y, &n}, *grow = kernel("grow");
    bool right = true;
    for (uint32_t i = 0; i < COUNT; i++) numbers[i] = i * i;
    MUST(cuMemcpyHtoD_v2, (address, const void *, size_t), x, numbers, sizeof numbers);
    MUST(cuMemsetD32_v2, (address, unsigned, size_t), y, 7, COUNT);
    for (int i = 0; i < 2000; i++) must(launch(grow, 8, 128, NULL, parameters, NULL), "cuLaunchKernel");
    MUST(cuCtxSynchronize, (void));
    MUST(cuMemcpyDtoH_v2, (void *, address, size_t), results, y, sizeof results);
    for (uint32_t i = 0; i < COUNT; i++) right = right && results[i] == 7 + 2000 * 3 * i * i;
    check(right, "2000 launches");
    address variable;
    size_t bytes = 0;
    uint32_t scale = 11;
    MUST(cuModuleGetGlobal_v2, (address *, size_t *, void *, const char *), &variable, &bytes, module, "scale");
    MUST(cuMemcpyHtoD_v2, (address, const void *, size_t), variable, &scale, 4);
    /* one buffer with all parameters */
    struct {
        address x, y;
        uint32_t n;
    } packed = {x, y, n};
    size_t packed_bytes = 2 * sizeof(address) + 4;
    void *extra[] = {(void *)1, &packed, (void *)2, &packed_bytes, NULL};
    must(launch(grow, 8, 128, NULL, NULL, extra), "cuLaunchKernel");
    MUST(cuMemcpyDtoH_v2, (void *, address, size_t), results, y, sizeof results);
    for (uint32_t i = 0; i < COUNT; i++) right = right && results[i] == 7 + 2000 * 3 * i * i + 11 * i * i;
    check(right && bytes == 8, "module variable, packed parameters");
    /* the launch interface of CUDA 2 */
    MUST(cuFuncSetBlockShape, (void *, int, int, int), grow, 125, 1, 1);
    MUST(cuParamSetv, (void *, int, void *, unsigned), grow, 0, &packed, 2 * sizeof(address));
    MUST(cuParamSeti, (void *, int, unsigned), grow, 2 * sizeof(address), n);
    MUST(cuParamSetSize, (void *, unsigned), grow, 2 * sizeof(address) + 4);
    for (int i = 0; i < 2; i++) MUST(cuLaunchGrid, (void *, int, int), grow, 8, 1);
    MUST(cuMemcpyDtoH_v2, (void *, address, size_t), results, y, sizeof results);
    for (uint32_t i = 0; i < COUNT; i++) right = right && results[i] == 7 + 2000 * 3 * i * i + 33 * i * i;
    check(right, "launches as in CUDA 2");
    MUST(cuMemFree_v2, (address), x);
    MUST(cuMemFree_v2, (address), y);
}

static void check_shared(void) {
    address x = memory(256);
    void *parameters[] = {&x};
    bool right = true;
    MUST(cuMemcpyHtoD_v2, (address, const void *, size_t), x, numbers, 256);
    must(launch(kernel("turn"), 1, 64, NULL, parameters, NULL), "cuLaunchKernel");
    MUST(cuMemcpyDtoH_v2, (void *, address, size_t), results, x, 256);
    for (int i = 0; i < 64; i++) right = right && results[i] == numbers[63 - i];
    check(right, "generic addresses of shared and local memory");
    MUST(cuMemFree_v2, (address), x);
}

/* CUDA_MEMCPY2D in the program's own layout. */
typedef struct copy_2d {
    size_t source_x, source_y;
    int source_kind;
    const void *source_host;
    address source;
    void *source_array;
    size_t source_pitch;
    size_t x, y;
    int kind;
    void *host;
    address device;
    void *array;
    size_t pitch;
    size_t width, height;
} copy_2d;

static void check_memory(void) {
    size_t free_bytes = 0, all = 0, pitch = 0;
    uint32_t *pinned;
    address there, pitched;
    bool right = true;
    MUST(cuMemGetInfo_v2, (size_t *, size_t *), &free_bytes, &all);
    MUST(cuMemHostAlloc, (void **, size_t, unsigned), (void **)&pinned, 4096, 2);
    MUST(cuMemHostGetDevicePointer_v2, (address *, void *, unsigned), &there, pinned, 0);
    MUST(cuMemsetD32_v2, (address, unsigned, size_t), there, 0x01020304, 1024);
    MUST(cuCtxSynchronize, (void));
    for (int i = 0; i < 1024; i++) right = right && pinned[i] == 0x01020304;
    check(right && free_bytes <= all && all >= 16 << 20, "pinned memory");
    MUST(cuMemAllocPitch_v2, (address *, size_t *, size_t, size_t, unsigned), &pitched, &pitch, 40, 25, 4);
    copy_2d up = {.source_kind = 1, .source_host = numbers, .source_pitch = 40, .kind = 2, .device = pitched, .pitch = pitch, .width = 40, .height = 25};
    copy_2d down = {.source_kind = 2, .source = pitched, .source_pitch = pitch, .kind = 1, .host = results, .pitch = 40, .width = 40, .height = 25};
    for (int i = 0; i < 250; i++) results[i] = 0;
    MUST(cuMemcpy2D_v2, (const copy_2d *), &up);
    MUST(cuMemcpy2D_v2, (const copy_2d *), &down);
    for (int i = 0; i < 250; i++) right = right && results[i] == numbers[i];
    check(right && pitch >= 40, "copies with a pitch");
    MUST(cuMemFreeHost, (void *), pinned);
    MUST(cuMemFree_v2, (address), pitched);
}

static volatile int called;
static void CALL host_function(void *data) { called += *(int *)data; }
static void CALL stream_function(void *stream, int status, void *data) { called += stream != NULL && status == 0 ? *(int *)data : 1000; }

static void check_streams(void) {
    void *stream, *event;
    int three = 3, four = 4, result;
    float milliseconds = -1;
    void *before;
    MUST(cuStreamCreate, (void **, unsigned), &stream, 0);
    MUST(cuEventCreate, (void **, unsigned), &before, 0);
    MUST(cuEventCreate, (void **, unsigned), &event, 0);
    MUST(cuEventRecord, (void *, void *), before, stream);
    MUST(cuLaunchHostFunc, (void *, void(CALL *)(void *), void *), stream, host_function, &three);
    MUST(cuStreamAddCallback, (void *, void(CALL *)(void *, int, void *), void *, unsigned), stream, stream_function, &four, 0);
    MUST(cuEventRecord, (void *, void *), event, stream);
    while ((result = DRIVER(cuEventQuery, (void *), event)) == 600) nap();
    must(result, "cuEventQuery");
    MUST(cuEventElapsedTime, (float *, void *, void *), &milliseconds, before, event);
    check(called == 7 && milliseconds >= 0, "events and host functions");
    MUST(cuStreamDestroy_v2, (void *), stream);
    check(DRIVER(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
                 &three, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0,
          "a handle of the wrong kind");
}

static void check_printf(void) {
    must(launch(kernel("speak"), 1, 2, NULL, NULL, NULL), "cuLaunchKernel");
    MUST(cuCtxSynchronize, (void));
    say("\n");
}

static volatile int thread_result = -1;
#if defined(_WIN32)
static uint32_t CALL other_thread(void *unused) {
#else
static void *other_thread(void *unused) {
#endif
    void *current = &thread_result;
    (void)unused;
    must(DRIVER(cuCtxGetCurrent, (void **), &current), "cuCtxGetCurrent");
    if (current == NULL) thread_result = DRIVER(cuCtxSetCurrent, (void *), context) + (int)(memory(64) == 0);
    return 0;
}

static void check_threads(void) {
    for (int i = 0; i < 20; i++) {
        thread_result = -1;
#if defined(_WIN32)
        WaitForSingleObject(CreateThread(NULL, 0, other_thread, NULL, 0, NULL), 0xffffffff);
#else
        pthread_t thread;
        if (pthread_create(&thread, NULL, other_thread, NULL) == 0) pthread_join(thread, NULL);
#endif
        if (thread_result != 0) break;
    }
    check(thread_result == 0, "threads have contexts of their own");
}

static void check_look_ups(void) {
    void *found = NULL;
    const void *const *table = NULL;
    int status = -1;
    MUST(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *), "cuMemAlloc", &found, 12000, 0, &status);
    check(found == find("cuMemAlloc_v2") && status == 0, "cuGetProcAddress");
    static const uint8_t heap[16] = {0x19, 0x5B, 0xCB, 0xF4, 0xD6, 0x7D, 0x02, 0x4A, 0xAC, 0xC5, 0x1D, 0x29, 0xCE, 0xA6, 0x31, 0xAE};
    static const uint8_t bypass[16] = {0x0C, 0xA5, 0x0B, 0x8C, 0x10, 0x04, 0x92, 0x9A, 0x89, 0xA7, 0xD0, 0xDF, 0x10, 0xE7, 0x72, 0x86};
    int result = DRIVER(cuGetExportTable, (const void *const **, const void *), &table, heap);
#if UINTPTR_MAX == 0xffffffff
    void *record = NULL;
    size_t second = 0;
    must(result, "cuGetExportTable");
    bool right = (size_t)table[0] == 12 && ((int(CALL *)(void **, size_t, size_t))table[1])(&record, 5, 9) == 0 && record != NULL;
    right = right && ((int(CALL *)(void *, size_t *))table[2])(record, &second) == 0 && second == 9;
    check(right && ((int(CALL *)(void *, size_t *))table[2])(&status, NULL) == 1, "heap table");
    void *made = NULL, *popped = NULL;
    MUST(cuGetExportTable, (const void *const **, const void *), &table, bypass);
    right = (size_t)table[0] == 8 && ((int(CALL *)(void **, unsigned, int))table[1])(&made, 0, 0) == 0;
    MUST(cuCtxPopCurrent_v2, (void **), &popped);
    check(right && made == popped && made != NULL, "context table");
    MUST(cuCtxDestroy_v2, (void *), made);
#else
    check(result == 1 && DRIVER(cuGetExportTable, (const void *const **, const void *), &table, bypass) == 1, "tables of 32-bit programs");
#endif
    /* the stack must be right after a function that is not there: it takes its parameters off */
    for (int i = 0; i < 1000; i++) result = DRIVER(cuTensorMapReplaceAddress, (void *, void *), &status, &status);
    check(result == 801, "functions that are not there");
}

/* Takes the context down: on its own, and last. */
static void check_fault(void) {
    address nowhere = 64;
    void *parameters[] = {&nowhere};
    must(launch(kernel("wild"), 1, 1, NULL, parameters, NULL), "cuLaunchKernel");
    check(DRIVER(cuCtxSynchronize, (void)) == 700 && DRIVER(cuCtxSynchronize, (void)) == 700, "a wild store");
}

static void run(const char *only) {
    static const struct {
        const char *name;
        void (*function)(void);
    } checks[] = {{"launches", check_launches}, {"shared", check_shared},   {"memory", check_memory},     {"streams", check_streams},
                  {"printf", check_printf},     {"threads", check_threads}, {"look_ups", check_look_ups}, {"fault", check_fault}};
    int version = 0, count = 0, device;
    must(DRIVER(cuInit, (unsigned), 0), "cuInit");
    MUST(cuDriverGetVersion, (int *), &version);
    MUST(cuDeviceGetCount, (int *), &count);
    MUST(cuDeviceGet, (int *, int), &device, 0);
    MUST(cuCtxCreate_v2, (void **, unsigned, int), &context, 0, device);
    MUST(cuModuleLoadData, (void **, const void *), &module, ptx);
    check(version >= 2000 && count == 1, "start");
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        if (only != NULL ? same(only, checks[i].name) : checks[i].function != check_fault) checks[i].function();
    }
    if (only == NULL) MUST(cuCtxDestroy_v2, (void *), context);
    say(failures == 0 ? "all right\n" : "not right\n");
    end(failures != 0);
}

#if defined(_WIN32)
void *memset(void *to, int value, size_t count) {
    for (size_t i = 0; i < count; i++) ((volatile uint8_t *)to)[i] = (uint8_t)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

/* The last word of the command line, if there is more than one. */
static const char *argument(void) {
    const char *line = GetCommandLineA(), *last = NULL;
    for (const char *at = line; *at != 0; at++) {
        if (*at == ' ' && at[1] != 0 && at[1] != ' ') last = at + 1;
    }
    return last != NULL && last[0] != '"' && length(last) < 12 ? last : NULL;
}

void mainCRTStartup(void) {
    if (argument() != NULL && same(argument(), "echo")) {
        say(GetCommandLineA());
        say("\n");
        end(37);
    }
    library = LoadLibraryA("nvcuda.dll");
    if (library == NULL) {
        say("no nvcuda.dll\n");
        end(4);
    }
    run(argument());
}
#else
/* Takes addresses all over the place, as large old programs do: no free range is larger than 176 MiB. */
static void crowd(void) {
    for (uintptr_t at = 0x10000000; at < 0x80000000; at += 192 << 20) {
        mmap((void *)at, 16 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    }
}

int main(int count, char **arguments) {
    if (count > 1 && same(arguments[1], "crowded")) {
        crowd();
        count = 1;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        say(dlerror());
        end(4);
    }
    run(count > 1 ? arguments[1] : NULL);
}
#endif
