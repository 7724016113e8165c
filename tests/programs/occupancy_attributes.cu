// What the runtime says about kernels. The numbers differ between devices, so only what must hold anywhere is checked.
#include "check.h"

constexpr int static_ints = 300;

__constant__ int constants[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

__global__ void with_static(int* output)
{
    __shared__ int shared[static_ints];
    for (int i = threadIdx.x; i < static_ints; i += blockDim.x) {
        shared[i] = i * constants[i % 10];
    }
    __syncthreads();
    output[threadIdx.x] = shared[static_ints - 1 - threadIdx.x] + broken;
}

__global__ void with_dynamic(int* output, int count)
{
    extern __shared__ int dynamic[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        dynamic[i] = 3 * i;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        output[i] = dynamic[count - 1 - i];
    }
}

__global__ void __launch_bounds__(96, 2) with_bounds(int* output)
{
    output[threadIdx.x] = threadIdx.x;
}

int main()
{
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, with_static));
    CHECK(attributes.sharedSizeBytes == static_ints * sizeof(int));
    CHECK(attributes.numRegs > 0);
    CHECK(attributes.ptxVersion == 80);
    CHECK(attributes.binaryVersion >= 80);
    CHECK(attributes.maxThreadsPerBlock >= 32 && attributes.maxThreadsPerBlock <= 1024);
    CUDA(cudaFuncGetAttributes(&attributes, with_bounds));
    CHECK(attributes.maxThreadsPerBlock == 96);
    CHECK(attributes.sharedSizeBytes == 0);
    std::printf("attributes: right\n");

    int blocks = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, with_static, 128, 0));
    CHECK(blocks >= 1 && blocks <= 32);
    int with_shared = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&with_shared, with_static, 128, 40000));
    CHECK(with_shared >= 1 && with_shared <= blocks);
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, with_static, 1024, 0));
    CHECK(blocks >= 1 && blocks <= 2);
    int grid = 0;
    int block = 0;
    CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, with_static, 0, 0));
    CHECK(grid >= 1 && block >= 32 && block <= 1024 && block % 32 == 0);
    CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, with_bounds, 0, 0));
    CHECK(block <= 96);
    size_t dynamic_bytes = 0;
    CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic_bytes, with_static, 1, 128));
    CHECK(dynamic_bytes >= 40000);
    std::printf("occupancy: right\n");

    // More than 48 KiB of shared memory must be asked for.
    constexpr int count = 15000;
    Array<int> output(count);
    with_dynamic<<<1, 256, count * sizeof(int)>>>(output.device, count);
    EXPECT(cudaErrorInvalidValue, cudaGetLastError());
    CUDA(cudaFuncSetAttribute(with_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, count * sizeof(int)));
    CUDA(cudaFuncGetAttributes(&attributes, with_dynamic));
    CHECK(attributes.maxDynamicSharedSizeBytes == count * sizeof(int));
    CUDA(cudaFuncSetCacheConfig(with_dynamic, cudaFuncCachePreferShared));
    with_dynamic<<<1, 256, count * sizeof(int)>>>(output.device, count);
    FINISH();
    output.download();
    for (int i = 0; i < count; i++) {
        CHECK(output[i] == 3 * (count - 1 - i));
    }
    std::printf("60000 bytes of shared memory: right\n");

    with_static<<<1, static_ints>>>(output.device);
    FINISH();
    output.download();
    for (int i = 0; i < static_ints; i++) {
        int source = static_ints - 1 - i;
        CHECK(output[i] == source * (source % 10 + 1));
    }

    int device = 0;
    CUDA(cudaGetDevice(&device));
    cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, device));
    CHECK(properties.warpSize == 32);
    CHECK(properties.maxThreadsPerBlock == 1024);
    CHECK(properties.maxThreadsDim[0] == 1024 && properties.maxThreadsDim[2] == 64);
    CHECK(properties.maxGridSize[0] == 2147483647 && properties.maxGridSize[1] == 65535);
    CHECK(properties.sharedMemPerBlock == 49152);
    CHECK(properties.regsPerBlock == 65536);
    CHECK(properties.multiProcessorCount >= 1);
    CHECK(properties.major >= 8);
    CHECK(properties.name[0] != '\0');
    int value = 0;
    CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, device));
    CHECK(value == properties.warpSize);
    CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    CHECK(value == properties.multiProcessorCount);
    CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, device));
    CHECK(value == properties.major);
    std::printf("properties: right\n");
    return pass("occupancy_attributes");
}
