/* Allocation, host memory, and questions about pointers. */
#include "memory.h"

#include "request.h"

#include <string.h>

#define PAGE 4096ull
#define PITCH_ALIGNMENT 512u

static CUresult allocate(uint64_t bytes, uint32_t kind, unsigned flags, uint64_t *address) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_unsafe());
    TRY(REQUEST(CUTTLE_REQUEST_MEM_ALLOC, address, bytes, kind, flags, 0));
    allocations_add(&(allocation){.base = *address, .bytes = bytes, .kind = kind, .flags = flags});
    return CUDA_SUCCESS;
}

/* Freeing waits for the work that may still use the memory. */
static CUresult release(uint64_t address, bool (*is_kind)(uint32_t)) {
    allocation found;
    if (!allocations_find(address, &found) || found.base != address || !is_kind(found.kind)) return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_unsafe());
    TRY(wait_all());
    if (found.of_graph) return REQUEST(CUTTLE_REQUEST_GRAPH_MEMORY_FREE, NULL, address);
    allocations_remove(address, NULL);
    return REQUEST(CUTTLE_REQUEST_MEM_FREE, NULL, address);
}

static bool is_device_kind(uint32_t kind) {
    return kind == ALLOCATION_DEVICE || kind == ALLOCATION_MANAGED || kind == ALLOCATION_POOL;
}
static bool is_pinned_kind(uint32_t kind) { return kind == ALLOCATION_PINNED; }

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    uint64_t address;
    ENTER();
    if (dptr == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(allocate(bytesize, ALLOCATION_DEVICE, 0, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes) {
    uint64_t address, pitch = (WidthInBytes + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
    ENTER();
    if (dptr == NULL || pPitch == NULL || WidthInBytes == 0 || Height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) return CUDA_ERROR_INVALID_VALUE;
    TRY(allocate(pitch * Height, ALLOCATION_DEVICE, 0, &address));
    *dptr = address;
    *pPitch = pitch;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags) {
    uint64_t address;
    ENTER();
    if (dptr == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
    TRY(allocate(bytesize, ALLOCATION_MANAGED, flags, &address));
    *dptr = address;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    ENTER_BY_HANDLE();
    if (dptr == 0) return CUDA_SUCCESS;
    return release(dptr, is_device_kind);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    request call = {0};
    ENTER();
    TRY(request_send(&call, CUTTLE_REQUEST_MEM_INFO));
    if (free_bytes != NULL) *free_bytes = call.values[CUTTLE_REPLY_MEM_INFO_FREE];
    if (total != NULL) *total = call.values[CUTTLE_REPLY_MEM_INFO_TOTAL];
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    allocation found;
    ENTER();
    if (!allocations_find(dptr, &found)) return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL) *pbase = found.base;
    if (psize != NULL) *psize = found.bytes;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ host memory */

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags) {
    uint64_t address;
    ENTER();
    if (pp == NULL || (Flags & ~7u) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(allocate(bytesize, ALLOCATION_PINNED, Flags, &address));
    *pp = (void *)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) { return cuMemHostAlloc(pp, bytesize, 0); }

CUresult cuMemFreeHost(void *p) {
    ENTER();
    if (p == NULL) return CUDA_SUCCESS;
    return release((uint64_t)(uintptr_t)p, is_pinned_kind);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags) {
    allocation found;
    ENTER();
    if (pdptr == NULL || p == NULL || Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (allocations_find(address, &found) && (found.kind == ALLOCATION_PINNED || found.kind == ALLOCATION_MANAGED)) {
        *pdptr = address;
        return CUDA_SUCCESS;
    }
    if (!allocations_find_host(address, &found)) return CUDA_ERROR_INVALID_VALUE;
    *pdptr = found.base + (address - found.host);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *pFlags, void *p) {
    allocation found;
    ENTER();
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (pFlags == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!(allocations_find(address, &found) && found.kind == ALLOCATION_PINNED) && !allocations_find_host(address, &found)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pFlags = found.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

/* The program's pages become pages of the arena with the same contents: both sides see one memory from then on. */
CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags) {
    allocation other;
    uint64_t address;
    ENTER();
    if (p == NULL || bytesize == 0 || (Flags & ~15u) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0 || !OS_CAN_REPLACE_PAGES) return CUDA_ERROR_NOT_SUPPORTED;
    TRY(capture_forbids_unsafe());
    uint64_t start = (uint64_t)(uintptr_t)p, first = start / PAGE * PAGE;
    uint64_t bytes = (start + bytesize - first + PAGE - 1) / PAGE * PAGE;
    if (in_arena(p)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    for (uint64_t page = first; page < first + bytes; page += PAGE) {
        if (allocations_find_host(page, &other)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    TRY(REQUEST(CUTTLE_REQUEST_HOST_REGISTER, &address, first, bytes, Flags));
    memcpy((void *)(uintptr_t)address, (void *)(uintptr_t)first, bytes);
    if (!os_replace_pages(first, client.arena_memory, address - client.arena_base, bytes)) {
        REQUEST(CUTTLE_REQUEST_HOST_UNREGISTER, NULL, address);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    allocations_add(&(allocation){.base = address, .bytes = bytes, .kind = ALLOCATION_REGISTERED, .flags = Flags, .host = first,
                                  .host_start = start});
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned Flags) { return cuMemHostRegister_v2(p, bytesize, Flags); }

CUresult cuMemHostUnregister(void *p) {
    allocation found;
    ENTER();
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (p == NULL || in_arena(p)) return CUDA_ERROR_INVALID_VALUE;
    if (!allocations_find_host(address, &found)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (found.host_start != address) return CUDA_ERROR_INVALID_VALUE;
    TRY(capture_forbids_unsafe());
    TRY(wait_all());
    if (!os_make_private(found.host, found.bytes)) return CUDA_ERROR_OPERATING_SYSTEM;
    allocations_remove(found.base, NULL);
    return REQUEST(CUTTLE_REQUEST_HOST_UNREGISTER, NULL, found.base);
}

/* ------------------------------------------------------------------------------------------------ pointer attributes */

/* Sizes are those of the attribute's own type. Without an allocation: what an unknown host pointer answers. */
static CUresult pointer_attribute(void *data, CUpointer_attribute attribute, uint64_t address, const allocation *in) {
    bool host = in != NULL && (in->kind == ALLOCATION_PINNED || in->kind == ALLOCATION_REGISTERED);
    bool managed = in != NULL && in->kind == ALLOCATION_MANAGED;
    uint64_t inside = in == NULL ? 0 : address - (in_arena((void *)(uintptr_t)address) ? in->base : in->host);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* memory of a pool belongs to the device */
        *(CUcontext *)data = in != NULL && in->kind != ALLOCATION_POOL ? (CUcontext)in->owner : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = in == NULL ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = in != NULL ? in->base + inside : 0; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(uint64_t *)data = host || managed ? (in->kind == ALLOCATION_REGISTERED ? in->host : in->base) + inside : 0;
        if (in != NULL && !host && !managed) return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(int *)data = in != NULL && in->synchronizes; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(int *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)data = in != NULL ? in->id : 0; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = in != NULL ? 0 : -2; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = in != NULL ? in->base : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = in != NULL ? in->bytes : 0; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(int *)data = in != NULL; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)data = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)data = in != NULL ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(uint64_t *)data = in != NULL ? in->pool : 0; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = in != NULL ? in->bytes : 0; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)data = in != NULL ? in->base : 0; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *(unsigned long long *)data = in != NULL ? in->id : 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static bool find_any(uint64_t address, allocation *found) {
    return in_arena((void *)(uintptr_t)address) ? allocations_find(address, found) : allocations_find_host(address, found);
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    allocation found;
    ENTER_WITHOUT_CONTEXT();
    if (data == NULL || !find_any(ptr, &found)) return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(data, attribute, ptr, &found);
}

CUresult cuPointerGetAttributes(unsigned numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr) {
    allocation found;
    ENTER_WITHOUT_CONTEXT();
    if (attributes == NULL || data == NULL || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    const allocation *in = find_any(ptr, &found) ? &found : NULL;
    for (unsigned i = 0; i < numAttributes; i++) {
        CUresult result = pointer_attribute(data[i], attributes[i], ptr, in);
        if (result != CUDA_SUCCESS && attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER) return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    allocation found;
    ENTER();
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find_any(ptr, &found)) return CUDA_ERROR_INVALID_VALUE;
    allocations_set_synchronizes(found.base, *(const unsigned *)value != 0);
    return CUDA_SUCCESS;
}
