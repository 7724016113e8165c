// A failed assert on the device: message on stderr, error at the next synchronisation, and no way back.
// The last error is forgotten once it was asked for, but every later call finds the device lost again.
#include <cassert>
#include <cstring>

#include "capture.h"

__global__ void check_value(int forbidden)
{
    int value = static_cast<int>(threadIdx.x);
    assert(value != forbidden);
}

// What a call says afterwards; the exact name is in the record.
void require_lost(const char* what, cudaError_t status)
{
    std::printf("%s: %s\n", what, cudaGetErrorName(status));
    CHECK(status != cudaSuccess);
}

int main()
{
    int* memory = nullptr;
    CUDA(cudaMalloc(&memory, 64));
    check_value<<<1, 40>>>(1000);
    FINISH();
    std::printf("held assert: no error\n");

    Capture capture(stderr);
    check_value<<<2, 40>>>(broken ? 1000 : 37);
    cudaError_t launched = cudaGetLastError();
    cudaError_t finished = cudaDeviceSynchronize();
    const char* message = capture.finish();
    std::fputs(message, stderr);

    CUDA(launched);
    EXPECT(cudaErrorAssert, finished);
    std::printf("failed assert: %s\n", cudaGetErrorName(finished));
    CHECK(std::strstr(message, "device_assert.cu:") != nullptr);
    CHECK(std::strstr(message, "check_value(int)") != nullptr);
    // Either block may come first, and it ends the other.
    CHECK(std::strstr(message, "block: [") != nullptr);
    CHECK(std::strstr(message, ",0,0], thread: [37,0,0] Assertion `value != forbidden` failed.") != nullptr);

    EXPECT(cudaErrorAssert, cudaGetLastError());
    EXPECT(cudaSuccess, cudaGetLastError());
    require_lost("allocation", cudaMalloc(&memory, 64));
    require_lost("synchronisation", cudaDeviceSynchronize());
    std::printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    check_value<<<1, 40>>>(1000);
    require_lost("launch", cudaGetLastError());
    std::printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    return pass("device_assert");
}
