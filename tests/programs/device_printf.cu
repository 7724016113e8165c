// printf on the device: conversions compared with the host's own, its result, and its place among the host's lines.
#include <cstring>

#include "capture.h"

// The same calls on host and device; the device's text must equal the host's.
#define CONVERSIONS(print, first) \
    print("plain text, 100%%\n"); \
    print("%d|%5d|%-5d|%05d|%+d|% d|%i\n", first, -42, -42, 42, 42, 42, -7); \
    print("%u|%x|%X|%#x|%o|%#o|%08x\n", 3000000000u, 0xbeefu, 0xbeefu, 0xbeefu, 511u, 511u, 0xbeefu); \
    print("%c%c%c|%s|%10s|%-10s|%.3s\n", 'a', 'b', 'c', "text", "right", "left", "shortened"); \
    print("%lld|%llu|%llx|%ld|%lu\n", -1234567890123ll, 12345678901234567890ull, 0xfedcba9876543210ull, -5l, 5ul); \
    print("%f|%.2f|%10.3f|%-10.1f|%+.0f\n", 1.5, 2.25, -3.125, 4.0, 5.0); \
    print("%e|%.3E|%g|%G|%g\n", 12345.678, 0.00012, 0.0001, 1e20, 100000.0); \
    print("%f|%f|%.12f\n", 1e10, -0.0, 1.0 / 3.0); \
    print("%f %f %f\n", INFINITY, -INFINITY, static_cast<double>(2.5f)); \
    print("%d %d %d %d %d %d %d %d %d %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);

__global__ void print_conversions()
{
    CONVERSIONS(printf, 42 + broken)
}

// Conversions that few programs use; what a real device makes of them is in the record.
// A width or precision of `*` is missing on purpose: no device knows it, and an H200 stopped with an illegal address.
__global__ void print_unusual()
{
    printf("%hd|%hu|%5c|\n", static_cast<short>(-3), static_cast<unsigned short>(65535), 'x');
    printf("%a|%A|% f\n", 1.0, -0.5, 3.5);
}

__global__ void print_results(int* results)
{
    results[0] = printf("no arguments\n");
    results[1] = printf("%d %d %s\n", 1, 2, "three");
}

__global__ void print_in_turn()
{
    for (unsigned turn = 0; turn < blockDim.x; turn++) {
        if (threadIdx.x == turn) {
            printf("lane %u of %u\n", turn, blockDim.x);
        }
        __syncthreads();
    }
}

__global__ void print_number(const char* name, int number)
{
    printf("device %s %d\n", name, number);
}

__device__ char device_name[16] = "string";

void compare_conversions()
{
    Capture capture(stdout);
    print_conversions<<<1, 1>>>();
    FINISH();
    const char* actual = capture.finish();

    static char expected[8192];
    size_t length = 0;
#define APPEND(...) length += std::snprintf(expected + length, sizeof expected - length, __VA_ARGS__)
    CONVERSIONS(APPEND, 42)
#undef APPEND
    std::fputs(actual, stdout);
    if (std::strcmp(actual, expected) != 0) {
        fail(__FILE__, __LINE__, "device printed:\n%s\nexpected:\n%s", actual, expected);
    }
}

int main()
{
    compare_conversions();

    Array<int> results(2);
    print_results<<<1, 1>>>(results.device);
    FINISH();
    results.download();
    std::printf("results: %d %d\n", results[0], results[1]);
    CHECK(results[0] == 0 && results[1] == 3);

    print_unusual<<<1, 1>>>();
    FINISH();
    print_in_turn<<<1, 5>>>();
    FINISH();

    // Text appears at points of synchronisation, so host and device lines alternate.
    char* name = nullptr;
    CUDA(cudaGetSymbolAddress(reinterpret_cast<void**>(&name), device_name));
    cudaStream_t stream;
    cudaEvent_t event;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&event));
    std::printf("host 1\n");
    print_number<<<1, 1>>>(name, 1);
    CUDA(cudaDeviceSynchronize());
    std::printf("host 2\n");
    print_number<<<1, 1, 0, stream>>>(name, 2);
    CUDA(cudaStreamSynchronize(stream));
    std::printf("host 3\n");
    print_number<<<1, 1, 0, stream>>>(name, 3);
    CUDA(cudaEventRecord(event, stream));
    CUDA(cudaEventSynchronize(event));
    CUDA(cudaDeviceSynchronize());
    std::printf("host 4\n");
    print_number<<<1, 1>>>(name, 4);
    results.download();
    CUDA(cudaDeviceSynchronize());
    std::printf("host 5\n");
    // Two launches in one stream keep their order.
    print_number<<<1, 1>>>(name, 5);
    print_number<<<1, 1>>>(name, 6);
    CUDA(cudaDeviceSynchronize());
    return pass("device_printf");
}
