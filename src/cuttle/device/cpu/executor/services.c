/* What device code can ask of its host. Each is called once per active lane. */
#define _GNU_SOURCE
#include "executor.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const cuttle_launch *launch_of(const cuttle_block *block)
{
    return (const cuttle_launch *)(uintptr_t)block->launch;
}

void thread_position(const cuttle_block *block, uint64_t thread, uint32_t position[3])
{
    const uint32_t *size = launch_of(block)->block;
    position[0] = (uint32_t)(thread % size[0]);
    position[1] = (uint32_t)(thread / size[0] % size[1]);
    position[2] = (uint32_t)(thread / size[0] / size[1]);
}

static uint64_t service_trap(cuttle_block *block, uint32_t thread, uint64_t kind, uint64_t line, uint64_t c, uint64_t d)
{
    (void)block;
    char misaligned[96];
    if (kind == CUTTLE_FAULT_MISALIGNED_ADDRESS && d != 0) {
        snprintf(misaligned, sizeof misaligned, "address %#llx is not a multiple of %llu, as this access needs",
                 (unsigned long long)c, (unsigned long long)d);
        fault_raise_at((uint32_t)kind, thread, (uint32_t)line, misaligned);
    }
    const char *text = kind == 0 || kind == CUTTLE_FAULT_TRAP ? "the kernel ended itself" : cuttle_fault_name((uint32_t)kind);
    fault_raise_at(kind != 0 ? (uint32_t)kind : CUTTLE_FAULT_TRAP, thread, (uint32_t)line, text);
}

static uint64_t service_vprintf(cuttle_block *block, uint32_t thread, uint64_t format, uint64_t arguments, uint64_t c,
                                uint64_t d)
{
    (void)block, (void)thread, (void)c, (void)d;
    char text[16384];
    size_t length = 0;
    if (format == 0) {
        return (uint64_t)-1;
    }
    int32_t count = text_format((const char *)(uintptr_t)format, (const uint8_t *)(uintptr_t)arguments, text,
                                sizeof text, &length);
    text_write(TEXT_STDOUT, text, length);
    return (uint64_t)(int64_t)count;
}

static uint64_t service_assertfail(cuttle_block *block, uint32_t thread, uint64_t message, uint64_t file, uint64_t line,
                                   uint64_t function)
{
    uint32_t at[3];
    thread_position(block, thread, at);
    char text[4096];
    int length = snprintf(text, sizeof text,
                          "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                          (const char *)(uintptr_t)file, (uint32_t)line, (const char *)(uintptr_t)function,
                          block->ctaid[0], block->ctaid[1], block->ctaid[2], at[0], at[1], at[2],
                          (const char *)(uintptr_t)message);
    text_write(TEXT_STDERR, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    fault_raise(CUTTLE_FAULT_ASSERT, thread, "a device assertion failed");
}

static uint64_t service_malloc(cuttle_block *block, uint32_t thread, uint64_t bytes, uint64_t b, uint64_t c, uint64_t d)
{
    (void)block, (void)thread, (void)b, (void)c, (void)d;
    return heap_allocate(bytes);
}

static uint64_t service_free(cuttle_block *block, uint32_t thread, uint64_t address, uint64_t b, uint64_t c, uint64_t d)
{
    (void)block, (void)thread, (void)b, (void)c, (void)d;
    if (address != 0) {
        heap_free(address);
    }
    return 0;
}

static uint64_t service_globaltimer(cuttle_block *block, uint32_t thread, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    (void)block, (void)thread, (void)a, (void)b, (void)c, (void)d;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t service_nanosleep(cuttle_block *block, uint32_t thread, uint64_t nanoseconds, uint64_t b, uint64_t c,
                                  uint64_t d)
{
    (void)block, (void)thread, (void)b, (void)c, (void)d;
    /* A hint, asked by every lane: the lanes of a warp share the time, and only long waits are worth a system call. */
    if (nanoseconds >= 20000) {
        uint64_t share = nanoseconds / CUTTLE_WARP_LANES / 1000;
        usleep((useconds_t)(share < 30 ? share : 30));
    } else {
        cpu_relax();
    }
    return 0;
}

static uint64_t service_clock(cuttle_block *block, uint32_t thread, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    (void)block, (void)thread, (void)a, (void)b, (void)c, (void)d;
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#else
    return clock_ns();
#endif
}

static uint64_t table[CUTTLE_SERVICE_COUNT];

__attribute__((constructor)) static void fill_table(void)
{
    table[CUTTLE_SERVICE_TRAP] = (uint64_t)(uintptr_t)service_trap;
    table[CUTTLE_SERVICE_VPRINTF] = (uint64_t)(uintptr_t)service_vprintf;
    table[CUTTLE_SERVICE_ASSERTFAIL] = (uint64_t)(uintptr_t)service_assertfail;
    table[CUTTLE_SERVICE_MALLOC] = (uint64_t)(uintptr_t)service_malloc;
    table[CUTTLE_SERVICE_FREE] = (uint64_t)(uintptr_t)service_free;
    table[CUTTLE_SERVICE_GLOBALTIMER] = (uint64_t)(uintptr_t)service_globaltimer;
    table[CUTTLE_SERVICE_NANOSLEEP] = (uint64_t)(uintptr_t)service_nanosleep;
    table[CUTTLE_SERVICE_TEXTURE] = (uint64_t)(uintptr_t)service_texture;
    table[CUTTLE_SERVICE_CLOCK] = (uint64_t)(uintptr_t)service_clock;
}

const uint64_t *service_addresses(void)
{
    return table;
}
