/* The rules of cluster dimensions, as an H200 has them (recorded: tests/client/cluster_launches.json). */
#include "launch.h"

#define PORTABLE_BLOCKS 8u /* in a cluster, on every device that has clusters */
#define NON_PORTABLE_BLOCKS 16u

static bool all_zero(const uint32_t dimensions[3]) { return (dimensions[0] | dimensions[1] | dimensions[2]) == 0; }

uint32_t cluster_most_blocks(const function *of) { return of->non_portable_cluster ? NON_PORTABLE_BLOCKS : PORTABLE_BLOCKS; }

static bool holds_at_most(const uint32_t dimensions[3], uint32_t most) {
    uint64_t plane = (uint64_t)dimensions[0] * dimensions[1];
    return plane <= most && plane * dimensions[2] <= most;
}

CUresult cluster_check(const function *of, const launch_shape *shape, uint32_t most) {
    const uint32_t *cluster = shape->cluster, *preferred = shape->preferred_cluster;
    bool several = cluster[0] > 1 || cluster[1] > 1 || cluster[2] > 1;
    if (several && !client.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH]) return CUDA_ERROR_NOT_SUPPORTED;
    if (of->most_cluster_blocks != 0 && of->most_cluster_blocks < most) most = of->most_cluster_blocks;
    for (int i = 0; i < 3; i++) {
        if (cluster[i] == 0 || (of->cluster[i] != 0 && of->cluster[i] != cluster[i])) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (!of->blocks_are_clusters && shape->grid[i] % cluster[i] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    if (!holds_at_most(cluster, most)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (all_zero(preferred)) return CUDA_SUCCESS;
    for (int i = 0; i < 3; i++) {
        if (preferred[i] % cluster[i] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (!of->blocks_are_clusters && shape->grid[i] % preferred[i] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    return holds_at_most(preferred, most) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

void cluster_say_none(void) {
    static bool said;
    if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) return;
    client_log("a launch with thread block clusters was refused: this device has none\n"
               "  hint: on the CPU, set CUTTLE_COMPUTE_CAPABILITY=9.0; AMD GPUs have none");
}

CUresult cluster_check_given(const function *of, const launch_shape *shape) {
    return of->cluster_must_be_set && all_zero(shape->cluster) ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
}

static CUresult read_dimensions(uint32_t to[3], uint32_t x, uint32_t y, uint32_t z) {
    if (x == 0 || y == 0 || z == 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    to[0] = x;
    to[1] = y;
    to[2] = z;
    return CUDA_SUCCESS;
}

CUresult cluster_read_attribute(launch_shape *shape, CUlaunchAttributeID id, const CUlaunchAttributeValue *value) {
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster_is_attribute = true;
        return read_dimensions(shape->cluster, value->clusterDim.x, value->clusterDim.y, value->clusterDim.z);
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: /* checked, and no preference here: one worker runs a cluster */
        return read_dimensions(shape->preferred_cluster, value->preferredClusterDim.x, value->preferredClusterDim.y,
                               value->preferredClusterDim.z);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return (unsigned)value->clusterSchedulingPolicyPreference <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    default: return CUDA_SUCCESS;
    }
}

/* ------------------------------------------------------------------------------------------------ function attributes */

CUresult cluster_function_attribute_set(function *of, CUfunction_attribute attribute, int value) {
    int dimension = (int)attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        /* What the kernel was compiled with stays. Numbers too large for any kernel are an error of the launch. */
        if (value < 0 || (of->cluster_is_fixed && (uint32_t)value != of->cluster[dimension])) return CUDA_ERROR_INVALID_VALUE;
        if (of->most_cluster_blocks != 0 && (uint32_t)value > of->most_cluster_blocks) return CUDA_ERROR_INVALID_VALUE;
        of->cluster[dimension] = (uint32_t)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: of->non_portable_cluster = value != 0; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if ((unsigned)value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) return CUDA_ERROR_INVALID_VALUE;
        of->cluster_policy = value;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ------------------------------------------------------------------------------------------------ occupancy */

/* What the two questions have in common: the shape, and how many blocks a multiprocessor holds. */
static CUresult occupancy(const function *of, const CUlaunchConfig *config, launch_shape *shape, int *blocks) {
    *shape = (launch_shape){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                            .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                            .cluster = {of->cluster[0], of->cluster[1], of->cluster[2]}, .shared = config->sharedMemBytes};
    if (config->numAttrs != 0 && config->attrs == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        TRY(cluster_read_attribute(shape, config->attrs[i].id, &config->attrs[i].value));
    }
    if (shape->grid[0] == 0 || shape->grid[1] == 0 || shape->grid[2] == 0) return CUDA_ERROR_INVALID_VALUE;
    /* Sizes beyond what launches take are a question, too. */
    if (!all_zero(shape->cluster) || !all_zero(shape->preferred_cluster)) {
        TRY(cluster_check(of, shape, of->non_portable_cluster ? UINT32_MAX : PORTABLE_BLOCKS));
    }
    TRY(cluster_check_given(of, shape));
    uint64_t threads = (uint64_t)shape->block[0] * shape->block[1] * shape->block[2];
    if (threads == 0) return CUDA_ERROR_INVALID_VALUE;
    *blocks = 0;
    if (threads > (uint64_t)client.attributes[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK]) return CUDA_SUCCESS;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (CUfunction)of, (int)threads, shape->shared);
}

/* A multiprocessor is a worker here, and one worker runs all blocks of a cluster: at least one cluster each. */
CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func, const CUlaunchConfig *config) {
    function *of;
    launch_shape shape;
    int blocks, processors = client.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    ENTER();
    if (numClusters == NULL || config == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    TRY(occupancy(of, config, &shape, &blocks));
    *numClusters = 0;
    if (blocks == 0 || all_zero(shape.cluster) || !holds_at_most(shape.cluster, cluster_most_blocks(of))) return CUDA_SUCCESS;
    int together = blocks * processors / (int)(shape.cluster[0] * shape.cluster[1] * shape.cluster[2]);
    *numClusters = together > processors ? together : processors;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func, const CUlaunchConfig *config) {
    function *of;
    launch_shape shape;
    int blocks;
    ENTER();
    if (clusterSize == NULL || config == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    TRY(occupancy(of, config, &shape, &blocks));
    *clusterSize = blocks == 0 ? 0 : (int)cluster_most_blocks(of);
    return CUDA_SUCCESS;
}
