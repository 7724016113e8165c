// Matrix product through tiles in shared memory; no size is a multiple of the tile.
#include "matmul.h"

constexpr int tile = 16;

__global__ void matmul(const float* a, const float* b, float* c)
{
    __shared__ float tile_a[tile][tile];
    __shared__ float tile_b[tile][tile];
    int row = blockIdx.y * tile + threadIdx.y;
    int column = blockIdx.x * tile + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < inner; start += tile) {
        int k_a = start + threadIdx.x;
        int k_b = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < rows && k_a < inner ? a[row * inner + k_a] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = k_b < inner && column < columns ? b[k_b * columns + column] : 0.0f;
        __syncthreads();
        for (int k = broken; k < tile; k++) {
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        }
        __syncthreads();
    }
    if (row < rows && column < columns) {
        c[row * columns + column] = sum;
    }
}

int main()
{
    Product product;
    dim3 grid(blocks_for(columns, tile), blocks_for(rows, tile));
    matmul<<<grid, dim3(tile, tile)>>>(product.a.device, product.b.device, product.c.device);
    FINISH();
    product.verify();
    return pass("matmul_tiled");
}
