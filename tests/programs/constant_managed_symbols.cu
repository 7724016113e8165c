// Variables of the device that the host names: __constant__, __device__ and __managed__, with offsets and addresses.
#include "check.h"

struct Setting {
    int scale;
    short offset;
    double factor;
};

__constant__ int table[64];
__constant__ Setting setting = {2, 3, 0.5};
__device__ int initialised[4] = {10, 20, 30, 40};
__device__ unsigned long long counter;
__managed__ int managed_values[100];
__managed__ int managed_total = 5;

namespace {
__device__ int hidden = 7;
}

__global__ void use_symbols(int* output)
{
    int i = threadIdx.x;
    output[i] = table[i % 64] * setting.scale + setting.offset + static_cast<int>(setting.factor * 8)
                + initialised[i % 4] + hidden + broken;
    managed_values[i] += i;
    atomicAdd(&managed_total, 1);
    atomicAdd(&counter, static_cast<unsigned long long>(i) << 32);
}

__global__ void write_symbols()
{
    initialised[2] = initialised[1] + initialised[3];
    hidden = 70;
}

int main()
{
    constexpr int count = 100;
    int squares[64];
    for (int i = 0; i < 64; i++) {
        squares[i] = i * i;
    }
    // In two pieces, the second with an offset.
    CUDA(cudaMemcpyToSymbol(table, squares, 16 * sizeof(int)));
    CUDA(cudaMemcpyToSymbolAsync(table, squares + 16, 48 * sizeof(int), 16 * sizeof(int), cudaMemcpyHostToDevice));
    for (int i = 0; i < count; i++) {
        managed_values[i] = 1000;
    }

    Array<int> output(count), expected(count);
    const int start[4] = {10, 20, 30, 40};
    for (int i = 0; i < count; i++) {
        expected[i] = squares[i % 64] * 2 + 3 + 4 + start[i % 4] + 7;
    }
    use_symbols<<<1, count>>>(output.device);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, count);
    print_checksum("first", output.host, count);

    CHECK(managed_total == 5 + count);
    for (int i = 0; i < count; i++) {
        CHECK(managed_values[i] == 1000 + i);
    }
    unsigned long long counted = 0;
    CUDA(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
    CHECK(counted == 4950ull << 32);

    // The setting is replaced as a whole, and the variable without a public name through a write on the device.
    Setting other = {-3, 100, 2.0};
    CUDA(cudaMemcpyToSymbol(setting, &other, sizeof other));
    write_symbols<<<1, 1>>>();
    use_symbols<<<1, count>>>(output.device);
    FINISH();
    output.download();
    const int changed[4] = {10, 20, 60, 40};
    for (int i = 0; i < count; i++) {
        expected[i] = squares[i % 64] * -3 + 100 + 16 + changed[i % 4] + 70;
    }
    COMPARE(output.host, expected.host, count);
    print_checksum("second", output.host, count);

    int third = 0;
    CUDA(cudaMemcpyFromSymbol(&third, initialised, sizeof third, 2 * sizeof(int)));
    CHECK(third == 60);

    void* address = nullptr;
    size_t bytes = 0;
    CUDA(cudaGetSymbolAddress(&address, initialised));
    CUDA(cudaGetSymbolSize(&bytes, initialised));
    CHECK(bytes == 4 * sizeof(int));
    int values[4];
    CUDA(cudaMemcpy(values, address, sizeof values, cudaMemcpyDefault));
    COMPARE(values, changed, 4);
    EXPECT(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, squares, sizeof squares, 4));
    return pass("constant_managed_symbols");
}
