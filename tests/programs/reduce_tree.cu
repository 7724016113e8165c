// Sum of many integers: a tree in dynamic shared memory for each block, launched again until one number is left.
#include "check.h"

__global__ void reduce(const unsigned* input, unsigned* output, int count)
{
    extern __shared__ unsigned partial[];
    int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    unsigned sum = i < count ? input[i] : 0;
    if (i + static_cast<int>(blockDim.x) < count) {
        sum += input[i + blockDim.x];
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half] + broken;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        output[blockIdx.x] = partial[0];
    }
}

int main()
{
    constexpr int count = 100003;
    constexpr int threads = 256;
    Array<unsigned> numbers(count), scratch(count);
    Random random;
    unsigned expected = 0;
    for (int i = 0; i < count; i++) {
        numbers[i] = random.next();
        expected += numbers[i];
    }
    numbers.upload();

    unsigned* input = numbers.device;
    unsigned* output = scratch.device;
    int left = count;
    while (left > 1) {
        int blocks = blocks_for(left, 2 * threads);
        reduce<<<blocks, threads, threads * sizeof(unsigned)>>>(input, output, left);
        CUDA(cudaGetLastError());
        unsigned* swap = input;
        input = output;
        output = swap;
        left = blocks;
    }
    unsigned sum = 0;
    CUDA(cudaMemcpy(&sum, input, sizeof sum, cudaMemcpyDeviceToHost));
    CHECK(sum == expected);
    std::printf("sum: %u\n", sum);
    return pass("reduce_tree");
}
