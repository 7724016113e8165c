// Histogram of bytes, once with atomics in global and once in shared memory.
#include "check.h"

constexpr int bins = 256;

__global__ void histogram_global(const unsigned char* data, int count, unsigned* histogram)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&histogram[data[i]], 1u + broken);
    }
}

__global__ void histogram_shared(const unsigned char* data, int count, unsigned* histogram)
{
    __shared__ unsigned local[bins];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        local[bin] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[data[i]], 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        if (local[bin] != 0) {
            atomicAdd(&histogram[bin], local[bin]);
        }
    }
}

int main()
{
    constexpr int count = 100003;
    Array<unsigned char> data(count);
    Array<unsigned> global(bins), shared(bins), expected(bins);
    Random random;
    for (int i = 0; i < count; i++) {
        // Squaring makes some bins far more popular than others, so that atomics collide.
        int value = random.below(bins);
        data[i] = static_cast<unsigned char>(value * value / bins);
        expected[data[i]]++;
    }
    data.upload();
    histogram_global<<<17, 100>>>(data.device, count, global.device);
    histogram_shared<<<11, 160>>>(data.device, count, shared.device);
    FINISH();
    global.download();
    shared.download();
    COMPARE(global.host, expected.host, bins);
    COMPARE(shared.host, expected.host, bins);
    print_checksum("histogram", shared.host, bins);
    return pass("histogram");
}
