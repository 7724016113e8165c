// cudaDeviceReset forgets everything: memory, modules with their variables, streams; then all starts anew.
#include "check.h"

constexpr int count = 900;

__device__ int variable = 5;

__global__ void work(int* data)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = variable * 1000 + i + broken;
    }
    if (i == 0) {
        variable = 6;
    }
}

void use_device()
{
    int* data = nullptr;
    CUDA(cudaMalloc(&data, count * sizeof(int)));
    work<<<1, 1>>>(data);
    CUDA(cudaDeviceSynchronize());
    int one = 0;
    CUDA(cudaMemcpy(&one, data, sizeof one, cudaMemcpyDeviceToHost));
    CHECK(one == 5000);
    work<<<blocks_for(count, 64), 64>>>(data);
    static int result[count];
    CUDA(cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        CHECK(result[i] == 6000 + i);
    }
}

int main()
{
    for (int round = 0; round < 3; round++) {
        // The memory and the stream are left to the reset.
        cudaStream_t stream;
        CUDA(cudaStreamCreate(&stream));
        use_device();
        CUDA(cudaDeviceReset());
        std::printf("round %d: right\n", round);
    }
    EXPECT(cudaErrorInvalidValue, cudaMemset(nullptr, 0, 8));
    CUDA(cudaDeviceReset());
    std::printf("last error after a reset: %s\n", cudaGetErrorName(cudaGetLastError()));
    use_device();
    return pass("device_reset");
}
