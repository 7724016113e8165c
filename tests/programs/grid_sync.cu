// A cooperative launch: all blocks meet at a barrier of the grid, several times.
#include <cooperative_groups.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int blocks = 5;
constexpr int threads = 64;
constexpr int count = blocks * threads;

// Each round, every thread reads what a thread of another block wrote in the round before.
__global__ void pass_around(int* first, int* second, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    int i = static_cast<int>(grid.thread_rank());
    int size = static_cast<int>(grid.size());
    int* from = first;
    int* to = second;
    for (int round = 0; round < rounds; round++) {
        to[i] = from[(i + threads + 1) % size] + 1 + broken;
        grid.sync();
        int* swap = from;
        from = to;
        to = swap;
    }
    // The result is in the first array for an even number of rounds.
    if (i == 0) {
        first[count] = grid.is_valid() ? static_cast<int>(gridDim.x) : -1;
    }
}

int main()
{
    int device = 0;
    int supported = 0;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device));
    CHECK(supported == 1);

    Array<int> first(count + 1), second(count + 1);
    for (int i = 0; i < count; i++) {
        first[i] = 10 * i;
    }
    first.upload();
    int rounds = 6;
    void* arguments[] = {&first.device, &second.device, &rounds};
    void* kernel = reinterpret_cast<void*>(pass_around);
    CUDA(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, nullptr));
    FINISH();
    first.download();
    for (int i = 0; i < count; i++) {
        CHECK(first[i] == 10 * ((i + rounds * (threads + 1)) % count) + rounds);
    }
    CHECK(first[count] == blocks);
    print_checksum("rounds", first.host, first.count);

    // More blocks than can be there at once cannot meet, so the launch is refused.
    cudaError_t refused = cudaLaunchCooperativeKernel(kernel, dim3(1 << 20), dim3(threads), arguments, 0, nullptr);
    EXPECT(cudaErrorCooperativeLaunchTooLarge, refused);
    EXPECT(cudaErrorCooperativeLaunchTooLarge, cudaGetLastError());
    EXPECT(cudaSuccess, cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    return pass("grid_sync");
}
