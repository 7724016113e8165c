// Built with --default-stream per-thread: the default streams of two host threads do not wait for each other.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

constexpr int count = 2003;

std::atomic<bool> main_finished{false};
std::atomic<bool> waited_in_vain{false};

__global__ void add(int* data, int amount)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] += amount + broken;
    }
}

// Holds up the stream that it is in until the main thread has finished its own work, but not for ever.
void CUDART_CB wait_for_main(void*)
{
    for (int i = 0; i < 20000 && !main_finished; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    waited_in_vain = !main_finished;
}

void other_thread(int* data, std::atomic<bool>* enqueued)
{
    CUDA(cudaLaunchHostFunc(0, wait_for_main, nullptr));
    add<<<blocks_for(count, 64), 64>>>(data, 5);
    CUDA(cudaGetLastError());
    *enqueued = true;
    CUDA(cudaStreamSynchronize(0));
}

void require_all(Array<int>& data, int expected)
{
    for (int i = 0; i < count; i++) {
        CHECK(data[i] == expected);
    }
}

int main()
{
    Array<int> own(count), others(count);
    // Loaded beforehand: loading a kernel for the first time may wait for the whole device.
    add<<<blocks_for(count, 64), 64>>>(own.device, 1);
    CUDA(cudaDeviceSynchronize());

    std::atomic<bool> enqueued{false};
    std::thread thread(other_thread, others.device, &enqueued);
    while (!enqueued) {
        std::this_thread::yield();
    }
    add<<<blocks_for(count, 64), 64>>>(own.device, 2);
    CUDA(cudaStreamSynchronize(0));
    own.download();
    // Before any check: a failed one must not leave the other thread waiting.
    main_finished = true;
    thread.join();
    CHECK(!waited_in_vain);
    require_all(own, 3);
    others.download();
    require_all(others, 5);

    // The stream can be named too.
    add<<<blocks_for(count, 64), 64, 0, cudaStreamPerThread>>>(own.device, 4);
    CUDA(cudaGetLastError());
    own.download();
    require_all(own, 7);
    return pass("per_thread_stream");
}
