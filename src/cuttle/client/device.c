/* The device: what the device process wrote into the Control page and the attribute table at its start. */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTER_DEVICE(device)                                                                          \
    ENTER_WITHOUT_CONTEXT();                                                                          \
    if ((device) < 0 || (uint32_t)(device) >= client.control->device_count) return CUDA_ERROR_INVALID_DEVICE

/* CUDA_VISIBLE_DEVICES hides the device unless its first entry names it, by number or UUID prefix. */
static bool is_hidden(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == NULL) return false;
    while (*visible == ' ') visible++;
    if (strncmp(visible, "GPU-", 4) == 0) return false;
    return strtol(visible, NULL, 10) != 0 || *visible < '0' || *visible > '9';
}

CUresult cuInit(unsigned Flags) {
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (client.state == CLIENT_FORKED) return CUDA_ERROR_NOT_INITIALIZED;
    if (client.state == CLIENT_NEW && is_hidden()) return CUDA_ERROR_NO_DEVICE;
    TRY(client_connect());
    return client.control->device_count != 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

/* The device process refuses values that are no version. */
int driver_version(void) {
    const char *value = getenv("CUTTLE_DRIVER_VERSION");
    char *rest;
    if (value == NULL || *value == 0) return DRIVER_VERSION;
    long major = strtol(value, &rest, 10), minor = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    bool valid = *rest == 0 && major > 0 && major < 1000 && minor >= 0 && minor < 100;
    return valid ? (int)(major * 1000 + minor * 10) : DRIVER_VERSION;
}

CUresult cuDriverGetVersion(int *driverVersion) {
    if (driverVersion == NULL) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = driver_version();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    ENTER_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    ENTER_WITHOUT_CONTEXT();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    *count = (int)client.control->device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (name == NULL || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%.*s", (int)sizeof client.control->device_name, (const char *)client.control->device_name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (uuid == NULL) return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, client.control->uuid, 16);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }

/* Only Windows has locally unique ids. */
CUresult cuDeviceGetLuid(char *luid, unsigned *deviceNodeMask, CUdevice dev) {
    ENTER_DEVICE(dev);
    (void)luid;
    (void)deviceNodeMask;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
    *bytes = client.control->budget_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice dev) {
    size_t total = 0;
    if (bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(cuDeviceTotalMem_v2(&total, dev));
    *bytes = total > 0xffffffffu ? 0xffffffffu : (unsigned)total;
    return CUDA_SUCCESS;
}

/* Runtimes ask for attributes that are newer than this library, and give up when one is refused: unknown ones are 0. */
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (pi == NULL) return CUDA_ERROR_INVALID_VALUE;
    unsigned number = (unsigned)attrib;
    if (number == 537396226) { /* asked by 32-bit PhysX */
        *pi = 256;
        return CUDA_SUCCESS;
    }
    if (number == 0 || number >= CUTTLE_ATTRIBUTE_COUNT) return CUDA_ERROR_INVALID_VALUE;
    *pi = client.attributes[number];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (prop == NULL) return CUDA_ERROR_INVALID_VALUE;
    const int32_t *value = client.attributes;
    *prop = (CUdevprop){
        .maxThreadsPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .maxThreadsDim = {value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X], value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
                          value[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
        .maxGridSize = {value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X], value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
                        value[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
        .sharedMemPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
        .totalConstantMemory = value[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
        .SIMDWidth = value[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
        .memPitch = value[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
        .regsPerBlock = value[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
        .clockRate = value[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
        .textureAlign = value[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
    };
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    ENTER_DEVICE(dev);
    if (major == NULL || minor == NULL) return CUDA_ERROR_INVALID_VALUE;
    *major = client.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = client.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    char text[32];
    ENTER_DEVICE(dev);
    if (pciBusId == NULL || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    int needed = snprintf(text, sizeof text, "%04x:%02x:%02x.0", (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID],
                          (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID],
                          (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]);
    if (needed >= len) return CUDA_ERROR_INVALID_VALUE;
    memcpy(pciBusId, text, (size_t)needed + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    unsigned domain, bus, device;
    ENTER_WITHOUT_CONTEXT();
    if (dev == NULL || pciBusId == NULL) return CUDA_ERROR_INVALID_VALUE;
    /* domain:bus:device, or bus:device */
    unsigned numbers[3];
    int count = 0;
    for (const char *at = pciBusId; count < 3; at++) {
        char *rest;
        numbers[count] = (unsigned)strtoul(at, &rest, 16);
        if (rest == at) break;
        count++;
        at = rest;
        if (*at != ':') break;
    }
    if (count < 2) return CUDA_ERROR_INVALID_VALUE;
    domain = count == 3 ? numbers[0] : 0;
    bus = numbers[count - 2];
    device = numbers[count - 1];
    if (domain != (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] ||
        bus != (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] ||
        device != (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *dev = 0;
    return CUDA_SUCCESS;
}

/* A device is no peer of itself. */
CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    ENTER_DEVICE(dev);
    ENTER_DEVICE(peerDev);
    if (canAccessPeer == NULL) return CUDA_ERROR_INVALID_VALUE;
    *canAccessPeer = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
    ENTER_DEVICE(srcDevice);
    ENTER_DEVICE(dstDevice);
    (void)attrib;
    if (value == NULL) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev) {
    ENTER_DEVICE(dev);
    (void)type;
    if (pi == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    return CUDA_SUCCESS;
}

static unsigned format_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
    }
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format, unsigned numChannels,
                                            CUdevice dev) {
    ENTER_DEVICE(dev);
    unsigned bytes = format_bytes(format) * numChannels;
    if (maxWidthInElements == NULL || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    *maxWidthInElements = (size_t)client.attributes[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH] / bytes * 4;
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope) {
    ENTER();
    (void)target;
    (void)scope;
    return CUDA_SUCCESS;
}
