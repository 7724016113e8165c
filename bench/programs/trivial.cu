// The smallest program that uses the device, for what `cuttle run` adds to a program's time. Without a device it says so.
#include <cstdio>

__global__ void answer(int *result)
{
    *result = 42;
}

int main()
{
    int *device = nullptr, result = 0;
    if (cudaMalloc(&device, sizeof result) != cudaSuccess) {
        std::puts("no device");
        return 0;
    }
    answer<<<1, 1>>>(device);
    cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost);
    cudaFree(device);
    std::printf("%d\n", result);
    return result == 42 ? 0 : 1;
}
