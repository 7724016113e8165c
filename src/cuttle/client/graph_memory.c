/* What allocation nodes of graphs have in use: the device process keeps the books. */
#include "request.h"

#define ENTER_DEVICE(device)                                                                          \
    ENTER_WITHOUT_CONTEXT();                                                                          \
    if ((device) < 0 || (uint32_t)(device) >= client.control->device_count) return CUDA_ERROR_INVALID_DEVICE

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    ENTER_DEVICE(device);
    if (value == NULL || (unsigned)attr > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
    return REQUEST(CUTTLE_REQUEST_GRAPH_MEMORY_GET, (uint64_t *)value, attr);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value) {
    ENTER_DEVICE(device);
    bool is_mark = attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (value == NULL || !is_mark || *(const cuuint64_t *)value != 0) return CUDA_ERROR_INVALID_VALUE;
    return REQUEST(CUTTLE_REQUEST_GRAPH_MEMORY_RESET, NULL, attr);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    ENTER_DEVICE(device);
    return REQUEST(CUTTLE_REQUEST_GRAPH_MEMORY_TRIM, NULL, 0);
}
