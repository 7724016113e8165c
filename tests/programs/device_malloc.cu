// The heap of the device: malloc, new, lists that outlive a kernel, and a request that is too large.
#include "check.h"

struct Node {
    int value;
    Node* next;
};

__global__ void build(Node** heads, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    Node* head = nullptr;
    for (int k = 0; k < i % 7 + 1; k++) {
        Node* node = static_cast<Node*>(malloc(sizeof(Node)));
        if (node != nullptr) {
            node->value = i * 10 + k + broken;
            node->next = head;
            head = node;
        }
    }
    heads[i] = head;
}

__global__ void sum_and_free(Node** heads, int* sums, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    int sum = 0;
    Node* node = heads[i];
    while (node != nullptr) {
        sum += node->value;
        Node* next = node->next;
        free(node);
        node = next;
    }
    sums[i] = sum;
}

__global__ void scratch(int* results, int* refused)
{
    // Memory of one thread serves the whole block.
    __shared__ int* shared_scratch;
    if (threadIdx.x == 0) {
        shared_scratch = new int[blockDim.x];
    }
    __syncthreads();
    shared_scratch[threadIdx.x] = threadIdx.x * threadIdx.x;
    __syncthreads();
    results[blockIdx.x * blockDim.x + threadIdx.x] = shared_scratch[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        delete[] shared_scratch;
        void* much = malloc(size_t{1} << 40);
        refused[blockIdx.x] = much == nullptr;
        free(much);
        free(nullptr);
    }
}

int main()
{
    constexpr size_t heap = 16 << 20;
    CUDA(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap));
    size_t limit = 0;
    CUDA(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    CHECK(limit >= heap);

    constexpr int count = 203;
    Array<Node*> heads(count);
    Array<int> sums(count), expected(count);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i % 7 + 1; k++) {
            expected[i] += i * 10 + k;
        }
    }
    build<<<blocks_for(count, 64), 64>>>(heads.device, count);
    sum_and_free<<<blocks_for(count, 32), 32>>>(heads.device, sums.device, count);
    FINISH();
    sums.download();
    COMPARE(sums.host, expected.host, count);
    print_checksum("lists", sums.host, count);

    constexpr int blocks = 3;
    constexpr int threads = 50;
    Array<int> results(blocks * threads), refused(blocks);
    scratch<<<blocks, threads>>>(results.device, refused.device);
    FINISH();
    results.download();
    refused.download();
    for (int i = 0; i < blocks * threads; i++) {
        int source = threads - 1 - i % threads;
        CHECK(results[i] == source * source);
    }
    for (int block = 0; block < blocks; block++) {
        CHECK(refused[block] == 1);
    }
    std::printf("scratch: right\n");
    return pass("device_malloc");
}
