// Requests for absurd amounts of memory are refused, and normal work goes on.
#include "check.h"

__global__ void fill(int* data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = i + broken;
    }
}

void require_working()
{
    constexpr int count = 777;
    Array<int> data(count);
    fill<<<blocks_for(count, 256), 256>>>(data.device, count);
    FINISH();
    data.download();
    for (int i = 0; i < count; i++) {
        CHECK(data[i] == i);
    }
}

int main()
{
    size_t available = 0;
    size_t total = 0;
    CUDA(cudaMemGetInfo(&available, &total));
    CHECK(available > 0 && available <= total);

    // More than any device has, and more than this one has.
    for (size_t bytes : {size_t{1} << 50, total * 2}) {
        void* pointer = nullptr;
        EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&pointer, bytes));
        CHECK(pointer == nullptr);
        EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
        EXPECT(cudaSuccess, cudaGetLastError());
        require_working();
    }
    std::printf("cudaMalloc: %s\n", cudaGetErrorName(cudaErrorMemoryAllocation));

    // A size that overflows when it is rounded up.
    void* pointer = nullptr;
    std::printf("largest size: %s\n", cudaGetErrorName(cudaMalloc(&pointer, SIZE_MAX - 3)));
    cudaGetLastError();
    CHECK(pointer == nullptr);
    require_working();

    size_t pitch = 0;
    EXPECT(cudaErrorMemoryAllocation, cudaMallocPitch(&pointer, &pitch, size_t{1} << 30, size_t{1} << 20));
    cudaGetLastError();
    require_working();
    std::printf("cudaMallocPitch: %s\n", cudaGetErrorName(cudaErrorMemoryAllocation));

    EXPECT(cudaErrorMemoryAllocation, cudaMallocAsync(&pointer, size_t{1} << 50, nullptr));
    cudaGetLastError();
    require_working();
    std::printf("cudaMallocAsync: %s\n", cudaGetErrorName(cudaErrorMemoryAllocation));

    // A size of zero gives no memory and no error.
    pointer = &pitch;
    CUDA(cudaMalloc(&pointer, 0));
    CHECK(pointer == nullptr);
    CUDA(cudaFree(pointer));
    return pass("out_of_memory");
}
