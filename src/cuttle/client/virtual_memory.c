/* Virtual memory management: reserved ranges, physical memory, mappings. The books are the device process's; here are the
 * ranges that copies may touch. */
#include "allocations.h"
#include "request.h"
#include "stream.h"

#include <string.h>

#define GRANULARITY (2ull << 20)

static bool is_supported(const CUmemAllocationProp *prop) {
    return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           prop->location.id == 0 && prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    ENTER_WITHOUT_CONTEXT();
    if (granularity == NULL || prop == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
    uint64_t address;
    ENTER_WITHOUT_CONTEXT();
    if (ptr == NULL || flags != 0 || size == 0 || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(REQUEST(CUTTLE_REQUEST_ADDRESS_RESERVE, &address, size, alignment, addr));
    *ptr = address;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    ENTER_WITHOUT_CONTEXT();
    return REQUEST(CUTTLE_REQUEST_ADDRESS_FREE, NULL, ptr, size);
}

/* Handles are the device process's numbers. */
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    uint64_t number;
    ENTER_WITHOUT_CONTEXT();
    if (handle == NULL || prop == NULL || flags != 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    if (!is_supported(prop)) return CUDA_ERROR_NOT_SUPPORTED;
    TRY(REQUEST(CUTTLE_REQUEST_PHYSICAL_CREATE, &number, size));
    *handle = number;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER_WITHOUT_CONTEXT();
    return REQUEST(CUTTLE_REQUEST_PHYSICAL_RELEASE, NULL, handle);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER_WITHOUT_CONTEXT();
    if (flags != 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(REQUEST(CUTTLE_REQUEST_PHYSICAL_MAP, NULL, ptr, size, offset, handle));
    allocations_add(&(allocation){.base = ptr, .bytes = size, .kind = ALLOCATION_MAPPED, .pool = handle});
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    ENTER_WITHOUT_CONTEXT();
    TRY(wait_all());
    TRY(REQUEST(CUTTLE_REQUEST_PHYSICAL_UNMAP, NULL, ptr, size));
    /* One call may end several mappings side by side. */
    for (uint64_t at = ptr; at < ptr + size;) {
        allocation gone;
        if (!allocations_remove(at, &gone)) break;
        at += gone.bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    allocation found;
    ENTER_WITHOUT_CONTEXT();
    if (handle == NULL || !allocations_find((uint64_t)(uintptr_t)addr, &found) || found.kind != ALLOCATION_MAPPED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_NOT_SUPPORTED; /* the device process counts no references */
}

/* The one device can read and write everything; access of the host cannot be granted on NVIDIA's driver either. */
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    allocation found;
    ENTER_WITHOUT_CONTEXT();
    if (desc == NULL || count == 0 || size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!allocations_find(ptr, &found) || found.kind != ALLOCATION_MAPPED) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc[i].location.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    allocation found;
    ENTER_WITHOUT_CONTEXT();
    if (flags == NULL || location == NULL || !allocations_find(ptr, &found)) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    ENTER_WITHOUT_CONTEXT();
    if (prop == NULL || handle == 0) return CUDA_ERROR_INVALID_VALUE;
    memset(prop, 0, sizeof *prop);
    prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return CUDA_SUCCESS;
}
