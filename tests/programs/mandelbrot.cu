// Escape times of the Mandelbrot set: a loop of different length in each lane. Built with -fmad=false, so that host
// and device round alike and every count is equal.
#include "check.h"

constexpr int width = 190;
constexpr int height = 130;
constexpr int limit = 150;

__host__ __device__ int escape_time(float real, float imaginary)
{
    float x = 0;
    float y = 0;
    int iteration = 0;
    while (iteration < limit && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + real;
        y = 2.0f * x * y + imaginary;
        x = next;
        iteration++;
    }
    return iteration;
}

__host__ __device__ int escape_time_of_pixel(int column, int row)
{
    // Powers of two keep the coordinates exact.
    return escape_time(static_cast<float>(column - 130) / 64.0f, static_cast<float>(row - 65) / 64.0f);
}

__global__ void mandelbrot(int* image)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height) {
        image[row * width + column] = escape_time_of_pixel(column + broken, row);
    }
}

int main()
{
    Array<int> image(width * height), expected(width * height);
    for (int row = 0; row < height; row++) {
        for (int column = 0; column < width; column++) {
            expected[row * width + column] = escape_time_of_pixel(column, row);
        }
    }
    dim3 block(16, 8);
    mandelbrot<<<dim3(blocks_for(width, block.x), blocks_for(height, block.y)), block>>>(image.device);
    FINISH();
    image.download();
    COMPARE(image.host, expected.host, image.count);
    print_checksum("image", image.host, image.count);
    return pass("mandelbrot");
}
