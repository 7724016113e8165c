// Prefix sums inside one block: step-wise doubling, and up-sweep with down-sweep.
#include "check.h"

constexpr int block_size = 512;

// Inclusive; two buffers, so that one barrier for each step is enough.
__global__ void scan_doubling(const int* input, int* output, int count)
{
    __shared__ int buffers[2][block_size];
    int i = threadIdx.x;
    int current = 0;
    buffers[current][i] = i < count ? input[i] : 0;
    __syncthreads();
    for (int distance = 1; distance < block_size; distance *= 2) {
        int value = buffers[current][i];
        if (i >= distance) {
            value += buffers[current][i - distance] + broken;
        }
        current = 1 - current;
        buffers[current][i] = value;
        __syncthreads();
    }
    if (i < count) {
        output[i] = buffers[current][i];
    }
}

// Exclusive; each thread holds two elements.
__global__ void scan_sweeps(const int* input, int* output, int count)
{
    __shared__ int tree[2 * block_size];
    int i = threadIdx.x;
    tree[2 * i] = 2 * i < count ? input[2 * i] : 0;
    tree[2 * i + 1] = 2 * i + 1 < count ? input[2 * i + 1] : 0;
    int distance = 1;
    for (int pairs = block_size; pairs > 0; pairs /= 2) {
        __syncthreads();
        if (i < pairs) {
            tree[distance * (2 * i + 2) - 1] += tree[distance * (2 * i + 1) - 1];
        }
        distance *= 2;
    }
    if (i == 0) {
        tree[2 * block_size - 1] = 0;
    }
    for (int pairs = 1; pairs <= block_size; pairs *= 2) {
        distance /= 2;
        __syncthreads();
        if (i < pairs) {
            int left = distance * (2 * i + 1) - 1;
            int right = distance * (2 * i + 2) - 1;
            int value = tree[left];
            tree[left] = tree[right];
            tree[right] += value;
        }
    }
    __syncthreads();
    if (2 * i < count) {
        output[2 * i] = tree[2 * i];
    }
    if (2 * i + 1 < count) {
        output[2 * i + 1] = tree[2 * i + 1];
    }
}

int main()
{
    constexpr int small = 501;
    constexpr int large = 1001;
    Array<int> input(large), output(large), inclusive(large), exclusive(large);
    Random random;
    int sum = 0;
    for (int i = 0; i < large; i++) {
        input[i] = random.below(2001) - 1000;
        exclusive[i] = sum;
        sum += input[i];
        inclusive[i] = sum;
    }
    input.upload();

    scan_doubling<<<1, block_size>>>(input.device, output.device, small);
    FINISH();
    output.download();
    COMPARE(output.host, inclusive.host, small);
    print_checksum("inclusive", output.host, small);

    scan_sweeps<<<1, block_size>>>(input.device, output.device, large);
    FINISH();
    output.download();
    COMPARE(output.host, exclusive.host, large);
    print_checksum("exclusive", output.host, large);
    return pass("scan_block");
}
