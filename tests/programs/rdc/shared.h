// What the files of this program know of each other.
#pragma once

struct Accumulator {
    int total;
    __device__ void add(int value);
};

extern __device__ int shift;
extern __constant__ int factors[8];
extern __device__ int (*chosen_function)(int);

__device__ int transform(int value);
__device__ int recursive_sum(int value);
__global__ void other_file_kernel(int* data, int count);
