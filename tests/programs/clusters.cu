// Thread block clusters: sums through distributed shared memory, a ring of blocks, both ways of giving cluster dimensions,
// and a pipeline of bulk copies with mbarriers.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int block_threads = 128;
constexpr int blocks = 24;
constexpr int count = blocks * block_threads;

// The sum of a cluster's inputs: every block adds up its own, block 0 those of all.
__device__ void sum_of_cluster(const int* in, int* out)
{
    __shared__ int partial;
    cg::cluster_group cluster = cg::this_cluster();
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) partial = 0;
    __syncthreads();
    atomicAdd(&partial, in[index]);
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) {
        int total = broken;
        for (unsigned rank = 0; rank < cluster.num_blocks(); rank++) total += *cluster.map_shared_rank(&partial, rank);
        out[blockIdx.x / cluster.num_blocks()] = total;
    }
    cluster.sync();
}

__global__ void __cluster_dims__(4, 1, 1) sum_fixed(const int* in, int* out) { sum_of_cluster(in, out); }

__global__ void sum_chosen(const int* in, int* out) { sum_of_cluster(in, out); }

// Each block gives its values to the next one of the cluster, as often as there are blocks: they come home changed.
__global__ void ring(const int* in, int* out)
{
    __shared__ int box[2][block_threads];
    cg::cluster_group cluster = cg::this_cluster();
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
    box[0][threadIdx.x] = in[index];
    cluster.sync();
    for (unsigned round = 0; round < size; round++) {
        int* next = cluster.map_shared_rank(box[(round + 1) % 2], (rank + 1) % size);
        next[threadIdx.x] = box[round % 2][threadIdx.x] * 3 + int(rank);
        cluster.sync();
    }
    out[index] = box[size % 2][threadIdx.x];
    cluster.sync();
}

// Two buffers, filled by bulk copies that an mbarrier each waits for; results leave by bulk copies as well.
__global__ void pipeline(const int* in, int* out, int rounds)
{
    __shared__ alignas(128) int box[2][block_threads];
    __shared__ alignas(128) int ready[block_threads];
    __shared__ alignas(8) unsigned long long full[2];
    unsigned bytes = sizeof box[0];
    auto address = [](const void* place) { return unsigned(__cvta_generic_to_shared(place)); };
    auto fetch = [&](int round) {
        unsigned bar = address(&full[round % 2]);
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         address(box[round % 2])),
                     "l"(in + round * block_threads), "r"(bytes), "r"(bar)
                     : "memory");
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(address(&full[i])) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
        fetch(0);
    }
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        if (threadIdx.x == 0 && round + 1 < rounds) fetch(round + 1);
        unsigned done = 0;
        while (!done) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done)
                         : "r"(address(&full[round % 2])), "r"(round / 2 % 2)
                         : "memory");
        }
        ready[threadIdx.x] = box[round % 2][block_threads - 1 - threadIdx.x] * 2 + round;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + round * block_threads),
                         "r"(address(ready)), "r"(bytes)
                         : "memory");
            asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}

template <typename... Arguments>
void launch(int cluster, void (*kernel)(Arguments...), Arguments... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = block_threads;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

int main()
{
    int *in, *out;
    CUDA(cudaMallocManaged(&in, count * sizeof *in));
    CUDA(cudaMallocManaged(&out, count * sizeof *out));
    for (int i = 0; i < count; i++) in[i] = i * 7 % 1009;

    sum_fixed<<<blocks, block_threads>>>(in, out);
    CUDA(cudaDeviceSynchronize());
    for (int cluster : {4, 2, 8}) {
        if (cluster != 4) {
            launch(cluster, sum_chosen, static_cast<const int*>(in), out);
            CUDA(cudaDeviceSynchronize());
        }
        for (int i = 0; i < blocks / cluster; i++) {
            int expected = 0;
            for (int k = 0; k < cluster * block_threads; k++) expected += in[i * cluster * block_threads + k];
            CHECK(out[i] == expected);
        }
        std::printf("sums of clusters of %d: %d\n", cluster, out[0]);
    }

    for (int cluster : {1, 3, 8}) {
        launch(cluster, ring, static_cast<const int*>(in), out);
        CUDA(cudaDeviceSynchronize());
        long sum = 0;
        for (int i = 0; i < count; i++) {
            int rank = i / block_threads % cluster, value = in[i];
            for (int k = 0; k < cluster; k++) value = value * 3 + (rank + k) % cluster;
            CHECK(out[i] == value);
            sum += value;
        }
        std::printf("ring of %d: %ld\n", cluster, sum);
    }

    pipeline<<<1, block_threads>>>(in, out, blocks);
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < count; i++) {
        int round = i / block_threads;
        CHECK(out[i] == in[round * block_threads + block_threads - 1 - i % block_threads] * 2 + round);
    }
    std::printf("pipeline: %d\n", out[count - 1]);

    // 24 blocks are no multiple of 5
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = block_threads;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {5, 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaError_t error = cudaLaunchKernelEx(&config, ring, static_cast<const int*>(in), out);
    std::printf("cluster of 5: %s\n", cudaGetErrorName(error));
    return pass("clusters");
}
