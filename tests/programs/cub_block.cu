// CUB inside kernels: reductions, scans and sorts of a block and of a warp.
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>

#include "check.h"

constexpr int threads = 128;
constexpr int items = 3;
constexpr int count = threads * items;

__global__ void reduce_and_scan(const int* input, int* block_sum, int* warp_sums, int* scanned)
{
    using BlockReduce = cub::BlockReduce<int, threads>;
    using WarpReduce = cub::WarpReduce<int>;
    using BlockScan = cub::BlockScan<int, threads>;
    __shared__ typename BlockReduce::TempStorage reduce_storage;
    __shared__ typename WarpReduce::TempStorage warp_storage[threads / 32];
    __shared__ typename BlockScan::TempStorage scan_storage;

    int thread = threadIdx.x;
    int values[items];
    for (int k = 0; k < items; k++) {
        values[k] = input[thread * items + k];
    }
    int own = values[0] + values[1] + values[2] + broken;
    int sum = BlockReduce(reduce_storage).Sum(own);
    if (thread == 0) {
        *block_sum = sum;
    }
    int warp_sum = WarpReduce(warp_storage[thread / 32]).Sum(own);
    if (thread % 32 == 0) {
        warp_sums[thread / 32] = warp_sum;
    }
    BlockScan(scan_storage).InclusiveSum(values, values);
    for (int k = 0; k < items; k++) {
        scanned[thread * items + k] = values[k];
    }
}

__global__ void sort(const unsigned* keys, const int* values, unsigned* sorted_keys, int* sorted_values)
{
    using BlockSort = cub::BlockRadixSort<unsigned, threads, items, int>;
    __shared__ typename BlockSort::TempStorage storage;
    unsigned own_keys[items];
    int own_values[items];
    for (int k = 0; k < items; k++) {
        own_keys[k] = keys[threadIdx.x * items + k];
        own_values[k] = values[threadIdx.x * items + k];
    }
    BlockSort(storage).Sort(own_keys, own_values, 0, 12);
    for (int k = 0; k < items; k++) {
        sorted_keys[threadIdx.x * items + k] = own_keys[k];
        sorted_values[threadIdx.x * items + k] = own_values[k];
    }
}

int main()
{
    Array<int> input(count), block_sum(1), warp_sums(threads / 32), scanned(count);
    Array<unsigned> keys(count), sorted_keys(count);
    Array<int> sorted_values(count);
    Random random;
    for (int i = 0; i < count; i++) {
        input[i] = i;
        keys[i] = random.next() % 1000;
    }
    input.upload();
    keys.upload();

    reduce_and_scan<<<1, threads>>>(input.device, block_sum.device, warp_sums.device, scanned.device);
    FINISH();
    block_sum.download();
    warp_sums.download();
    scanned.download();
    CHECK(block_sum[0] == count * (count - 1) / 2);
    for (int warp = 0; warp < threads / 32; warp++) {
        int first = warp * 32 * items;
        int last = first + 32 * items - 1;
        CHECK(warp_sums[warp] == (first + last) * 32 * items / 2);
    }
    for (int i = 0; i < count; i++) {
        CHECK(scanned[i] == i * (i + 1) / 2);
    }
    std::printf("reduce and scan: right\n");

    sort<<<1, threads>>>(keys.device, input.device, sorted_keys.device, sorted_values.device);
    FINISH();
    sorted_keys.download();
    sorted_values.download();
    for (int i = 0; i < count; i++) {
        CHECK(keys[sorted_values[i]] == sorted_keys[i]);
        if (i > 0) {
            bool stable = sorted_keys[i - 1] == sorted_keys[i] && sorted_values[i - 1] < sorted_values[i];
            CHECK(sorted_keys[i - 1] < sorted_keys[i] || stable);
        }
    }
    print_checksum("sorted", sorted_values.host, count);
    return pass("cub_block");
}
