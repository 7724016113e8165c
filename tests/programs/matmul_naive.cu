// Matrix product, one thread for each element of the result.
#include "matmul.h"

__global__ void matmul(const float* a, const float* b, float* c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns) {
        return;
    }
    float sum = 0;
    for (int k = broken; k < inner; k++) {
        sum += a[row * inner + k] * b[k * columns + column];
    }
    c[row * columns + column] = sum;
}

int main()
{
    Product product;
    dim3 block(32, 8);
    dim3 grid(blocks_for(columns, block.x), blocks_for(rows, block.y));
    matmul<<<grid, block>>>(product.a.device, product.b.device, product.c.device);
    FINISH();
    product.verify();
    return pass("matmul_naive");
}
