/* CUDA arrays and mipmapped arrays. */
#ifndef CUTTLE_ARRAY_H
#define CUTTLE_ARRAY_H

#include "client.h"

typedef struct array {
    uint32_t tag;
    uint64_t id;
    uint64_t address, row_pitch, slice_pitch, bytes;
    uint64_t width, height, depth; /* as in the descriptor: 0 for missing dimensions */
    CUarray_format format;
    unsigned channels, flags, element_bytes;
    struct mipmap *levels_of; /* a level of a mipmapped array */
} array;

typedef struct mipmap {
    uint32_t tag;
    uint64_t id;
    unsigned levels;
    array *level;
} mipmap;

static inline CUresult array_of(CUarray handle, array **found) {
    if (!has_tag(handle, TAG_ARRAY)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (array *)handle;
    return CUDA_SUCCESS;
}

unsigned array_format_bytes(CUarray_format format); /* 0: unknown */

#endif
