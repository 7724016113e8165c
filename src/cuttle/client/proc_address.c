/* cuGetProcAddress: the newest prototype of a name that is not newer than the asked version. Functions that are not
 * there yet are not found, so that programs take their other way. */
#include "client.h"

#include <string.h>

typedef struct proc_address_row {
    const char *base;
    int version;
    int per_thread;
    void (*address)(void);
} proc_address_row;

#include "proc_address_table.h"

#define ROWS (sizeof proc_address_rows / sizeof proc_address_rows[0])

/* First row of a name: rows are sorted by name, per-thread variants first, newest first. */
static const proc_address_row *find_name(const char *name) {
    size_t low = 0, high = ROWS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(proc_address_rows[middle].base, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low < ROWS && strcmp(proc_address_rows[low].base, name) == 0 ? &proc_address_rows[low] : NULL;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus) {
    CUdriverProcAddressQueryResult ignored, *status = symbolStatus != NULL ? symbolStatus : &ignored;
    if (symbol == NULL || pfn == NULL || (flags & ~3ull) != 0 || flags == 3) return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const proc_address_row *row = find_name(symbol);
    if (row == NULL) return CUDA_ERROR_NOT_FOUND;
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    for (; row < proc_address_rows + ROWS && strcmp(row->base, symbol) == 0; row++) {
        if (row->version > cudaVersion || (row->per_thread && !per_thread)) continue;
        if (row->address == NULL) {
            *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
            break;
        }
        memcpy(pfn, &row->address, sizeof *pfn);
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL);
}
