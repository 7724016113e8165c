// Heat spreading over a plate: five-point stencil with a halo in shared memory, several steps between two buffers.
// Built with -fmad=false, so that host and device round alike.
#include <utility>

#include "check.h"

constexpr int width = 131;
constexpr int height = 97;
constexpr int steps = 12;
constexpr int tile_width = 32;
constexpr int tile_height = 8;

__host__ __device__ float spread(float centre, float north, float south, float west, float east)
{
    return centre + 0.2f * (north + south + west + east - 4.0f * centre);
}

__device__ float read(const float* plate, int x, int y)
{
    return x >= 0 && x < width && y >= 0 && y < height ? plate[y * width + x] : 0.0f;
}

__global__ void step(const float* input, float* output)
{
    __shared__ float tile[tile_height + 2][tile_width + 2];
    int x = blockIdx.x * tile_width + threadIdx.x;
    int y = blockIdx.y * tile_height + threadIdx.y;
    int column = threadIdx.x + 1;
    int row = threadIdx.y + 1;
    tile[row][column] = read(input, x, y);
    if (threadIdx.x == 0) {
        tile[row][0] = read(input, x - 1, y);
    }
    if (threadIdx.x == tile_width - 1) {
        tile[row][tile_width + 1] = read(input, x + 1, y);
    }
    if (threadIdx.y == 0) {
        tile[0][column] = read(input, x, y - 1);
    }
    if (threadIdx.y == tile_height - 1) {
        tile[tile_height + 1][column] = read(input, x, y + 1);
    }
    __syncthreads();
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1) {
        output[y * width + x] = spread(tile[row][column + broken], tile[row - 1][column], tile[row + 1][column],
                                       tile[row][column - 1], tile[row][column + 1]);
    }
}

int main()
{
    Array<float> first(width * height), second(width * height), expected(width * height), scratch(width * height);
    Random random;
    for (int i = 0; i < width * height; i++) {
        float heat = static_cast<float>(random.below(1000));
        first[i] = second[i] = expected[i] = scratch[i] = heat;
    }
    first.upload();
    second.upload();

    float* input = first.device;
    float* output = second.device;
    float* from = expected.host;
    float* to = scratch.host;
    dim3 grid(blocks_for(width, tile_width), blocks_for(height, tile_height));
    for (int i = 0; i < steps; i++) {
        step<<<grid, dim3(tile_width, tile_height)>>>(input, output);
        std::swap(input, output);
        for (int y = 1; y < height - 1; y++) {
            for (int x = 1; x < width - 1; x++) {
                const float* centre = from + y * width + x;
                to[y * width + x] = spread(*centre, centre[-width], centre[width], centre[-1], centre[1]);
            }
        }
        std::swap(from, to);
    }
    FINISH();
    CUDA(cudaMemcpy(first.host, input, first.bytes(), cudaMemcpyDeviceToHost));
    COMPARE(first.host, from, first.count);
    print_checksum("plate", first.host, first.count);
    return pass("stencil2d");
}
