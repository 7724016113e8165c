// Calls through pointers to device functions: a table, a pointer that the host passes on, templates and lambdas.
#include "check.h"

using Operation = int (*)(int, int);

__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b + broken; }
__device__ __noinline__ int larger(int a, int b) { return a > b ? a : b; }

__device__ Operation table[] = {add, subtract, multiply, larger};
__device__ Operation chosen = multiply;

// Neighbouring lanes call different functions.
__global__ void call_table(int* output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = table[i % 4](i, 3);
    }
}

__global__ void call_pointer(Operation operation, int* output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = operation(output[i], i);
    }
}

struct Twice {
    int offset;
    __device__ int operator()(int value) const { return 2 * value + offset; }
};

template <typename Function>
__global__ void apply(Function function, int* output, int count)
{
    auto square = [](int value) { return value * value; };
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        output[i] = function(square(output[i] % 100));
    }
}

int call_on_host(int which, int a, int b)
{
    switch (which) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    default: return a > b ? a : b;
    }
}

int main()
{
    constexpr int count = 1003;
    Array<int> output(count), expected(count);
    Operation operation = nullptr;
    CUDA(cudaMemcpyFromSymbol(&operation, chosen, sizeof operation));
    call_table<<<blocks_for(count, 96), 96>>>(output.device, count);
    call_pointer<<<blocks_for(count, 96), 96>>>(operation, output.device, count);
    apply<<<blocks_for(count, 96), 96>>>(Twice{5}, output.device, count);
    FINISH();
    output.download();
    for (int i = 0; i < count; i++) {
        int value = call_on_host(i % 4, i, 3) * i % 100;
        expected[i] = 2 * value * value + 5;
    }
    COMPARE(output.host, expected.host, count);
    print_checksum("results", output.host, count);
    return pass("function_pointers");
}
