/* Images: compiled kernels, read from a file and made executable. */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define IMAGE_HEADER_BYTES 48u /* magic, u64 bytes of metadata, SHA-256 (the device process has checked it) */

static image **images;
static uint32_t image_capacity;

/* C functions that generated code may name. Kept small on purpose: everything else is generated inline. */
static const struct {
    const char *name;
    void *address;
} imports[] = {
    {"memcpy", (void *)memcpy},
    {"memset", (void *)memset},
    {"memmove", (void *)memmove},
    {"memcmp", (void *)memcmp},
    {"fma", (void *)(double (*)(double, double, double))fma},
    {"fmaf", (void *)(float (*)(float, float, float))fmaf},
    {"fmod", (void *)(double (*)(double, double))fmod},
    {"fmodf", (void *)(float (*)(float, float))fmodf},
    {"sin", (void *)(double (*)(double))sin},
    {"sinf", (void *)(float (*)(float))sinf},
    {"cos", (void *)(double (*)(double))cos},
    {"cosf", (void *)(float (*)(float))cosf},
    {"tanhf", (void *)(float (*)(float))tanhf},
    {"exp2", (void *)(double (*)(double))exp2},
    {"exp2f", (void *)(float (*)(float))exp2f},
    {"exp", (void *)(double (*)(double))exp},
    {"expf", (void *)(float (*)(float))expf},
    {"log2", (void *)(double (*)(double))log2},
    {"log2f", (void *)(float (*)(float))log2f},
    {"log", (void *)(double (*)(double))log},
    {"logf", (void *)(float (*)(float))logf},
    {"pow", (void *)(double (*)(double, double))pow},
    {"powf", (void *)(float (*)(float, float))powf},
    {"floor", (void *)(double (*)(double))floor},
    {"floorf", (void *)(float (*)(float))floorf},
    {"ceil", (void *)(double (*)(double))ceil},
    {"ceilf", (void *)(float (*)(float))ceilf},
    {"trunc", (void *)(double (*)(double))trunc},
    {"truncf", (void *)(float (*)(float))truncf},
    {"rint", (void *)(double (*)(double))rint},
    {"rintf", (void *)(float (*)(float))rintf},
    {"nearbyint", (void *)(double (*)(double))nearbyint},
    {"nearbyintf", (void *)(float (*)(float))nearbyintf},
    {"round", (void *)(double (*)(double))round},
    {"roundf", (void *)(float (*)(float))roundf},
    {"sqrt", (void *)(double (*)(double))sqrt},
    {"sqrtf", (void *)(float (*)(float))sqrtf},
    {"ldexp", (void *)(double (*)(double, int))ldexp},
    {"ldexpf", (void *)(float (*)(float, int))ldexpf},
};

#if defined(__SIZEOF_INT128__)
/* Names that LLVM emits for 128-bit division and half conversions; the compiler's own library has them. */
extern __int128 __divti3(__int128, __int128);
extern __int128 __modti3(__int128, __int128);
extern unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
extern unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);
extern __int128 __multi3(__int128, __int128);

static void *find_wide_integer(const char *name)
{
    if (strcmp(name, "__divti3") == 0) {
        return (void *)__divti3;
    }
    if (strcmp(name, "__modti3") == 0) {
        return (void *)__modti3;
    }
    if (strcmp(name, "__udivti3") == 0) {
        return (void *)__udivti3;
    }
    if (strcmp(name, "__umodti3") == 0) {
        return (void *)__umodti3;
    }
    return NULL;
}
#endif

static void *find_import(const char *name)
{
    for (size_t i = 0; i < sizeof imports / sizeof *imports; i++) {
        if (strcmp(imports[i].name, name) == 0) {
            return imports[i].address;
        }
    }
    return find_wide_integer(name);
}

image *image_find(uint32_t index)
{
    return index < image_capacity ? images[index] : NULL;
}

uint32_t image_index_of(const image *searched)
{
    for (uint32_t index = 0; index < image_capacity; index++) {
        if (images[index] == searched) {
            return index;
        }
    }
    return UINT32_MAX;
}

/* PTX line of a blob offset: that of the last entry not behind it. */
uint32_t image_line(const image *of, uint64_t offset, uint64_t nearby)
{
    uint32_t line = 0;
    for (uint32_t i = 0; i < of->line_count && of->lines[i][0] <= offset; i++) {
        if (of->lines[i][1] != 0 || of->lines[i][0] + nearby <= offset) {
            line = of->lines[i][1];
        }
    }
    return line;
}

static _Noreturn void refuse(const char *path, const char *reason)
{
    char text[900];
    snprintf(text, sizeof text, "image %s: %s", path, reason);
    fault_raise(CUTTLE_FAULT_IMAGE_FAILED_TO_LOAD, 0, text);
}

static uint64_t number(const char *metadata, const char *key, const char *path)
{
    uint64_t value = 0;
    if (!json_unsigned(json_find(metadata, key), &value)) {
        char reason[128];
        snprintf(reason, sizeof reason, "metadata lack %s", key);
        refuse(path, reason);
    }
    return value;
}

/* The metadata's array of pairs of numbers under a key; NULL and 0 without one, or without memory for it. */
static uint32_t (*read_pairs(const char *metadata, const char *key, uint32_t *count))[2]
{
    const char *array = json_find(metadata, key);
    uint32_t capacity = 0;
    for (const char *pair = json_first(array); pair != NULL; pair = json_next(pair)) {
        capacity++;
    }
    uint32_t(*pairs)[2] = capacity != 0 ? calloc(capacity, sizeof *pairs) : NULL;
    *count = pairs != NULL ? capacity : 0;
    uint32_t at = 0;
    for (const char *pair = json_first(array); pair != NULL && at < *count; pair = json_next(pair)) {
        uint64_t first = 0;
        uint64_t second = 0;
        const char *element = json_first(pair);
        if (element != NULL && json_unsigned(element, &first) && (element = json_next(element)) != NULL) {
            json_unsigned(element, &second);
        }
        pairs[at][0] = (uint32_t)first;
        pairs[at++][1] = (uint32_t)second;
    }
    return pairs;
}

static void check_place(const image *loaded, uint64_t offset, uint64_t bytes, const char *path)
{
    if (offset > loaded->code_bytes || loaded->code_bytes - offset < bytes) {
        refuse(path, "an offset lies outside of the code");
    }
}

static void relocate(image *loaded, const char *metadata, const char *path)
{
    for (const char *one = json_first(json_find(metadata, "fixups")); one != NULL; one = json_next(one)) {
        uint64_t offset = UINT64_MAX;
        json_unsigned(one, &offset);
        check_place(loaded, offset, 8, path);
        uint64_t word;
        memcpy(&word, loaded->code + offset, 8);
        word += (uint64_t)(uintptr_t)loaded->code;
        memcpy(loaded->code + offset, &word, 8);
    }
    for (const char *one = json_first(json_find(metadata, "imports")); one != NULL; one = json_next(one)) {
        uint64_t offset = UINT64_MAX;
        char name[128] = "";
        const char *element = json_first(one);
        if (element != NULL && json_unsigned(element, &offset) && (element = json_next(element)) != NULL) {
            json_string(element, name, sizeof name);
        }
        check_place(loaded, offset, 8, path);
        uint64_t address = (uint64_t)(uintptr_t)find_import(name);
        if (address == 0) {
            char reason[192];
            snprintf(reason, sizeof reason, "the code calls %s, which the executor does not have", name);
            refuse(path, reason);
        }
        memcpy(loaded->code + offset, &address, 8);
    }
}

static void make_executable(image *loaded, const uint8_t *blob, const char *metadata, const char *path)
{
    size_t mapped = (loaded->code_bytes + PAGE - 1) / PAGE * PAGE;
    void *memory = mmap(NULL, mapped != 0 ? mapped : PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        refuse(path, "no memory for code");
    }
    loaded->code = memory;
    memcpy(loaded->code, blob, loaded->code_bytes);
    relocate(loaded, metadata, path);
    if (mprotect(memory, mapped, PROT_READ | PROT_EXEC) != 0) {
        refuse(path, strerror(errno));
    }
}

static image *read_image(const uint8_t *file, size_t bytes, const char *path)
{
    if (bytes < IMAGE_HEADER_BYTES || memcmp(file, CUTTLE_IMAGE_MAGIC, 8) != 0) {
        refuse(path, "not an image");
    }
    uint64_t length = 0;
    memcpy(&length, file + 8, 8);
    if (length > bytes - IMAGE_HEADER_BYTES) {
        refuse(path, "damaged metadata");
    }
    char *metadata = malloc(length + 1);
    image *loaded = calloc(1, sizeof *loaded);
    if (metadata == NULL || loaded == NULL) {
        refuse(path, "no memory");
    }
    memcpy(metadata, file + IMAGE_HEADER_BYTES, length);
    metadata[length] = '\0';
    loaded->code_bytes = number(metadata, "blob_bytes", path);
    uint64_t blob_at = (IMAGE_HEADER_BYTES + length + PAGE - 1) / PAGE * PAGE;
    if (blob_at > bytes || bytes - blob_at < loaded->code_bytes) {
        refuse(path, "file too short");
    }
    json_string(json_find(metadata, "name"), loaded->name, sizeof loaded->name);
    loaded->static_shared_bytes = (uint32_t)number(metadata, "static_shared_bytes", path);
    loaded->local_bytes = (uint32_t)number(metadata, "local_bytes", path);
    loaded->frame_bytes = (uint32_t)number(metadata, "frame_bytes", path);
    loaded->can_stop = json_true(json_find(metadata, "can_stop"));
    loaded->may_yield = json_true(json_find(metadata, "may_yield"));
    uint64_t blocks = number(metadata, "blocks", path);
    uint64_t step = 0;
    check_place(loaded, blocks, 1, path);
    bool has_step = json_unsigned(json_find(metadata, "step"), &step);
    if (has_step) {
        check_place(loaded, step, 1, path);
    }
    make_executable(loaded, file + blob_at, metadata, path);
    loaded->blocks = (blocks_function)(uintptr_t)(loaded->code + blocks);
    loaded->step = has_step ? (step_function)(uintptr_t)(loaded->code + step) : NULL;
    loaded->lines = read_pairs(metadata, "lines", &loaded->line_count);
    loaded->stops = read_pairs(metadata, "stops", &loaded->stop_count);
    free(metadata);
    return loaded;
}

void image_load(uint32_t index, const char *path, uint64_t symbols)
{
    if (index >= image_capacity) {
        uint32_t capacity = image_capacity * 2 > index + 64 ? image_capacity * 2 : index + 64;
        image **grown = realloc(images, capacity * sizeof *grown);
        if (grown == NULL) {
            refuse(path, "no memory");
        }
        memset(grown + image_capacity, 0, (capacity - image_capacity) * sizeof *grown);
        images = grown;
        image_capacity = capacity;
    }
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
        refuse(path, strerror(errno));
    }
    size_t bytes = (size_t)facts.st_size;
    uint8_t *file = bytes != 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    if (file == MAP_FAILED) {
        refuse(path, bytes != 0 ? strerror(errno) : "empty file");
    }
    close(descriptor);
    image_unload(index);
    images[index] = read_image(file, bytes, path);
    images[index]->symbols = symbols;
    munmap(file, bytes);
}

void image_unload(uint32_t index)
{
    image *old = image_find(index);
    if (old == NULL) {
        return;
    }
    images[index] = NULL;
    munmap(old->code, (old->code_bytes + PAGE - 1) / PAGE * PAGE);
    free(old->lines);
    free(old->stops);
    free(old);
}
