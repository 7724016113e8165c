/* cuGetExportTable: the tables that a CUDA runtime cannot do without (docs/legal.md names the source of
 * entries and signatures). Every other table is refused and logged: a made-up one makes programs go wrong silently. */
#include "client.h"
#include "context_local_storage.h"
#include "handshake.h"
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define SLOT(function) ((const void *)(uintptr_t)(function))
#define SIZE(slots) ((const void *)(sizeof(void *) * (slots)))

/* ------------------------------------------------------------------------------------------------ CUDART_INTERFACE */

static CUresult CUDAAPI runtime_module(CUmodule *module, const void *wrapper) { return cuModuleLoadData(module, wrapper); }

/* The handle only: the context stays as it is. */
static CUresult CUDAAPI runtime_primary_context(CUcontext *handle, CUdevice device) {
    ENTER_WITHOUT_CONTEXT();
    context *of = primary_context(device);
    if (of == NULL) return CUDA_ERROR_INVALID_DEVICE;
    *handle = (CUcontext)of;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI runtime_module_variables(CUmodule *module, const void *wrapper, void *names, void *values, unsigned count) {
    (void)names;
    (void)values;
    return count == 0 ? cuModuleLoadData(module, wrapper) : CUDA_ERROR_NOT_SUPPORTED;
}

static void CUDAAPI runtime_nothing(size_t argument) { (void)argument; }

static CUresult CUDAAPI runtime_fat_binary(const void *header, CUmodule *module, void *names, void *values, unsigned count) {
    (void)names;
    (void)values;
    return count == 0 ? cuModuleLoadData(module, header) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult CUDAAPI runtime_load_compilers(void) { return CUDA_SUCCESS; }

static const void *const runtime_table[13] = {
    [0] = SIZE(13),
    [1] = SLOT(runtime_module),
    [2] = SLOT(runtime_primary_context),
    [6] = SLOT(runtime_module_variables),
    [7] = SLOT(runtime_nothing),
    [8] = SLOT(runtime_fat_binary),
    [12] = SLOT(runtime_load_compilers),
};

/* ------------------------------------------------------------------------------------------------ hooks, checks */

/* Words that tell a runtime which of its calls a tool wants to hear of: none, for ever. */
static uint32_t hook_words[4096], hook_flags[64];

static void CUDAAPI hooks_first(void **buffer, size_t *count) {
    *buffer = hook_words;
    *count = 1024;
}

static void CUDAAPI hooks_second(void **buffer, size_t *count) {
    *buffer = hook_flags;
    *count = 14;
}

static const void *const hooks_table[7] = {[0] = SIZE(7), [2] = SLOT(hooks_first), [6] = SLOT(hooks_second)};
static const void *const tls_table[4] = {[0] = SIZE(4)};
static const void *const storage_table[4] = {SLOT(context_storage_put), SLOT(context_storage_delete),
                                             SLOT(context_storage_get), NULL};

static CUresult CUDAAPI checks_context(CUcontext ctx, unsigned *result, const void **unused) {
    (void)ctx;
    (void)unused;
    if (result != NULL) *result = 0;
    return CUDA_SUCCESS;
}

static unsigned CUDAAPI checks_state(void) { return 0; }

static const void *const checks_table[4] = {[0] = SIZE(4), [2] = SLOT(checks_context), [3] = SLOT(checks_state)};

/* Appeared with the runtime of 13.5, which fetches it and calls nothing. */
static CUresult CUDAAPI newer_entry(void) { return CUDA_ERROR_NOT_SUPPORTED; }
static const void *const newer_table[16] = {
    SIZE(16),          SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry),
    SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry),
    SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry), SLOT(newer_entry)};

#define SERVES_32_BIT_TABLES (UINTPTR_MAX == 0xffffffff) /* on 64 bits programs go on without them */
#if SERVES_32_BIT_TABLES

/* ------------------------------------------------------------------------------------------------ CTX_CREATE_BYPASS */

static CUresult CUDAAPI bypass_context_create(CUcontext *pctx, unsigned flags, CUdevice dev) { return cuCtxCreate_v2(pctx, flags, dev); }
static const void *const bypass_table[2] = {SIZE(2), SLOT(bypass_context_create)};

/* ------------------------------------------------------------------------------------------------ HEAP_ACCESS */

/* A record on the host that remembers two numbers; 32-bit PhysX makes and frees them. */
typedef struct heap_record {
    uint32_t tag;
    size_t first, second;
} heap_record;

#define HEAP_TAG 0x43744872u

static CUresult CUDAAPI heap_alloc(heap_record **made, size_t first, size_t second) {
    if (made == NULL) return CUDA_ERROR_INVALID_VALUE;
    *made = malloc(sizeof **made);
    if (*made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    **made = (heap_record){HEAP_TAG, first, second};
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI heap_free(heap_record *record, size_t *second) {
    if (!has_tag(record, HEAP_TAG)) return CUDA_ERROR_INVALID_VALUE;
    if (second != NULL) *second = record->second;
    record->tag = TAG_DEAD;
    free(record);
    return CUDA_SUCCESS;
}

static const void *const heap_table[3] = {SIZE(3), SLOT(heap_alloc), SLOT(heap_free)};

#endif

/* ------------------------------------------------------------------------------------------------ INTEGRITY_CHECK */

static CUresult CUDAAPI integrity_check(unsigned version, uint64_t unix_seconds, uint64_t result[2]);
static const void *const integrity_table[3] = {[0] = SIZE(3), [1] = SLOT(integrity_check)};

static CUresult CUDAAPI integrity_check(unsigned version, uint64_t unix_seconds, uint64_t result[2]) {
    TRY(client_connect());
    handshake_device device = {.pci_domain = (uint32_t)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
                               .pci_bus = (uint32_t)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                               .pci_device = (uint32_t)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]};
    memcpy(device.uuid, client.control->uuid, sizeof device.uuid);
    handshake_input input = {
        .driver_version = (uint32_t)driver_version(),
        .asked_version = version,
        .process = os_process_id(),
        .thread = os_thread_identity(),
        .runtime_table = (uint64_t)(uintptr_t)runtime_table,
        .integrity_table = (uint64_t)(uintptr_t)integrity_table,
        .integrity_function = (uint64_t)(uintptr_t)integrity_check,
        .unix_seconds = unix_seconds,
        .device_count = client.control->device_count != 0 ? 1 : 0,
        .devices = &device,
    };
    if (handshake_answer(&input, result)) return CUDA_SUCCESS;
    static unsigned refused;
    if (__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED) == 0) {
        client_log("this driver library was built with CUTTLE_HANDSHAKE=0: no program with a CUDA runtime (libcudart) can use "
                   "it, only programs of the driver interface; hint: build Cuttle again without that switch");
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ------------------------------------------------------------------------------------------------ look-up */

typedef struct export_table {
    uint8_t id[16];
    const void *const *table;
} export_table;

static const export_table export_tables[] = {
    {{0x6B, 0xD5, 0xFB, 0x6C, 0x5B, 0xF4, 0xE7, 0x4A, 0x89, 0x87, 0xD9, 0x39, 0x12, 0xFD, 0x9D, 0xF9}, runtime_table},
    {{0x42, 0xD8, 0x5A, 0x81, 0x23, 0xF6, 0xCB, 0x47, 0x82, 0x98, 0xF6, 0xE7, 0x8A, 0x3A, 0xEC, 0xDC}, tls_table},
    {{0xA0, 0x94, 0x79, 0x8C, 0x2E, 0x74, 0x2E, 0x74, 0x93, 0xF2, 0x08, 0x00, 0x20, 0x0C, 0x0A, 0x66}, hooks_table},
    {{0xC6, 0x93, 0x33, 0x6E, 0x11, 0x21, 0xDF, 0x11, 0xA8, 0xC3, 0x68, 0xF3, 0x55, 0xD8, 0x95, 0x93}, storage_table},
    {{0xD4, 0x08, 0x20, 0x55, 0xBD, 0xE6, 0x70, 0x4B, 0x8D, 0x34, 0xBA, 0x12, 0x3C, 0x66, 0xE1, 0xF2}, integrity_table},
    {{0x26, 0x3E, 0x88, 0x60, 0x7C, 0xD2, 0x61, 0x43, 0x92, 0xF6, 0xBB, 0xD5, 0x00, 0x6D, 0xFA, 0x7E}, checks_table},
#if SERVES_32_BIT_TABLES
    {{0x0C, 0xA5, 0x0B, 0x8C, 0x10, 0x04, 0x92, 0x9A, 0x89, 0xA7, 0xD0, 0xDF, 0x10, 0xE7, 0x72, 0x86}, bypass_table},
    {{0x19, 0x5B, 0xCB, 0xF4, 0xD6, 0x7D, 0x02, 0x4A, 0xAC, 0xC5, 0x1D, 0x29, 0xCE, 0xA6, 0x31, 0xAE}, heap_table},
#endif
    {{0x21, 0x31, 0x8C, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8C, 0xA6, 0x41, 0xFF, 0x73, 0x24, 0xC8, 0xF2}, newer_table},
};

static void log_refusal(const uint8_t *id) {
    const char *value = getenv("CUTTLE_TRACE");
    if (value == NULL || value[0] == 0 || strcmp(value, "0") == 0) return;
    char text[40], *to = text;
    for (int i = 0; i < 16; i++) to += sprintf(to, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02X" : "%02X", id[i]);
    client_log("cuGetExportTable: refused table %s", text);
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    if (ppExportTable == NULL || pExportTableId == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof export_tables / sizeof export_tables[0]; i++) {
        if (memcmp(export_tables[i].id, pExportTableId->bytes, 16) == 0) {
            *ppExportTable = export_tables[i].table;
            return CUDA_SUCCESS;
        }
    }
    *ppExportTable = NULL;
    log_refusal((const uint8_t *)pExportTableId->bytes);
    return CUDA_ERROR_INVALID_VALUE;
}
