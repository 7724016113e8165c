/* CUDA arrays: pitched memory whose description the client keeps. */
#include "array.h"

#include "allocations.h"
#include "request.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

unsigned array_format_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
    }
}

/* Arrays whose memory is mapped later, page by page or as a whole. */
#define UNMAPPED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

/* One level, as the device process has laid it out. */
typedef struct level_layout {
    uint64_t address, width, height, depth, row_pitch, slice_pitch;
} level_layout;

static bool within(uint64_t size, uint64_t most) {
    return size <= most;
}

/* The largest extents, as the device attributes CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE... give them. */
static bool fits(const CUDA_ARRAY3D_DESCRIPTOR *d, bool is_mipmap) {
    if ((d->Flags & CUDA_ARRAY3D_CUBEMAP) != 0) return within(d->Width, 32768) && within(d->Depth, 2046);
    if ((d->Flags & CUDA_ARRAY3D_LAYERED) != 0) return within(d->Width, 32768) && within(d->Height, 32768) && within(d->Depth, 2048);
    if (d->Depth != 0) return within(d->Width, 16384) && within(d->Height, 16384) && within(d->Depth, 16384);
    if (is_mipmap || (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0) return within(d->Width, 32768) && within(d->Height, 32768);
    return within(d->Width, 131072) && within(d->Height, 65536);
}

/* What an H200 takes; `tests/textures` has its answers for some thousand descriptors. */
static bool is_valid(const CUDA_ARRAY3D_DESCRIPTOR *d, bool is_mipmap) {
    const unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                           CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
    bool channels = d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4;
    bool layered = (d->Flags & CUDA_ARRAY3D_LAYERED) != 0, cube = (d->Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
    if (!channels || d->Width == 0 || array_format_bytes(d->Format) == 0 || (d->Flags & ~known) != 0) return false;
    if (d->Height == 0 && d->Depth != 0 && !layered) return false;
    if (layered && d->Depth == 0) return false;
    if (cube && (d->Width != d->Height || d->Depth == 0 || d->Depth % 6 != 0 || (!layered && d->Depth != 6))) return false;
    if ((d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 && (d->Flags != CUDA_ARRAY3D_TEXTURE_GATHER || d->Depth != 0 || d->Height == 0)) return false;
    return fits(d, is_mipmap);
}

static CUresult request_array(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels, request *call) {
    const uint64_t arguments[] = {d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags, levels};
    for (int i = 0; i < 7; i++) request_argument(call, arguments[i]);
    return request_send(call, CUTTLE_REQUEST_ARRAY_CREATE);
}

static array describe(const CUDA_ARRAY3D_DESCRIPTOR *d, const level_layout *layout) {
    return (array){.tag = TAG_ARRAY, .address = layout->address, .row_pitch = layout->row_pitch,
                   .slice_pitch = layout->slice_pitch, .width = layout->width, .height = layout->height, .depth = layout->depth,
                   .format = d->Format, .channels = d->NumChannels, .flags = d->Flags,
                   .element_bytes = array_format_bytes(d->Format) * d->NumChannels};
}

static void remember(uint64_t address, uint64_t bytes) {
    allocations_add(&(allocation){.base = address, .bytes = bytes, .kind = ALLOCATION_ARRAY});
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    request call = {0};
    ENTER();
    if (pHandle == NULL || d == NULL || !is_valid(d, false)) return CUDA_ERROR_INVALID_VALUE;
    if ((d->Flags & UNMAPPED) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    TRY(capture_forbids_unsafe());
    array *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = request_array(d, 1, &call);
    request_done(&call);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    const uint64_t *value = call.values;
    *made = describe(d, &(level_layout){value[CUTTLE_REPLY_ARRAY_CREATE_ADDRESS], d->Width, d->Height, d->Depth,
                                        value[CUTTLE_REPLY_ARRAY_CREATE_ROW_PITCH], value[CUTTLE_REPLY_ARRAY_CREATE_SLICE_PITCH]});
    made->id = value[CUTTLE_REPLY_ARRAY_CREATE_ARRAY];
    made->bytes = value[CUTTLE_REPLY_ARRAY_CREATE_BYTES];
    remember(made->address, made->bytes);
    *pHandle = (CUarray)made;
    return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *d) {
    if (d == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return cuArray3DCreate_v2(pHandle, &full);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray hArray) {
    array *of;
    ENTER();
    if (d == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(array_of(hArray, &of));
    *d = (CUDA_ARRAY3D_DESCRIPTOR){.Width = of->width, .Height = of->height, .Depth = of->depth, .Format = of->format,
                                   .NumChannels = of->channels, .Flags = of->flags};
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray hArray) {
    array *of;
    ENTER();
    if (d == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(array_of(hArray, &of));
    *d = (CUDA_ARRAY_DESCRIPTOR){.Width = of->width, .Height = of->height, .Format = of->format, .NumChannels = of->channels};
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray) {
    array *of;
    ENTER();
    TRY(array_of(hArray, &of));
    if (of->levels_of != NULL) return CUDA_ERROR_INVALID_HANDLE;
    TRY(capture_forbids_unsafe());
    TRY(wait_all());
    of->tag = TAG_DEAD;
    allocations_remove(of->address, NULL);
    return REQUEST(CUTTLE_REQUEST_ARRAY_DESTROY, NULL, of->id);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray hArray, CUdevice device) {
    array *of;
    ENTER();
    if (requirements == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    TRY(array_of(hArray, &of));
    *requirements = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = of->bytes, .alignment = 512};
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ mipmapped arrays */

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned numMipmapLevels) {
    request call = {0};
    ENTER();
    if (pHandle == NULL || d == NULL || !is_valid(d, true) || numMipmapLevels == 0) return CUDA_ERROR_INVALID_VALUE;
    if ((d->Flags & UNMAPPED) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    TRY(capture_forbids_unsafe());
    uint64_t largest = d->Width > d->Height ? d->Width : d->Height;
    if (d->Depth > largest && (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) == 0) largest = d->Depth;
    unsigned most = 1;
    while (largest >> most != 0) most++;
    if (numMipmapLevels > most) numMipmapLevels = most;
    mipmap *made = calloc(1, sizeof *made);
    array *levels = calloc(numMipmapLevels, sizeof *levels);
    CUresult result = made != NULL && levels != NULL ? request_array(d, numMipmapLevels, &call) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && call.reply_bytes < numMipmapLevels * sizeof(level_layout)) result = CUDA_ERROR_UNKNOWN;
    if (result != CUDA_SUCCESS) {
        request_done(&call);
        free(made);
        free(levels);
        return result;
    }
    *made = (mipmap){TAG_MIPMAP, call.values[CUTTLE_REPLY_ARRAY_CREATE_ARRAY], numMipmapLevels, levels};
    for (unsigned i = 0; i < numMipmapLevels; i++) {
        level_layout layout;
        memcpy(&layout, call.reply + i * sizeof layout, sizeof layout);
        levels[i] = describe(d, &layout);
        levels[i].id = made->id;
        levels[i].levels_of = made;
    }
    remember(call.values[CUTTLE_REPLY_ARRAY_CREATE_ADDRESS], call.values[CUTTLE_REPLY_ARRAY_CREATE_BYTES]);
    request_done(&call);
    *pHandle = (CUmipmappedArray)made;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level) {
    ENTER();
    if (pLevelArray == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!has_tag(hMipmappedArray, TAG_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
    mipmap *of = (mipmap *)hMipmappedArray;
    if (level >= of->levels) return CUDA_ERROR_INVALID_VALUE;
    *pLevelArray = (CUarray)&of->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    ENTER();
    if (!has_tag(hMipmappedArray, TAG_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
    mipmap *of = (mipmap *)hMipmappedArray;
    TRY(capture_forbids_unsafe());
    TRY(wait_all());
    of->tag = TAG_DEAD;
    allocations_remove(of->level[0].address, NULL);
    for (unsigned i = 0; i < of->levels; i++) of->level[i].tag = TAG_DEAD;
    return REQUEST(CUTTLE_REQUEST_ARRAY_DESTROY, NULL, of->id);
}
