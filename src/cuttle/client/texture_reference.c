/* Texture and surface references of modules (`texture<...>` of CUDA 11 and before): a variable of eight bytes in device memory
 * that holds the handle of an object. Each change of a bound reference makes a new object for it. */
#include "array.h"
#include "memory.h"
#include "module.h"
#include "texture_reference.h"

#include <stdlib.h>
#include <string.h>

typedef struct texture_reference {
    uint32_t tag;
    struct texture_reference *next;
    module *owner;
    CUdeviceptr variable;
    bool is_surface, is_bound;
    unsigned long long object; /* 0: none */
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC sampling;
    CUarray_format format;
    int channels;
} texture_reference;

static os_lock references_lock = OS_LOCK_INITIAL;
static texture_reference *references;

static CUresult reference_of(const void *handle, bool is_surface, texture_reference **found) {
    if (!has_tag(handle, TAG_TEXTURE_REFERENCE)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (texture_reference *)handle;
    return (*found)->is_surface == is_surface ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void release(texture_reference *of) {
    if (of->object == 0) return;
    if (of->is_surface) cuSurfObjectDestroy(of->object);
    else cuTexObjectDestroy(of->object);
    of->object = 0;
}

/* Makes the object anew and writes its handle to the variable; work that was started before sees the old one to its end. */
static CUresult rebind(texture_reference *of) {
    if (!of->is_bound) return CUDA_SUCCESS;
    unsigned long long fresh = 0;
    if (of->is_surface) TRY(cuSurfObjectCreate(&fresh, &of->resource));
    else TRY(cuTexObjectCreate(&fresh, &of->resource, &of->sampling, NULL));
    CUresult result = wait_all();
    if (result == CUDA_SUCCESS) result = cuMemcpyHtoD_v2(of->variable, &fresh, sizeof fresh);
    release(of);
    of->object = fresh;
    return result;
}

static CUresult bind(texture_reference *of, const CUDA_RESOURCE_DESC *resource) {
    CUDA_RESOURCE_DESC before = of->resource;
    bool was_bound = of->is_bound;
    of->resource = *resource;
    of->is_bound = true;
    CUresult result = rebind(of);
    if (result != CUDA_SUCCESS) {
        of->resource = before;
        of->is_bound = was_bound;
    }
    return result;
}

static CUresult reference_get(void **handle, CUmodule hmod, const char *name, bool is_surface) {
    module *of;
    CUdeviceptr variable;
    size_t bytes;
    if (handle == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!has_tag(hmod, TAG_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    of = (module *)hmod;
    TRY(module_global(of, name, &variable, &bytes, false));
    if (bytes != sizeof(unsigned long long)) return CUDA_ERROR_NOT_FOUND;
    os_lock_take(&references_lock);
    texture_reference *found = references;
    while (found != NULL && (found->owner != of || found->variable != variable || found->is_surface != is_surface)) found = found->next;
    if (found == NULL && (found = calloc(1, sizeof *found)) != NULL) {
        *found = (texture_reference){.tag = TAG_TEXTURE_REFERENCE, .next = references, .owner = of, .variable = variable,
                                     .is_surface = is_surface, .format = CU_AD_FORMAT_FLOAT, .channels = 1};
        references = found;
    }
    os_lock_release(&references_lock);
    if (found == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = found;
    return CUDA_SUCCESS;
}

void texture_references_forget(module *owner) {
    for (;;) {
        os_lock_take(&references_lock);
        texture_reference **link = &references;
        while (*link != NULL && (*link)->owner != owner) link = &(*link)->next;
        texture_reference *found = *link;
        if (found != NULL) *link = found->next;
        os_lock_release(&references_lock);
        if (found == NULL) return;
        release(found);
        found->tag = TAG_DEAD; /* the handle may still be in the program's hands */
    }
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name) {
    ENTER();
    return reference_get((void **)pTexRef, hmod, name, false);
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name) {
    ENTER();
    return reference_get((void **)pSurfRef, hmod, name, true);
}

/* ------------------------------------------------------------------------------------------------------- what is bound */

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
    texture_reference *of;
    array *bound;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
    TRY(array_of(hArray, &bound));
    of->format = bound->format;
    of->channels = (int)bound->channels;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = hArray;
    return bind(of, &resource);
}

CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (Flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
    if (!has_tag(hMipmappedArray, TAG_MIPMAP)) return CUDA_ERROR_INVALID_HANDLE;
    const mipmap *bound = (const mipmap *)hMipmappedArray;
    of->format = bound->level[0].format;
    of->channels = (int)bound->level[0].channels;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    resource.res.mipmap.hMipmappedArray = hMipmappedArray;
    return bind(of, &resource);
}

CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    resource.res.linear.devPtr = dptr;
    resource.res.linear.format = of->format;
    resource.res.linear.numChannels = (unsigned)of->channels;
    resource.res.linear.sizeInBytes = bytes;
    TRY(bind(of, &resource));
    if (ByteOffset != NULL) *ByteOffset = 0; /* memory of any alignment can be bound */
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (desc == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    resource.res.pitch2D.devPtr = dptr;
    resource.res.pitch2D.format = desc->Format;
    resource.res.pitch2D.numChannels = desc->NumChannels;
    resource.res.pitch2D.width = desc->Width;
    resource.res.pitch2D.height = desc->Height;
    resource.res.pitch2D.pitchInBytes = Pitch;
    TRY(bind(of, &resource));
    of->format = desc->Format;
    of->channels = (int)desc->NumChannels;
    return CUDA_SUCCESS;
}

CUresult cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr, size_t Pitch) {
    return cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
}

CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (phArray == NULL || !of->is_bound || of->resource.resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    *phArray = of->resource.res.array.hArray;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pdptr == NULL || !of->is_bound) return CUDA_ERROR_INVALID_VALUE;
    if (of->resource.resType == CU_RESOURCE_TYPE_LINEAR) *pdptr = of->resource.res.linear.devPtr;
    else if (of->resource.resType == CU_RESOURCE_TYPE_PITCH2D) *pdptr = of->resource.res.pitch2D.devPtr;
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hSurfRef, true, &of));
    if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = hArray;
    return bind(of, &resource);
}

CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hSurfRef, true, &of));
    if (phArray == NULL || !of->is_bound) return CUDA_ERROR_INVALID_VALUE;
    *phArray = of->resource.res.array.hArray;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------ how it is read */

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    bool counts = NumPackedComponents == 1 || NumPackedComponents == 2 || NumPackedComponents == 4;
    if (!counts || array_format_bytes(fmt) == 0) return CUDA_ERROR_INVALID_VALUE;
    of->format = fmt;
    of->channels = NumPackedComponents;
    if (!of->is_bound || of->resource.resType != CU_RESOURCE_TYPE_LINEAR) return CUDA_SUCCESS;
    of->resource.res.linear.format = fmt;
    of->resource.res.linear.numChannels = (unsigned)NumPackedComponents;
    return rebind(of);
}

CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    of->sampling.flags = Flags;
    return rebind(of);
}

CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if ((unsigned)fm > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    of->sampling.filterMode = fm;
    return rebind(of);
}

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (dim < 0 || dim > 2 || (unsigned)am > CU_TR_ADDRESS_MODE_BORDER) return CUDA_ERROR_INVALID_VALUE;
    of->sampling.addressMode[dim] = am;
    return rebind(of);
}

CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pBorderColor == NULL) return CUDA_ERROR_INVALID_VALUE;
    memcpy(of->sampling.borderColor, pBorderColor, sizeof of->sampling.borderColor);
    return rebind(of);
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    of->sampling.maxAnisotropy = maxAniso;
    return rebind(of);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if ((unsigned)fm > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    of->sampling.mipmapFilterMode = fm;
    return rebind(of);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    of->sampling.mipmapLevelBias = bias;
    return rebind(of);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp, float maxMipmapLevelClamp) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    of->sampling.minMipmapLevelClamp = minMipmapLevelClamp;
    of->sampling.maxMipmapLevelClamp = maxMipmapLevelClamp;
    return rebind(of);
}

CUresult cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pFormat == NULL || pNumChannels == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pFormat = of->format;
    *pNumChannels = of->channels;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pFlags == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pFlags = of->sampling.flags;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pfm == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pfm = of->sampling.filterMode;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pam == NULL || dim < 0 || dim > 2) return CUDA_ERROR_INVALID_VALUE;
    *pam = of->sampling.addressMode[dim];
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef) {
    texture_reference *of;
    ENTER();
    TRY(reference_of(hTexRef, false, &of));
    if (pBorderColor == NULL) return CUDA_ERROR_INVALID_VALUE;
    memcpy(pBorderColor, of->sampling.borderColor, sizeof of->sampling.borderColor);
    return CUDA_SUCCESS;
}
