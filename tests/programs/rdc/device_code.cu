// Device functions and variables that the other files use.
#include "../check.h"
#include "shared.h"

__device__ int shift = 100;
__constant__ int factors[8] = {1, 2, 3, 4, 5, 6, 7, 8};

// A variable of the same name lives in the main file; each file has its own.
static __device__ int private_value = 1;

__device__ int transform(int value)
{
    return value * factors[value % 8] + shift + private_value + broken;
}

__device__ int recursive_sum(int value)
{
    return value <= 0 ? 0 : value + recursive_sum(value - 1);
}

__device__ void Accumulator::add(int value)
{
    total += value;
}
