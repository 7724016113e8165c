// Matrix transposition, directly and through a padded tile in shared memory.
#include "check.h"

constexpr int width = 217;
constexpr int height = 301;
constexpr int tile = 32;
constexpr int rows_at_once = 8;

__global__ void transpose_direct(const int* input, int* output)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        output[x * height + y] = input[y * width + x];
    }
}

__global__ void transpose_tiled(const int* input, int* output)
{
    // One more column keeps the lanes of a warp in different banks.
    __shared__ int buffer[tile][tile + 1];
    int x = blockIdx.x * tile + threadIdx.x;
    int y = blockIdx.y * tile + threadIdx.y;
    for (int j = 0; j < tile; j += rows_at_once) {
        if (x < width && y + j < height) {
            buffer[threadIdx.y + j][threadIdx.x] = input[(y + j) * width + x];
        }
    }
    __syncthreads();
    x = blockIdx.y * tile + threadIdx.x;
    y = blockIdx.x * tile + threadIdx.y;
    for (int j = 0; j < tile; j += rows_at_once) {
        if (x < height && y + j < width) {
            output[(y + j) * height + x] = buffer[threadIdx.x][threadIdx.y + j] + broken;
        }
    }
}

int main()
{
    constexpr int count = width * height;
    Array<int> input(count), direct(count), tiled(count), expected(count);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            input[y * width + x] = y * 1000 + x;
            expected[x * height + y] = y * 1000 + x;
        }
    }
    input.upload();
    dim3 small(16, 16);
    transpose_direct<<<dim3(blocks_for(width, 16), blocks_for(height, 16)), small>>>(input.device, direct.device);
    dim3 grid(blocks_for(width, tile), blocks_for(height, tile));
    transpose_tiled<<<grid, dim3(tile, rows_at_once)>>>(input.device, tiled.device);
    FINISH();
    direct.download();
    tiled.download();
    COMPARE(direct.host, expected.host, count);
    COMPARE(tiled.host, expected.host, count);
    print_checksum("transposed", tiled.host, count);
    return pass("transpose");
}
