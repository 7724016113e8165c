// Thousands of tiny launches in one stream: none is lost, none runs out of turn.
#include "check.h"

// Each launch builds on the one before; a wrong order gives another number.
__global__ void chain(unsigned* state, unsigned number)
{
    *state = *state * 1664525u + number + broken;
}

__global__ void count(int* counter)
{
    atomicAdd(counter, 1);
}

int main()
{
    constexpr unsigned launches = 3000;
    Array<unsigned> state(1);
    Array<int> counter(1);
    unsigned expected = 0;
    for (unsigned number = 0; number < launches; number++) {
        chain<<<1, 1>>>(state.device, number);
        count<<<2, 3>>>(counter.device);
        expected = expected * 1664525u + number;
    }
    FINISH();
    state.download();
    counter.download();
    CHECK(state[0] == expected);
    CHECK(counter[0] == static_cast<int>(6 * launches));
    std::printf("state %08x, counter %d\n", state[0], counter[0]);

    // With a synchronisation after each launch.
    for (int i = 0; i < 200; i++) {
        count<<<1, 1>>>(counter.device);
        CUDA(cudaDeviceSynchronize());
    }
    counter.download();
    CHECK(counter[0] == static_cast<int>(6 * launches) + 200);
    return pass("launch_counter");
}
