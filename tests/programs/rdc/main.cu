// A program of several files with relocatable device code: calls and variables across files are linked by name.
#include "../check.h"
#include "shared.h"

static __device__ int private_value = 50000;

__global__ void main_file_kernel(int* data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        Accumulator accumulator = {0};
        accumulator.add(transform(i));
        accumulator.add(recursive_sum(i % 10));
        accumulator.add(private_value);
        data[i] = accumulator.total;
    }
}

int main()
{
    constexpr int count = 1009;
    Array<int> data(count), expected(count);
    main_file_kernel<<<blocks_for(count, 128), 128>>>(data.device, count);
    FINISH();
    data.download();
    for (int i = 0; i < count; i++) {
        expected[i] = i * (i % 8 + 1) + 100 + 1 + (i % 10) * (i % 10 + 1) / 2 + 50000;
    }
    COMPARE(data.host, expected.host, count);
    print_checksum("first", data.host, count);

    // The host changes variables that another file defines.
    int new_shift = -7;
    const int new_factors[8] = {8, 7, 6, 5, 4, 3, 2, 1};
    CUDA(cudaMemcpyToSymbol(shift, &new_shift, sizeof new_shift));
    CUDA(cudaMemcpyToSymbol(factors, new_factors, sizeof new_factors));
    for (int i = 0; i < count; i++) {
        data[i] = i;
        expected[i] = -(i * (8 - i % 8) - 7 + 1);
    }
    data.upload();
    other_file_kernel<<<blocks_for(count, 128), 128>>>(data.device, count);
    FINISH();
    data.download();
    COMPARE(data.host, expected.host, count);
    print_checksum("second", data.host, count);
    return pass("rdc");
}
