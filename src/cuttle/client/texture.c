/* Texture and surface objects: the device process makes the descriptor that kernels read; descriptions are kept here for
 * the calls that ask for them. */
#include "array.h"
#include "memory.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

typedef struct texture {
    struct texture *next;
    uint64_t handle;
    bool is_surface, has_view;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    CUDA_RESOURCE_VIEW_DESC view;
} texture;

static os_lock textures_lock = OS_LOCK_INITIAL;
static texture *textures;

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void of_array(cuttle_texture_request *to, const array *from, unsigned levels) {
    to->array = from->id;
    to->address = from->address;
    to->bytes = from->bytes;
    to->row_pitch = from->row_pitch;
    to->slice_pitch = from->slice_pitch;
    to->width = from->width;
    to->height = from->height;
    to->depth = from->depth;
    to->format = from->format;
    to->channels = from->channels;
    to->array_flags = from->flags;
    to->levels = levels;
}

static CUresult describe_resource(cuttle_texture_request *to, const CUDA_RESOURCE_DESC *from) {
    place where;
    to->resource_kind = from->resType;
    switch (from->resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
        array *of;
        TRY(array_of(from->res.array.hArray, &of));
        of_array(to, of, 1);
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
        if (!has_tag(from->res.mipmap.hMipmappedArray, TAG_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
        const mipmap *of = (const mipmap *)from->res.mipmap.hMipmappedArray;
        of_array(to, &of->level[0], of->levels);
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
        unsigned element = array_format_bytes(from->res.linear.format) * from->res.linear.numChannels;
        if (element == 0) return CUDA_ERROR_INVALID_VALUE;
        TRY(place_on_device(from->res.linear.devPtr, from->res.linear.sizeInBytes, &where));
        to->address = where.device;
        to->bytes = from->res.linear.sizeInBytes;
        to->width = from->res.linear.sizeInBytes / element;
        to->row_pitch = to->bytes;
        to->format = from->res.linear.format;
        to->channels = from->res.linear.numChannels;
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
        unsigned element = array_format_bytes(from->res.pitch2D.format) * from->res.pitch2D.numChannels;
        uint64_t pitch = from->res.pitch2D.pitchInBytes, height = from->res.pitch2D.height, width = from->res.pitch2D.width;
        if (element == 0 || height == 0 || width * element > pitch) return CUDA_ERROR_INVALID_VALUE;
        TRY(place_on_device(from->res.pitch2D.devPtr, (height - 1) * pitch + width * element, &where));
        to->address = where.device;
        to->bytes = height * pitch;
        to->width = width;
        to->height = height;
        to->row_pitch = pitch;
        to->format = from->res.pitch2D.format;
        to->channels = from->res.pitch2D.numChannels;
        return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static void describe_sampling(cuttle_texture_request *to, const CUDA_TEXTURE_DESC *from) {
    to->flags = from->flags;
    for (int i = 0; i < 3; i++) to->address_mode[i] = from->addressMode[i];
    to->filter_mode = from->filterMode;
    to->max_anisotropy = from->maxAnisotropy;
    to->mipmap_filter_mode = from->mipmapFilterMode;
    to->mipmap_level_bias = float_bits(from->mipmapLevelBias);
    to->min_mipmap_level_clamp = float_bits(from->minMipmapLevelClamp);
    to->max_mipmap_level_clamp = float_bits(from->maxMipmapLevelClamp);
    for (int i = 0; i < 4; i++) to->border_color[i] = float_bits(from->borderColor[i]);
}

static void describe_view(cuttle_texture_request *to, const CUDA_RESOURCE_VIEW_DESC *from) {
    to->has_view = 1;
    to->view_format = from->format;
    to->view_width = from->width;
    to->view_height = from->height;
    to->view_depth = from->depth;
    to->view_first_level = from->firstMipmapLevel;
    to->view_last_level = from->lastMipmapLevel;
    to->view_first_layer = from->firstLayer;
    to->view_last_layer = from->lastLayer;
}

/* What an H200 answers CUDA_ERROR_INVALID_VALUE to. */
static bool is_sampling(const CUDA_TEXTURE_DESC *d, unsigned array_flags) {
    const unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | 8 | CU_TRSF_SRGB |
                           CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    for (int i = 0; i < 3; i++) {
        if ((unsigned)d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER) return false;
    }
    if ((unsigned)d->filterMode > CU_TR_FILTER_MODE_LINEAR || (unsigned)d->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR) return false;
    if ((d->flags & ~known) != 0) return false;
    return (d->flags & CU_TRSF_SEAMLESS_CUBEMAP) == 0 || (array_flags & CUDA_ARRAY3D_CUBEMAP) != 0;
}

static CUresult create(uint32_t number, const cuttle_texture_request *description, texture *made, unsigned long long *handle) {
    request call = {0};
    texture *kept = malloc(sizeof *kept);
    if (kept == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    request_payload(&call, description, sizeof *description);
    CUresult result = request_send(&call, number);
    request_done(&call);
    if (result != CUDA_SUCCESS) {
        free(kept);
        return result;
    }
    *kept = *made;
    kept->handle = call.values[0];
    os_lock_take(&textures_lock);
    kept->next = textures;
    textures = kept;
    os_lock_release(&textures_lock);
    *handle = kept->handle;
    return CUDA_SUCCESS;
}

static bool find(uint64_t handle, bool is_surface, texture *found) {
    bool hit = false;
    os_lock_take(&textures_lock);
    for (texture *each = textures; each != NULL && !hit; each = each->next) {
        hit = each->handle == handle && each->is_surface == is_surface;
        if (hit) *found = *each;
    }
    os_lock_release(&textures_lock);
    return hit;
}

static CUresult destroy(uint32_t number, uint64_t handle, bool is_surface) {
    texture *found = NULL;
    os_lock_take(&textures_lock);
    for (texture **link = &textures; *link != NULL; link = &(*link)->next) {
        if ((*link)->handle != handle || (*link)->is_surface != is_surface) continue;
        found = *link;
        *link = found->next;
        break;
    }
    os_lock_release(&textures_lock);
    if (found == NULL) return CUDA_ERROR_INVALID_HANDLE;
    free(found);
    TRY(wait_all());
    return REQUEST(number, NULL, handle);
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
    cuttle_texture_request description;
    texture made = {0};
    ENTER();
    if (pTexObject == NULL || pResDesc == NULL || pTexDesc == NULL) return CUDA_ERROR_INVALID_VALUE;
    memset(&description, 0, sizeof description);
    TRY(describe_resource(&description, pResDesc));
    if (!is_sampling(pTexDesc, description.array_flags)) return CUDA_ERROR_INVALID_VALUE;
    describe_sampling(&description, pTexDesc);
    made.resource = *pResDesc;
    made.sampling = *pTexDesc;
    if (pResViewDesc != NULL) {
        describe_view(&description, pResViewDesc);
        made.has_view = true;
        made.view = *pResViewDesc;
    }
    return create(CUTTLE_REQUEST_TEXTURE_CREATE, &description, &made, pTexObject);
}

CUresult cuTexObjectDestroy(CUtexObject texObject) {
    ENTER();
    return destroy(CUTTLE_REQUEST_TEXTURE_DESTROY, texObject, false);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject) {
    texture found;
    ENTER();
    if (pResDesc == NULL || !find(texObject, false, &found)) return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = found.resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject) {
    texture found;
    ENTER();
    if (pTexDesc == NULL || !find(texObject, false, &found)) return CUDA_ERROR_INVALID_VALUE;
    *pTexDesc = found.sampling;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject) {
    texture found;
    ENTER();
    if (pResViewDesc == NULL || !find(texObject, false, &found) || !found.has_view) return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = found.view;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) {
    cuttle_texture_request description;
    texture made = {.is_surface = true};
    ENTER();
    if (pSurfObject == NULL || pResDesc == NULL || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    memset(&description, 0, sizeof description);
    TRY(describe_resource(&description, pResDesc));
    if ((description.array_flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) return CUDA_ERROR_INVALID_VALUE;
    made.resource = *pResDesc;
    return create(CUTTLE_REQUEST_SURFACE_CREATE, &description, &made, pSurfObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) {
    ENTER();
    return destroy(CUTTLE_REQUEST_SURFACE_DESTROY, surfObject, true);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject) {
    texture found;
    ENTER();
    if (pResDesc == NULL || !find(surfObject, true, &found)) return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = found.resource;
    return CUDA_SUCCESS;
}
