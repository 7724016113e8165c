// Sum, minimum and maximum through warp shuffles and warp reductions, with one atomic for each block.
#include "check.h"

struct Result {
    int sum;
    int minimum;
    int maximum;
    unsigned bits;
};

__device__ int warp_sum(int value)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    return value;
}

__global__ void reduce(const int* input, int count, Result* result)
{
    __shared__ int sums[32];
    int sum = 0;
    int minimum = INT32_MAX;
    int maximum = INT32_MIN;
    unsigned bits = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        sum += input[i] + broken;
        minimum = min(minimum, input[i]);
        maximum = max(maximum, input[i]);
        bits ^= input[i];
    }

    int lane = threadIdx.x % warpSize;
    int warp = threadIdx.x / warpSize;
    sum = warp_sum(sum);
    minimum = __reduce_min_sync(0xffffffffu, minimum);
    maximum = __reduce_max_sync(0xffffffffu, maximum);
    bits = __reduce_xor_sync(0xffffffffu, bits);
    if (lane == 0) {
        sums[warp] = sum;
        atomicMin(&result->minimum, minimum);
        atomicMax(&result->maximum, maximum);
        atomicXor(&result->bits, bits);
    }
    __syncthreads();
    if (warp == 0) {
        int total = warp_sum(lane < static_cast<int>(blockDim.x / warpSize) ? sums[lane] : 0);
        if (lane == 0) {
            atomicAdd(&result->sum, total);
        }
    }
}

int main()
{
    constexpr int count = 100003;
    Array<int> numbers(count);
    Array<Result> result(1);
    Result expected = {0, INT32_MAX, INT32_MIN, 0};
    result[0] = expected;
    result.upload();
    Random random;
    for (int i = 0; i < count; i++) {
        int value = random.below(20001) - 10000;
        numbers[i] = value;
        expected.sum += value;
        expected.minimum = value < expected.minimum ? value : expected.minimum;
        expected.maximum = value > expected.maximum ? value : expected.maximum;
        expected.bits ^= static_cast<unsigned>(value);
    }
    numbers.upload();
    reduce<<<13, 192>>>(numbers.device, count, result.device);
    FINISH();
    result.download();
    CHECK(result[0].sum == expected.sum);
    CHECK(result[0].minimum == expected.minimum);
    CHECK(result[0].maximum == expected.maximum);
    CHECK(result[0].bits == expected.bits);
    std::printf("sum %d, minimum %d, maximum %d, xor %08x\n", expected.sum, expected.minimum, expected.maximum,
                expected.bits);
    return pass("reduce_shuffle");
}
