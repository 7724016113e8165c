// Lanes of one warp take a lock in turn. From Volta on each lane makes progress by itself, so this ends.
#include "check.h"

struct Guarded {
    int lock;
    int counter;
    int history[8];
};

__device__ void acquire(int* lock)
{
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
}

__device__ void release(int* lock)
{
    __threadfence();
    atomicExch(lock, 0);
}

__global__ void plain_spin(Guarded* guarded)
{
    volatile Guarded* inside = guarded;
    acquire(&guarded->lock);
    // Not atomic: right only if one lane at a time is here.
    inside->counter = inside->counter + 1 + broken;
    inside->history[threadIdx.x % 8] = inside->history[threadIdx.x % 8] + threadIdx.x;
    release(&guarded->lock);
}

// A lane spins on what another lane of the same warp writes only later.
__global__ void hand_over(volatile int* turn, int* order)
{
    int lane = threadIdx.x;
    int wanted = blockDim.x - 1 - lane;
    while (*turn != wanted) {
    }
    order[wanted] = lane;
    __threadfence();
    *turn = wanted + 1;
}

// The lock in shared memory, taken several times by each thread of a block.
__global__ void shared_lock(int* result)
{
    __shared__ int lock;
    __shared__ volatile int counter;
    if (threadIdx.x == 0) {
        lock = 0;
        counter = 0;
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        bool done = false;
        while (!done) {
            if (atomicCAS(&lock, 0, 1) == 0) {
                __threadfence_block();
                counter = counter + 1;
                __threadfence_block();
                atomicExch(&lock, 0);
                done = true;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *result = counter;
    }
}

int main()
{
    Array<Guarded> guarded(1);
    plain_spin<<<3, 40>>>(guarded.device);
    FINISH();
    guarded.download();
    CHECK(guarded[0].counter == 120);
    CHECK(guarded[0].lock == 0);
    for (int i = 0; i < 8; i++) {
        CHECK(guarded[0].history[i] == 3 * (5 * i + 8 + 16 + 24 + 32));
    }
    std::printf("global lock: right\n");

    constexpr int lanes = 32;
    Array<int> turn(1), order(lanes);
    hand_over<<<1, lanes>>>(turn.device, order.device);
    FINISH();
    order.download();
    for (int i = 0; i < lanes; i++) {
        CHECK(order[i] == lanes - 1 - i);
    }
    std::printf("hand over: right\n");

    Array<int> result(1);
    shared_lock<<<1, 70>>>(result.device);
    FINISH();
    result.download();
    CHECK(result[0] == 210);
    std::printf("shared lock: right\n");
    return pass("spin_lock_warp");
}
