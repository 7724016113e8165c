// fork and CUDA: before the first call both processes may use it; after it, only the parent may.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

constexpr int count = 1001;

__global__ void fill(int* data, int start)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] = start + i + broken;
    }
}

void use_device(int start)
{
    Array<int> data(count);
    fill<<<blocks_for(count, 64), 64>>>(data.device, start);
    FINISH();
    data.download();
    for (int i = 0; i < count; i++) {
        CHECK(data[i] == start + i);
    }
}

// Runs the function in a child and returns its exit code.
template <typename Function>
int in_child(Function function)
{
    std::fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(function());
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main()
{
    int first = in_child([] {
        use_device(1000);
        return 11;
    });
    CHECK(first == 11);
    std::printf("child before the first use: right\n");

    use_device(2000);
    std::printf("parent: right\n");

    int second = in_child([] {
        int* data = nullptr;
        return cudaMalloc(&data, 100) == cudaErrorInitializationError ? 12 : 13;
    });
    CHECK(second == 12);
    std::printf("child after the first use: refused\n");

    // A child that leaves through exit runs all destructors of libraries; the parent must not feel that.
    int third = in_child([]() -> int { std::exit(14); });
    CHECK(third == 14);
    use_device(3000);
    std::printf("parent afterwards: right\n");
    return pass("fork_before_use");
}
