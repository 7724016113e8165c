/* Memory pools and stream-ordered allocation. */
#include "allocations.h"
#include "memory.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_POOL 1

typedef struct pool {
    uint32_t tag;
    uint64_t id;
} pool;

static pool default_pool = {TAG_POOL, DEFAULT_POOL};
static pool *current_pool = &default_pool;

static CUresult pool_of(CUmemoryPool handle, pool **found) {
    if (!has_tag(handle, TAG_POOL)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (pool *)handle;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    ENTER_WITHOUT_CONTEXT();
    if (pool_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    *pool_out = (CUmemoryPool)&default_pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    ENTER_WITHOUT_CONTEXT();
    if (pool_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    *pool_out = (CUmemoryPool)LOAD(current_pool);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    TRY(pool_of(handle, &of));
    STORE(current_pool, of);
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type) {
    if (location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return cuDeviceGetDefaultMemPool(pool_out, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type) {
    if (location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return cuDeviceGetMemPool(pool_out, location->id);
}

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *poolProps) {
    uint64_t id;
    ENTER_WITHOUT_CONTEXT();
    if (handle == NULL || poolProps == NULL || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_unsafe());
    if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE && poolProps->location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    pool *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REQUEST(CUTTLE_REQUEST_POOL_CREATE, &id, 0, poolProps->maxSize);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *made = (pool){TAG_POOL, id};
    *handle = (CUmemoryPool)made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(pool_of(handle, &of));
    if (of == &default_pool) return CUDA_ERROR_INVALID_VALUE;
    if (LOAD(current_pool) == of) STORE(current_pool, &default_pool);
    of->tag = TAG_DEAD;
    return REQUEST(CUTTLE_REQUEST_POOL_DESTROY, NULL, of->id);
}

/* The first three attributes are ints, the others 64-bit numbers. */
static bool is_flag(CUmemPool_attribute attribute) {
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
    pool *of;
    uint64_t found = 0;
    ENTER_WITHOUT_CONTEXT();
    if (value == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(pool_of(handle, &of));
    TRY(REQUEST(CUTTLE_REQUEST_POOL_ATTRIBUTE_GET, &found, of->id, attr));
    if (is_flag(attr)) *(int *)value = (int)found;
    else *(cuuint64_t *)value = found;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    if (value == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(pool_of(handle, &of));
    uint64_t wanted = is_flag(attr) ? (uint64_t) * (int *)value : *(cuuint64_t *)value;
    return REQUEST(CUTTLE_REQUEST_POOL_ATTRIBUTE_SET, NULL, of->id, attr, wanted);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(pool_of(handle, &of));
    return REQUEST(CUTTLE_REQUEST_POOL_TRIM, NULL, of->id, minBytesToKeep);
}

/* The one device always has access, and nobody else is there. */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    if (flags == NULL || location == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(pool_of(memPool, &of));
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count) {
    pool *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(pool_of(handle, &of));
    for (size_t i = 0; i < count; i++) {
        if (map == NULL || (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && map[i].location.id != 0)) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ stream-ordered memory */

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle, CUstream hStream) {
    pool *of;
    stream *on;
    uint64_t address;
    ENTER_BY_HANDLE();
    if (dptr == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(pool_of(handle, &of));
    TRY(stream_resolve(hStream, &on));
    if (bytesize == 0) {
        *dptr = 0;
        return CUDA_SUCCESS;
    }
    if (on->capturing) {
        request call = {.values = {on->slot, bytesize, of->id}, .count = 3};
        CUresult result = request_send(&call, CUTTLE_REQUEST_CAPTURE_ALLOC);
        request_done(&call);
        if (result != CUDA_SUCCESS) return result;
        address = call.values[CUTTLE_REPLY_CAPTURE_ALLOC_ADDRESS];
    } else {
        TRY(capture_forbids_unsafe());
        TRY(REQUEST(CUTTLE_REQUEST_POOL_ALLOC, &address, of->id, bytesize, on->slot));
    }
    allocations_add(&(allocation){.base = address, .bytes = bytesize, .kind = ALLOCATION_POOL, .pool = (uint64_t)(uintptr_t)of,
                                  .of_graph = on->capturing});
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    return cuMemAllocFromPoolAsync(dptr, bytesize, (CUmemoryPool)LOAD(current_pool), hStream);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    stream *on;
    allocation found;
    cuttle_record_free_async *record;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &on));
    if (dptr == 0) return CUDA_SUCCESS;
    if (!allocations_find(dptr, &found) || found.base != dptr) return CUDA_ERROR_INVALID_VALUE;
    if (found.kind != ALLOCATION_POOL && found.kind != ALLOCATION_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (found.of_graph && !on->capturing) return REQUEST(CUTTLE_REQUEST_GRAPH_MEMORY_FREE, NULL, dptr);
    TRY(emit_begin(on, CUTTLE_RECORD_FREE_ASYNC, sizeof *record, (void **)&record));
    record->address = dptr;
    bool in_graph = on->capturing; /* the address stays the graph's */
    TRY(emit_commit(on, record, CU_GRAPH_NODE_TYPE_MEM_FREE));
    if (!in_graph) allocations_remove(dptr, NULL);
    return CUDA_SUCCESS;
}
