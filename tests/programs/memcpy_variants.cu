// Copies and fills: one, two and three dimensions, all directions, asynchronous, with 8, 16 and 32 bit patterns.
#include <cstring>

#include <cuda.h>

#include "check.h"

constexpr int width = 37;
constexpr int height = 21;
constexpr int depth = 5;

__global__ void increment_pitched(char* data, size_t pitch)
{
    int x = threadIdx.x;
    int y = blockIdx.x;
    if (x < width) {
        reinterpret_cast<int*>(data + y * pitch)[x] += 1 + broken;
    }
}

// Host rows are longer than what is copied, and the rest must stay as it is.
void two_dimensions()
{
    constexpr int host_width = width + 6;
    static int source[height][host_width];
    static int target[height][host_width];
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < host_width; x++) {
            source[y][x] = y * 100 + x;
            target[y][x] = -1;
        }
    }
    char* first = nullptr;
    char* second = nullptr;
    size_t first_pitch = 0;
    size_t second_pitch = 0;
    constexpr size_t row = width * sizeof(int);
    CUDA(cudaMallocPitch(&first, &first_pitch, row, height));
    CUDA(cudaMallocPitch(&second, &second_pitch, 4 * row, height));
    CHECK(first_pitch >= row && first_pitch % 32 == 0);
    CUDA(cudaMemcpy2D(first, first_pitch, source, sizeof source[0], row, height, cudaMemcpyHostToDevice));
    increment_pitched<<<height, 64>>>(first, first_pitch);
    CUDA(cudaMemcpy2DAsync(second, second_pitch, first, first_pitch, row, height, cudaMemcpyDeviceToDevice));
    CUDA(cudaMemcpy2D(&target[0][3], sizeof target[0], second, second_pitch, row, height, cudaMemcpyDefault));
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < host_width; x++) {
            bool copied = x >= 3 && x < 3 + width;
            CHECK(target[y][x] == (copied ? y * 100 + x - 3 + 1 : -1));
        }
    }
    // A column of bytes in the middle.
    CUDA(cudaMemset2D(first + 8, first_pitch, 0xab, 5, height - 1));
    CUDA(cudaMemcpy2D(target, sizeof target[0], first, first_pitch, row, height, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; y++) {
        bool set = y < height - 1;
        CHECK(target[y][1] == y * 100 + 2);
        CHECK(static_cast<unsigned>(target[y][2]) == (set ? 0xababababu : y * 100 + 3u));
        CHECK((target[y][3] & 0xff) == (set ? 0xab : (y * 100 + 4) & 0xff));
        CHECK(target[y][3] >> 8 == (y * 100 + 4) >> 8);
    }
    CUDA(cudaFree(first));
    CUDA(cudaFree(second));
    std::printf("two dimensions: right\n");
}

void three_dimensions()
{
    static int source[depth][height][width];
    static int target[depth][height][width];
    for (int z = 0; z < depth; z++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                source[z][y][x] = (z * 100 + y) * 100 + x;
            }
        }
    }
    cudaPitchedPtr volume;
    cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
    CUDA(cudaMalloc3D(&volume, extent));
    CUDA(cudaMemset3D(volume, 0xff, extent));
    // The inner part only, with an offset on both sides.
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(source, width * sizeof(int), width, height);
    copy.dstPtr = volume;
    copy.srcPos = make_cudaPos(4, 1, 1);
    copy.dstPos = make_cudaPos(8, 2, 0);
    copy.extent = make_cudaExtent((width - 5) * sizeof(int), height - 3, depth - 2);
    copy.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&copy));
    cudaMemcpy3DParms back = {};
    back.srcPtr = volume;
    back.dstPtr = make_cudaPitchedPtr(target, width * sizeof(int), width, height);
    back.extent = extent;
    back.kind = cudaMemcpyDeviceToHost;
    CUDA(cudaMemcpy3DAsync(&back, 0));
    CUDA(cudaDeviceSynchronize());
    for (int z = 0; z < depth; z++) {
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                bool inside = z < depth - 2 && y >= 2 && y < 2 + height - 3 && x >= 2 && x < 2 + width - 5;
                int expected = inside ? ((z + 1) * 100 + y - 1) * 100 + x - 1 : -1;
                CHECK(target[z][y][x] == expected);
            }
        }
    }
    CUDA(cudaFree(volume.ptr));

    // Through an array, whose layout is the device's secret.
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    CUDA(cudaMalloc3DArray(&array, &format, make_cudaExtent(width, height, depth)));
    cudaMemcpy3DParms in = {};
    in.srcPtr = make_cudaPitchedPtr(source, width * sizeof(int), width, height);
    in.dstArray = array;
    in.extent = make_cudaExtent(width, height, depth);
    in.kind = cudaMemcpyHostToDevice;
    CUDA(cudaMemcpy3D(&in));
    cudaMemcpy3DParms out = {};
    out.srcArray = array;
    out.dstPtr = make_cudaPitchedPtr(target, width * sizeof(int), width, height);
    out.extent = make_cudaExtent(width, height, depth);
    out.kind = cudaMemcpyDeviceToHost;
    CUDA(cudaMemcpy3D(&out));
    CHECK(std::memcmp(source, target, sizeof source) == 0);
    CUDA(cudaFreeArray(array));
    std::printf("three dimensions: right\n");
}

void one_dimension()
{
    constexpr int count = 5009;
    static unsigned char source[count];
    static unsigned char target[count];
    for (int i = 0; i < count; i++) {
        source[i] = static_cast<unsigned char>(i * 7);
    }
    unsigned char* first = nullptr;
    unsigned char* second = nullptr;
    CUDA(cudaMalloc(&first, count));
    CUDA(cudaMalloc(&second, count));
    // Odd offsets in every step; the kind is found out from the pointers.
    CUDA(cudaMemcpy(first, source, count, cudaMemcpyDefault));
    CUDA(cudaMemset(second, 0x5a, count));
    CUDA(cudaMemcpy(second + 3, first + 1, 1001, cudaMemcpyDefault));
    CUDA(cudaMemcpy(target, second, count, cudaMemcpyDefault));
    for (int i = 0; i < count; i++) {
        CHECK(target[i] == (i >= 3 && i < 1004 ? source[i - 2] : 0x5a));
    }
    CUDA(cudaMemcpy(target, source, count, cudaMemcpyHostToHost));
    CHECK(std::memcmp(source, target, count) == 0);

    // Ordinary host memory may be overwritten as soon as the asynchronous call has returned.
    static unsigned char changing[count];
    std::memset(changing, 1, count);
    CUDA(cudaMemcpyAsync(first, changing, count, cudaMemcpyHostToDevice));
    std::memset(changing, 2, count);
    CUDA(cudaMemcpyAsync(second, changing, count, cudaMemcpyHostToDevice));
    std::memset(changing, 3, count);
    CUDA(cudaMemcpy(target, first, count, cudaMemcpyDeviceToHost));
    CHECK(target[0] == 1 && target[count - 1] == 1);
    CUDA(cudaMemcpy(target, second, count, cudaMemcpyDeviceToHost));
    CHECK(target[0] == 2 && target[count - 1] == 2);
    CUDA(cudaFree(first));
    CUDA(cudaFree(second));
    std::printf("one dimension: right\n");
}

template <typename Function>
Function driver_function(const char* name, unsigned version)
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CUDA(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSuccess && function != nullptr);
    return reinterpret_cast<Function>(function);
}

// Wide patterns exist only in the driver's own interface.
void patterns()
{
    constexpr int count = 1003;
    auto set_16 = driver_function<CUresult (*)(CUdeviceptr, unsigned short, size_t)>("cuMemsetD16", 3020);
    auto set_32 = driver_function<CUresult (*)(CUdeviceptr, unsigned, size_t)>("cuMemsetD32", 3020);
    auto set_2d = driver_function<CUresult (*)(CUdeviceptr, size_t, unsigned, size_t, size_t)>("cuMemsetD2D32", 3020);
    Array<unsigned> words(count);
    CUdeviceptr address = reinterpret_cast<CUdeviceptr>(words.device);
    CHECK(set_32(address, 0xdeadbeefu, count) == CUDA_SUCCESS);
    CHECK(set_16(address + 400, 0x1234, 101) == CUDA_SUCCESS);
    CHECK(set_2d(address + 2000, 80, 0xcafef00du, 3, 10) == CUDA_SUCCESS);
    words.download();
    for (int i = 0; i < count; i++) {
        unsigned expected = 0xdeadbeefu;
        if (i >= 100 && i < 150) {
            expected = 0x12341234u;
        } else if (i == 150) {
            expected = 0xdead1234u;
        } else if (i >= 500 && i < 700 && (i - 500) % 20 < 3) {
            expected = 0xcafef00du;
        }
        CHECK(words[i] == expected);
    }
    std::printf("patterns: right\n");
}

int main()
{
    one_dimension();
    two_dimensions();
    three_dimensions();
    patterns();
    return pass("memcpy_variants");
}
