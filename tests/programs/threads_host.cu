// Several host threads that allocate, launch and copy at the same time, each with its own stream and its own last
// error.
#include <thread>

#include "check.h"

constexpr int thread_count = 6;
constexpr int rounds = 15;
constexpr int count = 1501;

__global__ void step(int* data, int who)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        // Unsigned, since the numbers overflow.
        data[i] = static_cast<int>(static_cast<unsigned>(data[i]) * 3u + who + broken);
    }
}

void work(int who, int* result)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int* pinned = nullptr;
    int* data = nullptr;
    CUDA(cudaMallocHost(&pinned, count * sizeof(int)));
    CUDA(cudaMalloc(&data, count * sizeof(int)));
    for (int i = 0; i < count; i++) {
        pinned[i] = i;
    }
    // An error of one thread is not seen by the others.
    if (who % 2 == 0) {
        EXPECT(cudaErrorInvalidValue, cudaMemset(nullptr, 0, 16));
        EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
    }
    EXPECT(cudaSuccess, cudaGetLastError());
    CUDA(cudaMemcpyAsync(data, pinned, count * sizeof(int), cudaMemcpyHostToDevice, stream));
    for (int round = 0; round < rounds; round++) {
        step<<<blocks_for(count, 192), 192, 0, stream>>>(data, who);
        int* temporary = nullptr;
        CUDA(cudaMalloc(&temporary, 1000 + who));
        CUDA(cudaFree(temporary));
    }
    CUDA(cudaMemcpyAsync(pinned, data, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; i++) {
        result[i] = pinned[i];
    }
    CUDA(cudaFree(data));
    CUDA(cudaFreeHost(pinned));
    CUDA(cudaStreamDestroy(stream));
}

int main()
{
    static int results[thread_count][count];
    std::thread threads[thread_count];
    for (int who = 0; who < thread_count; who++) {
        threads[who] = std::thread(work, who, results[who]);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (int who = 0; who < thread_count; who++) {
        for (int i = 0; i < count; i++) {
            unsigned expected = i;
            for (int round = 0; round < rounds; round++) {
                expected = expected * 3 + who;
            }
            CHECK(results[who][i] == static_cast<int>(expected));
        }
        print_checksum("thread", results[who], count);
    }
    return pass("threads_host");
}
