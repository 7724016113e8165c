// A kernel launched from the main file, and the function behind a pointer.
#include "../check.h"
#include "shared.h"

static __device__ int negate(int value)
{
    return -value;
}

__device__ int (*chosen_function)(int) = negate;

__global__ void other_file_kernel(int* data, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = chosen_function(transform(data[i]));
    }
}
