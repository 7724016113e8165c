// A failed assert on the device: message on stderr, error at the next synchronisation, and no way back.
#include <cassert>
#include <cstring>

#include "capture.h"

__global__ void check_value(int forbidden)
{
    int value = static_cast<int>(threadIdx.x);
    assert(value != forbidden);
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

    // Nothing clears the error.
    EXPECT(cudaErrorAssert, cudaGetLastError());
    EXPECT(cudaErrorAssert, cudaGetLastError());
    EXPECT(cudaErrorAssert, cudaMalloc(&memory, 64));
    EXPECT(cudaErrorAssert, cudaDeviceSynchronize());
    check_value<<<1, 40>>>(1000);
    EXPECT(cudaErrorAssert, cudaGetLastError());
    std::printf("the error stays\n");
    return pass("device_assert");
}
