/* Memory: where a pointer lies, and copies between such places. */
#ifndef CUTTLE_MEMORY_H
#define CUTTLE_MEMORY_H

#include "allocations.h"
#include "stream.h"

/* One side of a copy. */
typedef struct place {
    uint64_t device; /* address that the executor can use; 0: pageable host memory */
    uint8_t *host;   /* address that this process can use */
    bool is_host;    /* pinned or pageable host memory */
    bool on_device;  /* device memory proper: copies between two such places do not wait for the host */
} place;

/* Checks that `bytes` bytes at `address` belong to one allocation; host memory that CUDA does not know is pageable. */
CUresult place_of(uint64_t address, uint64_t bytes, place *found);
CUresult place_on_device(uint64_t address, uint64_t bytes, place *found);

/* Block copies: rows of `width` bytes, `height` rows, `depth` slices; pitches in bytes. */
typedef struct block_copy {
    place destination, source;
    uint64_t width, height, depth;
    uint64_t destination_pitch, destination_slice, source_pitch, source_slice;
} block_copy;

CUresult copy_async(const place *destination, const place *source, uint64_t bytes, stream *on);
CUresult copy_sync(const place *destination, const place *source, uint64_t bytes);
CUresult block_copy_async(const block_copy *copy, stream *on);
CUresult block_copy_sync(const block_copy *copy);
/* What a copy does, in this process. */
void block_copy_run(const block_copy *copy);

typedef struct fill {
    uint64_t address, width, height, pitch;
    uint32_t value, element_bytes;
} fill;

CUresult fill_check(const fill *of, place *found);
CUresult fill_async(const fill *of, stream *on);

CUresult default_stream(stream **found); /* the calling thread's: legacy or per thread */

/* CUDA_MEMCPY3D and its 2D form, resolved. */
CUresult block_copy_of_3d(const CUDA_MEMCPY3D *from, block_copy *to);
CUresult block_copy_of_2d(const CUDA_MEMCPY2D *from, block_copy *to);

#endif
