/* Occupancy by CUDA's published rules for the compute capability that the device reports. */
#include "launch.h"

static int smaller(int a, int b) { return a < b ? a : b; }

static int active_blocks(const function *of, int threads, size_t dynamic_shared) {
    const int32_t *limit = client.attributes;
    int warps = (threads + 31) / 32;
    /* The kernel's own limit of threads (.maxntid, .reqntid) does not count, its limit of shared memory does: an H200's answers. */
    if (threads <= 0 || threads > limit[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] || dynamic_shared > of->max_dynamic_shared) return 0;
    int blocks = smaller(limit[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] / (warps * 32),
                         limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR]);
    int registers = (int)(of->registers ? of->registers : 16);
    int per_warp = (registers * 32 + 255) / 256 * 256;
    int warps_by_registers = limit[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR] / per_warp / 4 * 4;
    blocks = smaller(blocks, warps_by_registers / warps);
    size_t shared = of->static_shared + dynamic_shared + (size_t)limit[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK];
    shared = (shared + 127) / 128 * 128;
    size_t all = (size_t)limit[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR];
    if (shared > 0 && all / shared < (size_t)blocks) blocks = (int)(all / shared);
    return blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned flags) {
    function *of;
    ENTER();
    if (numBlocks == NULL || blockSize <= 0 || (flags & ~1u) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    *numBlocks = active_blocks(of, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned flags) {
    function *of;
    ENTER();
    if (minGridSize == NULL || blockSize == NULL || (flags & ~1u) != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    int most = (int)of->max_threads, best_threads = 0, best_blocks = 0, best_size = 0;
    if (blockSizeLimit > 0 && blockSizeLimit < most) most = blockSizeLimit;
    for (int size = (most + 31) / 32 * 32; size > 0; size -= 32) {
        int tried = smaller(size, most);
        size_t shared = blockSizeToDynamicSMemSize != NULL ? blockSizeToDynamicSMemSize(tried) : dynamicSMemSize;
        int blocks = active_blocks(of, tried, shared);
        if (blocks * tried > best_threads) {
            best_threads = blocks * tried;
            best_blocks = blocks;
            best_size = tried;
        }
    }
    *minGridSize = best_blocks * client.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    *blockSize = best_size;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                     blockSizeLimit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
    function *of;
    ENTER();
    if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    const int32_t *limit = client.attributes;
    int all = limit[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] / numBlocks / 128 * 128;
    int most = all - limit[CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK];
    most = smaller(most, limit[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN]) - (int)of->static_shared;
    *dynamicSmemSize = most > 0 ? (size_t)most : 0;
    return CUDA_SUCCESS;
}
