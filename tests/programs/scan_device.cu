// Prefix sums over a long array: scan the blocks, scan the blocks' sums, add them back.
#include "check.h"

constexpr int threads = 256;

__device__ int scan_warp(int value)
{
    int lane = threadIdx.x % 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        int left = __shfl_up_sync(0xffffffffu, value, distance);
        if (lane >= distance) {
            value += left;
        }
    }
    return value;
}

__global__ void scan_blocks(const int* input, int* output, int* sums, int count)
{
    __shared__ int warp_sums[threads / 32];
    int i = blockIdx.x * threads + threadIdx.x;
    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    int value = scan_warp(i < count ? input[i] : 0);
    if (lane == 31) {
        warp_sums[warp] = value;
    }
    __syncthreads();
    for (int before = 0; before < warp; before++) {
        value += warp_sums[before];
    }
    if (i < count) {
        output[i] = value;
    }
    if (sums != nullptr && threadIdx.x == threads - 1) {
        sums[blockIdx.x] = value;
    }
}

__global__ void add_sums(int* output, const int* sums, int count)
{
    int i = blockIdx.x * threads + threadIdx.x;
    if (blockIdx.x > 0 && i < count) {
        output[i] += sums[blockIdx.x - 1] + broken;
    }
}

int main()
{
    constexpr int count = 50021;
    int blocks = blocks_for(count, threads);
    Array<int> input(count), output(count), expected(count), sums(threads), scanned_sums(threads);
    CHECK(blocks <= threads);
    Random random;
    int sum = 0;
    for (int i = 0; i < count; i++) {
        input[i] = random.below(2001) - 1000;
        sum += input[i];
        expected[i] = sum;
    }
    input.upload();
    scan_blocks<<<blocks, threads>>>(input.device, output.device, sums.device, count);
    scan_blocks<<<1, threads>>>(sums.device, scanned_sums.device, nullptr, blocks);
    add_sums<<<blocks, threads>>>(output.device, scanned_sums.device, count);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, count);
    print_checksum("inclusive", output.host, count);
    return pass("scan_device");
}
