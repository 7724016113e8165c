/* Kernel launches: the path that has to be short. Parameters are copied at the call: they stand in the caller's frame. */
#include "launch.h"
#include "request.h"

#include <string.h>

#define MAXIMUM_GRID_X 2147483647u
#define MAXIMUM_GRID_YZ 65535u
#define MAXIMUM_BLOCK 1024u

/* Kernels that are .blocksareclusters get a grid of clusters. */
static CUresult grid_of_blocks(const function *of, const launch_shape *shape, uint32_t grid[3]) {
    static const uint32_t most[3] = {MAXIMUM_GRID_X, MAXIMUM_GRID_YZ, MAXIMUM_GRID_YZ};
    memcpy(grid, shape->grid, sizeof shape->grid);
    for (int i = 0; UNLIKELY(of->blocks_are_clusters) && i < 3; i++) {
        /* An H200 takes 4,095 clusters of 4 blocks in y and refuses 4,096, as if the blocks counted twice. */
        uint32_t most_clusters = most[i] / shape->cluster[i] / shape->cluster[i];
        if (grid[i] > most_clusters) return CUDA_ERROR_INVALID_VALUE;
        grid[i] *= shape->cluster[i];
    }
    return CUDA_SUCCESS;
}

CUresult launch_check(const function *of, const launch_shape *shape) {
    const uint32_t *grid = shape->grid, *block = shape->block;
    /* The device process says why on stderr. */
    if (UNLIKELY(of->refused)) return REQUEST(CUTTLE_REQUEST_KERNEL_PREPARE, NULL, of->id);
    /* Zero wraps around: one comparison per number. */
    if (UNLIKELY(grid[0] - 1 >= MAXIMUM_GRID_X || grid[1] - 1 >= MAXIMUM_GRID_YZ || grid[2] - 1 >= MAXIMUM_GRID_YZ ||
                 block[0] - 1 >= MAXIMUM_BLOCK || block[1] - 1 >= MAXIMUM_BLOCK || block[2] - 1 >= 64)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint32_t threads = block[0] * block[1] * block[2];
    if (UNLIKELY(threads > MAXIMUM_BLOCK)) return CUDA_ERROR_INVALID_VALUE;
    if (UNLIKELY((shape->cluster[0] | shape->cluster[1] | shape->cluster[2] | shape->preferred_cluster[0]) != 0)) {
        TRY(cluster_check(of, shape, cluster_most_blocks(of)));
    }
    if (UNLIKELY(shape->shared > of->max_dynamic_shared)) return CUDA_ERROR_INVALID_VALUE;
    if (UNLIKELY(of->required_block[0] != 0 && memcmp(of->required_block, block, sizeof of->required_block) != 0)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (UNLIKELY(threads > of->max_threads)) {
        return of->max_threads < MAXIMUM_BLOCK ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    uint32_t in_blocks[3];
    TRY(grid_of_blocks(of, shape, in_blocks));
    if (UNLIKELY(shape->flags & 1)) {
        /* All blocks of a cooperative launch have to fit on the device at the same time. */
        uint64_t blocks = (uint64_t)in_blocks[0] * in_blocks[1] * in_blocks[2];
        int per_processor;
        TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, (CUfunction)of, (int)threads, shape->shared));
        if (blocks > (uint64_t)per_processor * (uint64_t)client.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]) {
            return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        }
    }
    return CUDA_SUCCESS;
}

void launch_fill(cuttle_record_launch *record, const function *of, const launch_shape *shape) {
    record->target = of->id;
    grid_of_blocks(of, shape, record->grid); /* as launch_check has found it */
    memcpy(record->block, shape->block, sizeof record->block);
    memcpy(record->cluster, shape->cluster, sizeof record->cluster);
    record->dynamic_shared_bytes = shape->shared;
    record->parameter_bytes = of->parameter_bytes;
    record->flags = shape->flags;
    record->cluster_is_attribute = shape->cluster_is_attribute;
}

/* The `extra` array: one buffer with all parameters at their places. */
static CUresult extra_buffer(void **extra, const void **buffer, size_t *bytes) {
    *buffer = NULL;
    *bytes = 0;
    for (; *extra != NULL; extra += 2) {
        if (*extra == (void *)1) *buffer = extra[1];
        else if (*extra == (void *)2) *bytes = *(const size_t *)extra[1];
        else return CUDA_ERROR_INVALID_VALUE;
    }
    return *buffer != NULL || *bytes == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult launch_parameters(uint8_t *to, const function *of, void **parameters, void **extra) {
    if (LIKELY(parameters != NULL)) {
        const parameter_place *place = of->parameters;
        for (uint32_t i = 0; i < of->parameter_count; i++, place++) {
            const void *value = parameters[i];
            if (place->bytes == 8) memcpy(to + place->offset, value, 8);
            else if (place->bytes == 4) memcpy(to + place->offset, value, 4);
            else memcpy(to + place->offset, value, place->bytes);
        }
        return CUDA_SUCCESS;
    }
    if (extra != NULL) {
        const void *buffer;
        size_t bytes;
        TRY(extra_buffer(extra, &buffer, &bytes));
        memcpy(to, buffer, bytes < of->parameter_bytes ? bytes : of->parameter_bytes);
    }
    return CUDA_SUCCESS;
}

/* Why a launch is not possible; the end of a capture, too. */
static CUresult check(const function *of, const launch_shape *shape, CUstream on) {
    stream *to;
    CUresult result = launch_check(of, shape);
    if (LIKELY(result == CUDA_SUCCESS && !of->cluster_must_be_set && captures_running == 0)) return CUDA_SUCCESS;
    TRY(stream_resolve(on, &to));
    if (result == CUDA_SUCCESS) return to->capturing ? CUDA_SUCCESS : cluster_check_given(of, shape);
    if (to->capturing) capture_forbids(to);
    if (result == CUDA_ERROR_NOT_SUPPORTED) cluster_say_none();
    return result;
}

static CUresult launch(CUfunction handle, const launch_shape *shape, CUstream on, void **parameters, void **extra) {
    function *of = (function *)handle;
    stream *to;
    cuttle_record_launch *record;
    ENTER_BY_HANDLE();
    if (UNLIKELY(!has_tag(of, TAG_FUNCTION))) return CUDA_ERROR_INVALID_HANDLE;
    TRY(check(of, shape, on));
    if (UNLIKELY(of->parameter_count != 0 && parameters == NULL && extra == NULL)) return CUDA_ERROR_INVALID_VALUE;
    if (UNLIKELY(parameters == NULL && extra != NULL)) { /* looked at before the ring is held */
        const void *buffer;
        size_t bytes;
        TRY(extra_buffer(extra, &buffer, &bytes));
    }
    TRY(stream_resolve(on, &to));
    TRY(emit_begin(to, CUTTLE_RECORD_LAUNCH, sizeof *record + of->parameter_bytes, (void **)&record));
    launch_fill(record, of, shape);
    launch_parameters((uint8_t *)record + sizeof *record, of, parameters, extra);
    return emit_commit(to, record, CU_GRAPH_NODE_TYPE_KERNEL);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX,
                        unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams,
                        void **extra) {
    launch_shape shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, {0, 0, 0}, sharedMemBytes, 0, {0, 0, 0}, false};
    if (LIKELY(has_tag(f, TAG_FUNCTION))) memcpy(shape.cluster, ((function *)f)->cluster, sizeof shape.cluster);
    return launch(f, &shape, hStream, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX,
                                   unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream,
                                   void **kernelParams) {
    launch_shape shape = {{gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, {0, 0, 0}, sharedMemBytes, 1, {0, 0, 0}, false};
    if (has_tag(f, TAG_FUNCTION)) memcpy(shape.cluster, ((function *)f)->cluster, sizeof shape.cluster);
    return launch(f, &shape, hStream, kernelParams, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    if (config == NULL) return CUDA_ERROR_INVALID_VALUE;
    launch_shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                          {config->blockDimX, config->blockDimY, config->blockDimZ},
                          {0, 0, 0}, config->sharedMemBytes, 0, {0, 0, 0}, false};
    CUevent completion = NULL;
    unsigned completion_flags = 0;
    if (has_tag(f, TAG_FUNCTION)) memcpy(shape.cluster, ((function *)f)->cluster, sizeof shape.cluster);
    if (config->numAttrs != 0 && config->attrs == NULL) return CUDA_ERROR_INVALID_VALUE;
    /* An empty block is found before any attribute is looked at, an empty grid after. */
    bool empty_block = shape.block[0] == 0 || shape.block[1] == 0 || shape.block[2] == 0;
    for (unsigned i = 0; i < config->numAttrs && !empty_block; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        switch (attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: shape.flags |= attribute->value.cooperative ? 1 : 0; break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            completion = attribute->value.programmaticEvent.event;
            completion_flags = (unsigned)attribute->value.programmaticEvent.flags;
            break;
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: completion = attribute->value.launchCompletionEvent.event; break;
        default: TRY(cluster_read_attribute(&shape, attribute->id, &attribute->value)); /* the rest are hints about scheduling, caches and overlap: jobs run in order here */
        }
    }
    TRY(launch(f, &shape, config->hStream, kernelParams, extra));
    return completion != NULL ? cuEventRecordWithFlags(completion, config->hStream, completion_flags) : CUDA_SUCCESS;
}
