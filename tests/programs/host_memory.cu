// Host memory that kernels read and write: pinned, mapped, registered and managed.
#include <cstring>

#include "check.h"

constexpr int count = 5003;

__global__ void add(int* data, int amount)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        data[i] += amount + i + broken;
    }
}

void launch(int* data, int amount)
{
    add<<<blocks_for(count, 128), 128>>>(data, amount);
    FINISH();
}

void require_added(const int* data, int start, int amount)
{
    for (int i = 0; i < count; i++) {
        CHECK(data[i] == start + amount + i);
    }
}

void fill(int* data, int value)
{
    for (int i = 0; i < count; i++) {
        data[i] = value;
    }
}

cudaMemoryType type_of(const void* pointer)
{
    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, pointer));
    return attributes.type;
}

void pinned()
{
    int* data = nullptr;
    CUDA(cudaHostAlloc(&data, count * sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped));
    fill(data, 100);
    int* on_device = nullptr;
    CUDA(cudaHostGetDevicePointer(&on_device, data, 0));
    CHECK(type_of(data) == cudaMemoryTypeHost);
    unsigned flags = 0;
    CUDA(cudaHostGetFlags(&flags, data));
    CHECK((flags & cudaHostAllocMapped) != 0);
    launch(on_device, 5);
    require_added(data, 100, 5);
    // With unified addressing the host's own pointer serves too.
    fill(data, 200);
    launch(data, 6);
    require_added(data, 200, 6);
    CUDA(cudaFreeHost(data));

    CUDA(cudaHostAlloc(&data, count * sizeof(int), cudaHostAllocWriteCombined | cudaHostAllocMapped));
    fill(data, 1);
    launch(data, 2);
    require_added(data, 1, 2);
    CUDA(cudaFreeHost(data));
    std::printf("pinned memory: right\n");
}

void registered()
{
    constexpr size_t page = 4096;
    constexpr size_t bytes = (count * sizeof(int) + page - 1) / page * page;
    void* pages = std::aligned_alloc(page, bytes);
    CHECK(pages != nullptr);
    int* data = static_cast<int*>(pages);
    fill(data, 300);
    CHECK(type_of(data) != cudaMemoryTypeDevice);
    CUDA(cudaHostRegister(data, bytes, cudaHostRegisterMapped));
    CHECK(type_of(data) == cudaMemoryTypeHost);
    int* on_device = nullptr;
    CUDA(cudaHostGetDevicePointer(&on_device, data, 0));
    launch(on_device, 7);
    require_added(data, 300, 7);
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(data, bytes, cudaHostRegisterMapped));
    CUDA(cudaHostUnregister(data));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(data));
    require_added(data, 300, 7);
    std::free(pages);
    cudaGetLastError();
    std::printf("registered memory: right\n");
}

void managed()
{
    int device = 0;
    int concurrent = 0;
    CUDA(cudaGetDevice(&device));
    CUDA(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
    int* data = nullptr;
    CUDA(cudaMallocManaged(&data, count * sizeof(int)));
    CHECK(type_of(data) == cudaMemoryTypeManaged);
    fill(data, 400);
    // Hints are allowed only where the device pages; they never change a result.
    if (concurrent) {
        cudaMemLocation on_device = {};
        on_device.type = cudaMemLocationTypeDevice;
        on_device.id = device;
        cudaMemLocation on_host = {};
        on_host.type = cudaMemLocationTypeHost;
        CUDA(cudaMemAdvise(data, count * sizeof(int), cudaMemAdviseSetPreferredLocation, on_device));
        CUDA(cudaMemAdvise(data, count * sizeof(int), cudaMemAdviseSetAccessedBy, on_host));
        CUDA(cudaMemPrefetchAsync(data, count * sizeof(int), on_device, 0));
        launch(data, 8);
        CUDA(cudaMemPrefetchAsync(data, count * sizeof(int), on_host, 0));
        CUDA(cudaDeviceSynchronize());
    } else {
        launch(data, 8);
    }
    require_added(data, 400, 8);
    // Copies in both directions between managed and ordinary memory.
    static int copy[count];
    CUDA(cudaMemcpy(copy, data, sizeof copy, cudaMemcpyDefault));
    require_added(copy, 400, 8);
    fill(copy, 9);
    CUDA(cudaMemcpy(data, copy, sizeof copy, cudaMemcpyDefault));
    launch(data, 1);
    require_added(data, 9, 1);
    CUDA(cudaMemset(data, 0, count * sizeof(int)));
    CUDA(cudaDeviceSynchronize());
    CHECK(data[0] == 0 && data[count - 1] == 0);
    CUDA(cudaFree(data));
    std::printf("managed memory: right\n");
}

int main()
{
    CUDA(cudaSetDeviceFlags(cudaDeviceMapHost));
    pinned();
    registered();
    managed();
    int* device_data = nullptr;
    CUDA(cudaMalloc(&device_data, 4));
    CHECK(type_of(device_data) == cudaMemoryTypeDevice);
    CUDA(cudaFree(device_data));
    return pass("host_memory");
}
