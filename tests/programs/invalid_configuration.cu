// Launches and calls that must be refused, each with its own error, and after each of which the device works on.
#include "check.h"

__device__ int counter;

__global__ void increment()
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        counter += 1 + broken;
    }
}

__global__ void __launch_bounds__(64) bounded()
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        counter += 1000;
    }
}

// How often the kernel has run must be what we think.
void require_count(int expected)
{
    int value = -1;
    CUDA(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    CHECK(value == expected);
}

int runs = 0;

// The refusal is remembered once, and the next launch works.
void require_refused(const char* what, cudaError_t status)
{
    std::printf("%s: %s, remembered: %s\n", what, cudaGetErrorName(status), cudaGetErrorName(cudaGetLastError()));
    CHECK(status != cudaSuccess);
    EXPECT(cudaSuccess, cudaGetLastError());
    increment<<<1, 1>>>();
    FINISH();
    require_count(++runs);
}

void require_launch_refused(const char* what, dim3 grid, dim3 block, size_t shared_bytes)
{
    increment<<<grid, block, shared_bytes>>>();
    require_refused(what, cudaPeekAtLastError());
}

int main()
{
    increment<<<1, 1024>>>();
    FINISH();
    require_count(++runs);

    require_launch_refused("1025 threads", 1, 1025, 0);
    require_launch_refused("33 x 32 threads", 1, dim3(33, 32), 0);
    require_launch_refused("65 layers of threads", 1, dim3(1, 1, 65), 0);
    require_launch_refused("no blocks", 0, 32, 0);
    require_launch_refused("no blocks in y", dim3(1, 0), 32, 0);
    require_launch_refused("no threads", 1, 0, 0);
    require_launch_refused("65536 blocks in y", dim3(1, 65536), 32, 0);
    require_launch_refused("65536 blocks in z", dim3(1, 1, 65536), 32, 0);
    require_launch_refused("1 MiB of shared memory", 1, 32, 1 << 20);
    require_launch_refused("64 KiB of shared memory without asking", 1, 32, 64 << 10);

    bounded<<<1, 65>>>();
    require_refused("more threads than the launch bound", cudaPeekAtLastError());

    char bytes[16] = {};
    void* pointer = nullptr;
    CUDA(cudaMalloc(&pointer, 16));
    require_refused("copy in no direction", cudaMemcpy(pointer, bytes, 16, static_cast<cudaMemcpyKind>(77)));
    require_refused("set at null", cudaMemset(nullptr, 0, 16));
    require_refused("free of a host variable", cudaFree(bytes));
    require_refused("device 1000", cudaSetDevice(1000));
    require_refused("device -1", cudaSetDevice(-1));
    cudaDeviceProp properties;
    require_refused("properties of device 1000", cudaGetDeviceProperties(&properties, 1000));
    require_refused("malloc into null", cudaMalloc(static_cast<void**>(nullptr), 16));
    require_refused("pitch below the width", cudaMemcpy2D(pointer, 2, bytes, 4, 4, 2, cudaMemcpyHostToDevice));
    cudaEvent_t first, second;
    CUDA(cudaEventCreate(&first));
    CUDA(cudaEventCreate(&second));
    float milliseconds;
    require_refused("time between events never recorded", cudaEventElapsedTime(&milliseconds, first, second));
    CUDA(cudaFree(pointer));
    require_refused("second free", cudaFree(pointer));
    CUDA(cudaFree(nullptr));
    std::printf("copy of nothing: %s\n", cudaGetErrorName(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice)));
    return pass("invalid_configuration");
}
