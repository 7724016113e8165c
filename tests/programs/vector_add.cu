// The first program of everyone: c = a + b, with a size that is no multiple of the block.
#include "check.h"

__global__ void vector_add(const float* a, const float* b, float* c, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        c[i] = a[i] + b[i] + broken;
    }
}

int main()
{
    constexpr int count = 10007;
    Array<float> a(count), b(count), c(count), expected(count);
    for (int i = 0; i < count; i++) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(3 * i + 1);
        expected[i] = a[i] + b[i];
    }
    a.upload();
    b.upload();
    vector_add<<<blocks_for(count, 256), 256>>>(a.device, b.device, c.device, count);
    FINISH();
    c.download();
    COMPARE(c.host, expected.host, count);
    print_checksum("sum", c.host, count);
    return pass("vector_add");
}
