// A kernel that writes where nothing is: the error comes at the next synchronisation and stays; the process lives on.
// The last error is forgotten once it was asked for, but every later call finds the device lost again.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void write(int* address, int value)
{
    *address = value;
}

__global__ void read(const int* address, int* output)
{
    *output = *address;
}

// What a call says once the device is lost; the exact name is in the record.
void require_error(const char* what, cudaError_t status)
{
    std::printf("  %s: %s\n", what, cudaGetErrorName(status));
    CHECK(status != cudaSuccess);
}

// The device is lost to the process afterwards.
void require_lost()
{
    EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
    EXPECT(cudaSuccess, cudaGetLastError());
    require_error("synchronisation", cudaDeviceSynchronize());
    int* data = nullptr;
    require_error("allocation", cudaMalloc(&data, 100));
    std::printf("  last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    write<<<1, 1>>>(data, 1);
    require_error("launch", cudaPeekAtLastError());
}

int lose_by_reading()
{
    int* output = nullptr;
    CUDA(cudaMalloc(&output, sizeof(int)));
    // Far away from everything that was ever allocated.
    const int* nowhere = broken ? output : reinterpret_cast<const int*>(uintptr_t{0x123400000000});
    read<<<1, 1>>>(nowhere, output);
    EXPECT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    std::printf("wild read: %s\n", cudaGetErrorName(cudaErrorIllegalAddress));
    require_lost();
    std::fflush(stdout);
    return 21;
}

int main()
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(lose_by_reading());
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 21);

    int* data = nullptr;
    CUDA(cudaMalloc(&data, sizeof(int)));
    write<<<1, 1>>>(data, 5);
    int value = 0;
    CUDA(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == 5);

    write<<<1, 1>>>(nullptr, 6);
    CUDA(cudaGetLastError());
    // The copy waits for the kernel and so finds its error.
    EXPECT(cudaErrorIllegalAddress, cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    std::printf("null write: %s\n", cudaGetErrorName(cudaErrorIllegalAddress));
    require_lost();
    require_error("free", cudaFree(data));
    CHECK(value == 5);
    return pass("illegal_address");
}
