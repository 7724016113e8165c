// Memory allocated and freed in stream order, and the attributes of its pools.
#include "check.h"

__global__ void fill(int* data, int count, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = value + i + broken;
    }
}

__global__ void add(int* output, const int* data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] += data[i];
    }
}

int main()
{
    int device = 0;
    int supported = 0;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device));
    CHECK(supported == 1);

    constexpr int count = 4099;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    Array<int> output(count);
    constexpr int rounds = 20;
    for (int round = 0; round < rounds; round++) {
        int* data = nullptr;
        CUDA(cudaMallocAsync(&data, count * sizeof(int), stream));
        fill<<<blocks_for(count, 256), 256, 0, stream>>>(data, count, round);
        add<<<blocks_for(count, 256), 256, 0, stream>>>(output.device, data, count);
        CUDA(cudaFreeAsync(data, stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    output.download();
    for (int i = 0; i < count; i++) {
        CHECK(output[i] == rounds * i + rounds * (rounds - 1) / 2);
    }
    std::printf("stream order: right\n");

    cudaMemPool_t pool;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
    uint64_t threshold = 1 << 20;
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    uint64_t read_back = 0;
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read_back));
    CHECK(read_back == threshold);
    uint64_t used = 1;
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 0);
    int* kept = nullptr;
    CUDA(cudaMallocAsync(&kept, 100000, stream));
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    uint64_t reserved = 0;
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    CHECK(used >= 100000 && reserved >= used);
    CUDA(cudaFreeAsync(kept, stream));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaMemPoolTrimTo(pool, 0));
    std::printf("default pool: right\n");

    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    cudaMemPool_t own_pool;
    CUDA(cudaMemPoolCreate(&own_pool, &properties));
    int* data = nullptr;
    CUDA(cudaMallocFromPoolAsync(&data, count * sizeof(int), own_pool, stream));
    CUDA(cudaMemsetAsync(output.device, 0, output.bytes(), stream));
    fill<<<blocks_for(count, 256), 256, 0, stream>>>(data, count, 9);
    add<<<blocks_for(count, 256), 256, 0, stream>>>(output.device, data, count);
    CUDA(cudaStreamSynchronize(stream));
    // cudaFree takes such memory too.
    CUDA(cudaFree(data));
    CUDA(cudaMemPoolDestroy(own_pool));
    output.download();
    for (int i = 0; i < count; i++) {
        CHECK(output[i] == 9 + i);
    }
    CUDA(cudaStreamDestroy(stream));
    std::printf("own pool: right\n");
    return pass("async_allocator");
}
