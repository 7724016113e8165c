// Streams and events that are asked before and after their work is done, and who waits for whom.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

__global__ void add(int* data, int amount)
{
    data[threadIdx.x] += amount + broken;
}

// Holds up a stream until the host opens the gate; gives up at some time, so that an error cannot hang the test.
struct Gate {
    std::atomic<bool> open{false};
    std::atomic<bool> timed_out{false};

    static void CUDART_CB wait(void* argument)
    {
        Gate* gate = static_cast<Gate*>(argument);
        for (int i = 0; i < 20000 && !gate->open; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        gate->timed_out = !gate->open;
    }
};

void CUDART_CB count_callback(cudaStream_t, cudaError_t status, void* counter)
{
    if (status == cudaSuccess) {
        ++*static_cast<int*>(counter);
    }
}

int main()
{
    constexpr int count = 50;
    Array<int> data(count), other(count);
    cudaStream_t blocking, independent;
    CUDA(cudaStreamCreate(&blocking));
    CUDA(cudaStreamCreateWithFlags(&independent, cudaStreamNonBlocking));
    cudaEvent_t before, after, legacy, untimed;
    CUDA(cudaEventCreate(&before));
    CUDA(cudaEventCreate(&after));
    CUDA(cudaEventCreate(&legacy));
    CUDA(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    // Loaded beforehand: loading a kernel for the first time may wait for the whole device.
    add<<<1, count>>>(data.device, 0);
    FINISH();

    // An event that was never recorded counts as done.
    CUDA(cudaEventQuery(after));
    CUDA(cudaStreamQuery(blocking));

    Gate gate;
    int callbacks = 0;
    CUDA(cudaEventRecord(before, blocking));
    CUDA(cudaLaunchHostFunc(blocking, Gate::wait, &gate));
    add<<<1, count, 0, blocking>>>(data.device, 1);
    CUDA(cudaStreamAddCallback(blocking, count_callback, &callbacks, 0));
    CUDA(cudaEventRecord(after, blocking));
    CUDA(cudaEventRecord(untimed, blocking));

    EXPECT(cudaErrorNotReady, cudaStreamQuery(blocking));
    EXPECT(cudaErrorNotReady, cudaEventQuery(after));
    std::printf("last error after a query: %s\n", cudaGetErrorName(cudaGetLastError()));
    float milliseconds = -1;
    EXPECT(cudaErrorNotReady, cudaEventElapsedTime(&milliseconds, before, after));
    cudaGetLastError();

    // A non-blocking stream goes on, the legacy default stream waits for the blocking stream.
    add<<<1, count, 0, independent>>>(other.device, 10);
    CUDA(cudaStreamSynchronize(independent));
    CUDA(cudaStreamQuery(independent));
    add<<<1, count>>>(data.device, 100);
    CUDA(cudaEventRecord(legacy, cudaStreamLegacy));
    EXPECT(cudaErrorNotReady, cudaEventQuery(legacy));
    cudaGetLastError();
    std::printf("before the gate opens: right\n");

    gate.open = true;
    CUDA(cudaEventSynchronize(legacy));
    CUDA(cudaEventQuery(legacy));
    CUDA(cudaEventQuery(after));
    CUDA(cudaStreamQuery(blocking));
    CHECK(!gate.timed_out && callbacks == 1);
    CUDA(cudaEventElapsedTime(&milliseconds, before, after));
    CHECK(milliseconds >= 0);
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, before, untimed));
    cudaGetLastError();
    data.download();
    other.download();
    for (int i = 0; i < count; i++) {
        CHECK(data[i] == 101);
        CHECK(other[i] == 10);
    }
    std::printf("after it has opened: right\n");

    // A stream may be destroyed with work in it; the work is finished all the same.
    add<<<1, count, 0, independent>>>(other.device, 5);
    CUDA(cudaStreamDestroy(independent));
    CUDA(cudaStreamDestroy(blocking));
    CUDA(cudaDeviceSynchronize());
    other.download();
    CHECK(other[0] == 15 && other[count - 1] == 15);
    return pass("events_query");
}
