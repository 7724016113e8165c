// y = a x + y in chunks over several streams, with pinned memory, asynchronous copies, events and host callbacks.
#include "check.h"

__global__ void saxpy(float a, const float* x, float* y, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = a * x[i] + y[i] + broken;
    }
}

void CUDART_CB count_call(void* counter)
{
    ++*static_cast<int*>(counter);
}

int main()
{
    constexpr int count = 40013;
    constexpr int stream_count = 4;
    constexpr int chunk = (count + stream_count - 1) / stream_count;
    float *x, *y, *device_x, *device_y;
    CUDA(cudaMallocHost(&x, count * sizeof(float)));
    CUDA(cudaMallocHost(&y, count * sizeof(float)));
    CUDA(cudaMalloc(&device_x, count * sizeof(float)));
    CUDA(cudaMalloc(&device_y, count * sizeof(float)));
    for (int i = 0; i < count; i++) {
        x[i] = static_cast<float>(i % 1000);
        y[i] = static_cast<float>(i);
    }

    int least = 0, greatest = 0;
    CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t streams[stream_count];
    CUDA(cudaStreamCreate(&streams[0]));
    CUDA(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, greatest));
    CUDA(cudaStreamCreateWithPriority(&streams[3], cudaStreamDefault, least));

    cudaEvent_t start, finished, stop;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreateWithFlags(&finished, cudaEventDisableTiming));
    CUDA(cudaEventCreate(&stop));

    int calls[stream_count] = {};
    CUDA(cudaEventRecord(start, streams[0]));
    for (int s = 0; s < stream_count; s++) {
        int first = s * chunk;
        int length = first + chunk <= count ? chunk : count - first;
        size_t bytes = length * sizeof(float);
        CUDA(cudaMemcpyAsync(device_x + first, x + first, bytes, cudaMemcpyHostToDevice, streams[s]));
        CUDA(cudaMemcpyAsync(device_y + first, y + first, bytes, cudaMemcpyHostToDevice, streams[s]));
        saxpy<<<blocks_for(length, 128), 128, 0, streams[s]>>>(3.0f, device_x + first, device_y + first, length);
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpyAsync(y + first, device_y + first, bytes, cudaMemcpyDeviceToHost, streams[s]));
        CUDA(cudaLaunchHostFunc(streams[s], count_call, &calls[s]));
    }
    // The first stream waits for all others, so that its event covers everything.
    for (int s = 1; s < stream_count; s++) {
        CUDA(cudaEventRecord(finished, streams[s]));
        CUDA(cudaStreamWaitEvent(streams[0], finished, 0));
    }
    CUDA(cudaEventRecord(stop, streams[0]));
    CUDA(cudaEventSynchronize(stop));

    float milliseconds = -1;
    CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
    CHECK(milliseconds >= 0);
    for (int s = 0; s < stream_count; s++) {
        CHECK(calls[s] == 1);
    }
    for (int i = 0; i < count; i++) {
        CHECK(y[i] == 3.0f * x[i] + static_cast<float>(i));
    }
    print_checksum("y", y, count);

    for (cudaStream_t stream : streams) {
        CUDA(cudaStreamDestroy(stream));
    }
    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(finished));
    CUDA(cudaEventDestroy(stop));
    CUDA(cudaFree(device_x));
    CUDA(cudaFree(device_y));
    CUDA(cudaFreeHost(x));
    CUDA(cudaFreeHost(y));
    return pass("saxpy_streams");
}
