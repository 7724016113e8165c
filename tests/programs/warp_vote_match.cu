// Votes, matches and shuffles of a warp: whole, in parts under divergence, in a warp that is not full.
#include "check.h"

constexpr int lanes = 32;
constexpr unsigned whole = 0xffffffffu;

__global__ void votes(const int* input, unsigned* output)
{
    int lane = threadIdx.x;
    int value = input[lane];
    unsigned* row = output + 8 * lane;
    row[0] = __ballot_sync(whole, value % 2 == broken);
    row[1] = __any_sync(whole, value == 9) * 2 + __all_sync(whole, value < 10);
    row[2] = __match_any_sync(whole, value);
    int agreed = -1;
    row[3] = __match_all_sync(whole, 5, &agreed);
    row[3] += agreed;
    row[4] = __match_all_sync(whole, value, &agreed);
    row[4] += agreed;

    // Two parts of the warp vote apart.
    if (lane % 3 == 0) {
        row[5] = __ballot_sync(0x49249249u, value > 4);
        row[6] = __match_any_sync(0x49249249u, static_cast<long long>(value) << 40);
    } else {
        row[5] = __ballot_sync(0xb6db6db6u, value <= 4);
        row[6] = __any_sync(0xb6db6db6u, value == 3) * 2 + __all_sync(0xb6db6db6u, value >= 0);
    }
    __syncwarp();

    // Which lanes run together is the device's choice, but a lane never sees one from the other side.
    row[7] = 1;
    if (lane < 11) {
        unsigned active = __activemask();
        row[7] = (active & ~0x7ffu) == 0 && (active >> lane & 1) != 0;
    }
}

__global__ void shuffles(int* output)
{
    int lane = threadIdx.x;
    int value = lane * lane;
    int* row = output + 12 * lane;
    row[0] = __shfl_sync(whole, value, 5 + broken);
    row[1] = __shfl_sync(whole, value, lane + 3);
    row[2] = __shfl_up_sync(whole, value, 3);
    row[3] = __shfl_down_sync(whole, value, 3);
    row[4] = __shfl_xor_sync(whole, value, 6);
    row[5] = __shfl_sync(whole, value, 2, 8);
    row[6] = __shfl_up_sync(whole, value, 1, 8);
    row[7] = __shfl_down_sync(whole, value, 5, 16);
    row[8] = __shfl_xor_sync(whole, value, 12, 8);
    row[9] = static_cast<int>(__shfl_sync(whole, static_cast<long long>(value) << 35, lane ^ 1) >> 35);
    row[10] = static_cast<int>(__shfl_down_sync(whole, value * 0.5, 16) * 2);
    if (lane % 2 == 0) {
        row[11] = __shfl_sync(0x55555555u, value, lane + 2);
    } else {
        row[11] = __shfl_xor_sync(0xaaaaaaaau, value, 2) + 1;
    }
}

// 70 threads: the last warp has six lanes.
__global__ void partial(int* output)
{
    int i = threadIdx.x;
    unsigned mask = i < 64 ? whole : 0x3fu;
    int sum = 0;
    for (int source = 0; source < (i < 64 ? 32 : 6); source++) {
        sum += __shfl_sync(mask, i, source);
    }
    output[i] = sum * 100 + __popc(__ballot_sync(mask, i % 2 == 0));
}

// Early exits: the lanes that are left work together.
__global__ void survivors(unsigned* output)
{
    int lane = threadIdx.x;
    if (lane % 4 == 1) {
        return;
    }
    unsigned mask = 0xddddddddu;
    for (int turn = 0; turn < lane % 4; turn++) {
        output[lane] += turn;
    }
    __syncwarp(mask);
    output[lane] += __ballot_sync(mask, lane > 10) + __reduce_add_sync(mask, static_cast<unsigned>(lane));
}

void check_votes()
{
    Array<int> input(lanes);
    Array<unsigned> output(8 * lanes), expected(8 * lanes);
    Random random;
    for (int lane = 0; lane < lanes; lane++) {
        input[lane] = random.below(10);
    }
    input.upload();
    for (int lane = 0; lane < lanes; lane++) {
        unsigned* row = &expected[8 * lane];
        unsigned any = 0, all = 1, part_any = 0, part_all = 1, part_ballot = 0, part_match = 0;
        for (int other = 0; other < lanes; other++) {
            int value = input[other];
            row[0] |= static_cast<unsigned>(value % 2 == 0) << other;
            any |= value == 9;
            all &= value < 10;
            row[2] |= static_cast<unsigned>(value == input[lane]) << other;
            if (lane % 3 == 0 && other % 3 == 0) {
                part_ballot |= static_cast<unsigned>(value > 4) << other;
                part_match |= static_cast<unsigned>(value == input[lane]) << other;
            }
            if (lane % 3 != 0 && other % 3 != 0) {
                part_ballot |= static_cast<unsigned>(value <= 4) << other;
                part_any |= value == 3;
                part_all &= value >= 0;
            }
        }
        row[1] = any * 2 + all;
        row[3] = whole + 1;
        row[4] = 0;
        row[5] = part_ballot;
        row[6] = lane % 3 == 0 ? part_match : part_any * 2 + part_all;
        row[7] = 1;
    }
    votes<<<1, lanes>>>(input.device, output.device);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, output.count);
    print_checksum("votes", output.host, output.count);
}

int square(int lane)
{
    return lane * lane;
}

void check_shuffles()
{
    Array<int> output(12 * lanes), expected(12 * lanes);
    for (int lane = 0; lane < lanes; lane++) {
        int* row = &expected[12 * lane];
        row[0] = square(5);
        row[1] = square((lane + 3) % 32);
        row[2] = square(lane >= 3 ? lane - 3 : lane);
        row[3] = square(lane < 29 ? lane + 3 : lane);
        row[4] = square(lane ^ 6);
        row[5] = square(lane / 8 * 8 + 2);
        row[6] = square(lane % 8 >= 1 ? lane - 1 : lane);
        row[7] = square(lane % 16 + 5 < 16 ? lane + 5 : lane);
        // An exchange with a later group is refused, with an earlier one it is not.
        int partner = lane ^ 12;
        row[8] = square(partner / 8 <= lane / 8 ? partner : lane);
        row[9] = square(lane ^ 1);
        row[10] = square(lane < 16 ? lane + 16 : lane);
        row[11] = lane % 2 == 0 ? square((lane + 2) % 32) : square(lane ^ 2) + 1;
    }
    shuffles<<<1, lanes>>>(output.device);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, output.count);
    print_checksum("shuffles", output.host, output.count);
}

void check_partial()
{
    constexpr int threads = 70;
    Array<int> output(threads), expected(threads);
    for (int i = 0; i < threads; i++) {
        int first = i / 32 * 32;
        int size = i < 64 ? 32 : 6;
        expected[i] = (first * size + size * (size - 1) / 2) * 100 + size / 2;
    }
    partial<<<1, threads>>>(output.device);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, threads);
    print_checksum("partial", output.host, threads);
}

void check_survivors()
{
    Array<unsigned> output(lanes), expected(lanes);
    unsigned ballot = 0, sum = 0;
    for (int lane = 0; lane < lanes; lane++) {
        if (lane % 4 != 1) {
            ballot |= static_cast<unsigned>(lane > 10) << lane;
            sum += lane;
        }
    }
    for (int lane = 0; lane < lanes; lane++) {
        int rest = lane % 4;
        expected[lane] = rest == 1 ? 0 : ballot + sum + rest * (rest - 1) / 2;
    }
    survivors<<<1, lanes>>>(output.device);
    FINISH();
    output.download();
    COMPARE(output.host, expected.host, lanes);
    print_checksum("survivors", output.host, lanes);
}

int main()
{
    check_votes();
    check_shuffles();
    check_partial();
    check_survivors();
    return pass("warp_vote_match");
}
