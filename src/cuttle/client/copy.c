/* Copies and fills. Between places that the executor can reach they are records; with pageable memory this process waits
 * for the work before and copies itself (a graph node of this kind runs as a host function). */
#include "array.h"
#include "host_call.h"
#include "memory.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

CUresult default_stream(stream **found) { return stream_resolve(NULL, found); }

CUresult place_of(uint64_t address, uint64_t bytes, place *found) {
    allocation in;
    *found = (place){.device = address, .host = (uint8_t *)(uintptr_t)address};
    if (!in_arena((void *)(uintptr_t)address)) {
        found->is_host = true;
        found->device = 0;
        if (allocations_find_host(address, &in) && address + bytes <= in.host + in.bytes) {
            found->device = in.base + (address - in.host);
        }
        return address != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (!allocations_find(address, &in)) {
        request call = {.values = {address}, .count = 1};
        CUresult result = request_send(&call, CUTTLE_REQUEST_POINTER_RANGE);
        request_done(&call);
        if (result != CUDA_SUCCESS) return result;
        in = (allocation){.base = call.values[CUTTLE_REPLY_POINTER_RANGE_BASE],
                          .bytes = call.values[CUTTLE_REPLY_POINTER_RANGE_BYTES],
                          .kind = (uint32_t)call.values[CUTTLE_REPLY_POINTER_RANGE_KIND]};
    }
    uint64_t end = in.base + in.bytes;
    while (address + bytes > end && in.kind == ALLOCATION_MAPPED && allocations_find(end, &in) && in.base == end) {
        end = in.base + in.bytes; /* mappings side by side are one range */
    }
    if (address + bytes > end || address + bytes < address) return CUDA_ERROR_INVALID_VALUE;
    found->is_host = in.kind == ALLOCATION_PINNED || in.kind == ALLOCATION_REGISTERED;
    found->on_device = !found->is_host && in.kind != ALLOCATION_MANAGED;
    return CUDA_SUCCESS;
}

CUresult place_on_device(uint64_t address, uint64_t bytes, place *found) {
    if (!in_arena((void *)(uintptr_t)address)) {
        /* Registered memory: its device address is in the arena, but the host address will do, too. */
        TRY(place_of(address, bytes, found));
        return found->device != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return place_of(address, bytes, found);
}

/* ------------------------------------------------------------------------------------------------ plain copies */

/* Runs as a graph's host function, possibly many times: the description stays. */
static void CUDA_CB run_host_copy(void *argument) { block_copy_run(argument); }

static CUresult copy_in_graph(const block_copy *copy, stream *on) {
    block_copy *kept = malloc(sizeof *kept);
    if (kept == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *kept = *copy;
    return host_call_submit(on, run_host_copy, kept, CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult copy_async(const place *destination, const place *source, uint64_t bytes, stream *on) {
    if (bytes == 0) return CUDA_SUCCESS;
    if (LIKELY(destination->device != 0 && source->device != 0)) {
        cuttle_record_copy *record;
        TRY(emit_begin(on, CUTTLE_RECORD_COPY, sizeof *record, (void **)&record));
        record->destination = destination->device;
        record->source = source->device;
        record->bytes = bytes;
        return emit_commit(on, record, CU_GRAPH_NODE_TYPE_MEMCPY);
    }
    if (on->capturing) {
        block_copy copy = {*destination, *source, bytes, 1, 1, 0, 0, 0, 0};
        return copy_in_graph(&copy, on);
    }
    TRY(capture_forbids(on));
    TRY(wait_before(on));
    memmove(destination->host, source->host, bytes);
    return CUDA_SUCCESS;
}

CUresult copy_sync(const place *destination, const place *source, uint64_t bytes) {
    stream *on;
    if (bytes == 0) return CUDA_SUCCESS;
    TRY(default_stream(&on));
    TRY(capture_forbids(on));
    if (destination->on_device && source->on_device) return copy_async(destination, source, bytes, on);
    TRY(wait_stream(on));
    memmove(destination->host, source->host, bytes);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ block copies */

void block_copy_run(const block_copy *copy) {
    for (uint64_t z = 0; z < copy->depth; z++) {
        uint8_t *to = copy->destination.host + z * copy->destination_slice;
        const uint8_t *from = copy->source.host + z * copy->source_slice;
        for (uint64_t y = 0; y < copy->height; y++) {
            memmove(to, from, copy->width);
            to += copy->destination_pitch;
            from += copy->source_pitch;
        }
    }
}

static bool is_empty(const block_copy *copy) { return copy->width == 0 || copy->height == 0 || copy->depth == 0; }

CUresult block_copy_async(const block_copy *copy, stream *on) {
    if (is_empty(copy)) return CUDA_SUCCESS;
    if (copy->destination.device != 0 && copy->source.device != 0) {
        cuttle_record_copy_3d *record;
        TRY(emit_begin(on, CUTTLE_RECORD_COPY_3D, sizeof *record, (void **)&record));
        record->destination = copy->destination.device;
        record->source = copy->source.device;
        record->width_bytes = copy->width;
        record->height = copy->height;
        record->depth = copy->depth;
        record->destination_pitch = copy->destination_pitch;
        record->destination_slice = copy->destination_slice;
        record->source_pitch = copy->source_pitch;
        record->source_slice = copy->source_slice;
        return emit_commit(on, record, CU_GRAPH_NODE_TYPE_MEMCPY);
    }
    if (on->capturing) return copy_in_graph(copy, on);
    TRY(capture_forbids(on));
    TRY(wait_before(on));
    block_copy_run(copy);
    return CUDA_SUCCESS;
}

CUresult block_copy_sync(const block_copy *copy) {
    stream *on;
    if (is_empty(copy)) return CUDA_SUCCESS;
    TRY(default_stream(&on));
    TRY(capture_forbids(on));
    if (copy->destination.on_device && copy->source.on_device) return block_copy_async(copy, on);
    TRY(wait_stream(on));
    block_copy_run(copy);
    return CUDA_SUCCESS;
}

/* One side of CUDA_MEMCPY3D. */
typedef struct block_side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z, pitch, height;
} block_side;

static CUresult resolve_side(const block_side *side, const block_copy *copy, place *found, uint64_t *pitch, uint64_t *slice) {
    uint64_t base;
    if (side->type == CU_MEMORYTYPE_ARRAY) {
        array *of;
        TRY(array_of(side->array, &of));
        base = of->address;
        *pitch = of->row_pitch;
        *slice = of->slice_pitch;
        uint64_t row = of->width * of->element_bytes;
        uint64_t rows = of->height ? of->height : 1, slices = of->depth ? of->depth : 1;
        if (side->x + copy->width > row || side->y + copy->height > rows || side->z + copy->depth > slices) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    } else {
        bool host = side->type == CU_MEMORYTYPE_HOST;
        if (!host && side->type != CU_MEMORYTYPE_DEVICE && side->type != CU_MEMORYTYPE_UNIFIED) return CUDA_ERROR_INVALID_VALUE;
        base = host ? (uint64_t)(uintptr_t)side->host : side->device;
        *pitch = side->pitch != 0 ? side->pitch : side->x + copy->width;
        *slice = *pitch * (side->height != 0 ? side->height : copy->height);
        /* Pitch and height bound positions even in copies of one row or slice; in memory of a pool only extents (asked of an
           H200: Dr.Jit relies on it). */
        allocation in;
        bool pool = !host && allocations_find(base, &in) && in.kind == ALLOCATION_POOL;
        uint64_t right = copy->width + (pool ? 0 : side->x), bottom = copy->height + (pool ? 0 : side->y);
        if (base == 0 || *pitch < right || (side->height != 0 && side->height < bottom)) return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t first = base + side->z * *slice + side->y * *pitch + side->x;
    uint64_t extent = (copy->depth - 1) * *slice + (copy->height - 1) * *pitch + copy->width;
    return side->type == CU_MEMORYTYPE_DEVICE ? place_on_device(first, extent, found) : place_of(first, extent, found);
}

static CUresult resolve(const block_side *from, const block_side *to, block_copy *copy) {
    if (is_empty(copy)) return CUDA_SUCCESS;
    TRY(resolve_side(from, copy, &copy->source, &copy->source_pitch, &copy->source_slice));
    return resolve_side(to, copy, &copy->destination, &copy->destination_pitch, &copy->destination_slice);
}

CUresult block_copy_of_3d(const CUDA_MEMCPY3D *c, block_copy *to) {
    if (c == NULL || c->srcLOD != 0 || c->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    *to = (block_copy){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
    block_side source = {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch,
                         c->srcHeight};
    block_side destination = {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ,
                              c->dstPitch, c->dstHeight};
    return resolve(&source, &destination, to);
}

CUresult block_copy_of_2d(const CUDA_MEMCPY2D *c, block_copy *to) {
    if (c == NULL) return CUDA_ERROR_INVALID_VALUE;
    *to = (block_copy){.width = c->WidthInBytes, .height = c->Height, .depth = 1};
    block_side source = {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0};
    block_side destination = {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0};
    return resolve(&source, &destination, to);
}

/* ------------------------------------------------------------------------------------------------ fills */

CUresult fill_check(const fill *of, place *found) {
    uint64_t row = of->width * of->element_bytes;
    if (of->address % of->element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    if (of->height > 1 && (of->pitch < row || of->pitch % of->element_bytes != 0)) return CUDA_ERROR_INVALID_VALUE;
    return place_on_device(of->address, (of->height - 1) * of->pitch + row, found);
}

CUresult fill_async(const fill *of, stream *on) {
    place found;
    cuttle_record_fill *record;
    if (of->width == 0 || of->height == 0) return CUDA_SUCCESS;
    TRY(fill_check(of, &found));
    TRY(emit_begin(on, CUTTLE_RECORD_FILL, sizeof *record, (void **)&record));
    record->destination = found.device;
    record->width = of->width;
    record->height = of->height;
    record->pitch = of->pitch != 0 ? of->pitch : of->width * of->element_bytes;
    record->value = of->value;
    record->element_bytes = of->element_bytes;
    return emit_commit(on, record, CU_GRAPH_NODE_TYPE_MEMSET);
}
