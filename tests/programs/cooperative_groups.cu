// Cooperative groups inside a block: tiles, coalesced threads, labelled parts, collective reductions and scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "check.h"

namespace cg = cooperative_groups;

constexpr int threads = 96;

__global__ void tiles(const int* input, int* sums, int* shuffled, int* votes)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = block.thread_rank();
    int value = input[i];
    int sum = value;
    for (int distance = tile.size() / 2; distance > 0; distance /= 2) {
        sum += tile.shfl_xor(sum, distance);
    }
    sums[i] = sum + broken;
    shuffled[i] = tile.shfl_down(value, 3) * 10 + tile.meta_group_rank();
    votes[i] = static_cast<int>(tile.ballot(value % 3 == 0)) * 4 + tile.any(value > 90) * 2 + tile.all(value < 90);
}

__global__ void collectives(const int* input, int* sums, int* largest, int* scanned)
{
    __shared__ int shared[threads];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int i = block.thread_rank();
    sums[i] = cg::reduce(warp, input[i], cg::plus<int>());
    largest[i] = cg::reduce(cg::tiled_partition<4>(warp), input[i], cg::greater<int>());
    shared[i] = cg::inclusive_scan(warp, input[i]);
    block.sync();
    scanned[i] = shared[threads - 1 - i];
}

__global__ void labelled(const int* input, int* sizes, int* sums)
{
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = threadIdx.x;
    cg::coalesced_group part = cg::labeled_partition(warp, input[i] % 4);
    sizes[i] = part.size();
    sums[i] = cg::reduce(part, input[i], cg::plus<int>());
}

// Packs the odd values, with one atomic for each group of threads that happen to run together.
__global__ void pack_odd(const int* input, int* output, int* count)
{
    int value = input[threadIdx.x];
    if (value % 2 != 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int first = 0;
        if (active.thread_rank() == 0) {
            first = atomicAdd(count, static_cast<int>(active.size()));
        }
        first = active.shfl(first, 0);
        output[first + active.thread_rank()] = value;
    }
}

int main()
{
    Array<int> input(threads), a(threads), b(threads), c(threads);
    Array<int> expected_a(threads), expected_b(threads), expected_c(threads);
    Random random;
    for (int i = 0; i < threads; i++) {
        input[i] = random.below(100);
    }
    input.upload();

    tiles<<<1, threads>>>(input.device, a.device, b.device, c.device);
    FINISH();
    for (int i = 0; i < threads; i++) {
        int start = i / 8 * 8;
        int votes = 0, any = 0, all = 1;
        for (int j = 0; j < 8; j++) {
            int value = input[start + j];
            expected_a[i] += value;
            votes |= (value % 3 == 0) << j;
            any |= value > 90;
            all &= value < 90;
        }
        int source = i % 8 + 3 < 8 ? i + 3 : i;
        expected_b[i] = input[source] * 10 + i / 8;
        expected_c[i] = votes * 4 + any * 2 + all;
    }
    a.download();
    b.download();
    c.download();
    COMPARE(a.host, expected_a.host, threads);
    COMPARE(b.host, expected_b.host, threads);
    COMPARE(c.host, expected_c.host, threads);
    print_checksum("tiles", c.host, threads);

    collectives<<<1, threads>>>(input.device, a.device, b.device, c.device);
    FINISH();
    for (int i = 0; i < threads; i++) {
        expected_a[i] = 0;
        expected_b[i] = 0;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            expected_a[i] += input[j];
            if (j <= i) {
                expected_c[threads - 1 - i] = j == i / 32 * 32 ? input[j] : expected_c[threads - 1 - i] + input[j];
            }
        }
        for (int j = i / 4 * 4; j < i / 4 * 4 + 4; j++) {
            expected_b[i] = input[j] > expected_b[i] ? input[j] : expected_b[i];
        }
    }
    a.download();
    b.download();
    c.download();
    COMPARE(a.host, expected_a.host, threads);
    COMPARE(b.host, expected_b.host, threads);
    COMPARE(c.host, expected_c.host, threads);
    print_checksum("collectives", c.host, threads);

    labelled<<<1, threads>>>(input.device, a.device, b.device);
    FINISH();
    for (int i = 0; i < threads; i++) {
        expected_a[i] = 0;
        expected_b[i] = 0;
        for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            if (input[j] % 4 == input[i] % 4) {
                expected_a[i]++;
                expected_b[i] += input[j];
            }
        }
    }
    a.download();
    b.download();
    COMPARE(a.host, expected_a.host, threads);
    COMPARE(b.host, expected_b.host, threads);
    print_checksum("labelled", b.host, threads);

    Array<int> packed(threads), count(1);
    pack_odd<<<1, threads>>>(input.device, packed.device, count.device);
    FINISH();
    packed.download();
    count.download();
    // The order of the packed values is the device's business, how often each occurs is not.
    int occurrences[100] = {};
    int odd = 0;
    for (int i = 0; i < threads; i++) {
        if (input[i] % 2 != 0) {
            occurrences[input[i]]++;
            odd++;
        }
    }
    CHECK(count[0] == odd);
    for (int i = 0; i < odd; i++) {
        CHECK(--occurrences[packed[i]] >= 0);
    }
    std::printf("packed: %d\n", odd);
    return pass("cooperative_groups");
}
