// Loops of very different length in neighbouring lanes, with break, continue, switch and early return.
#include "check.h"

constexpr int count = 4001;

__host__ __device__ int collatz_steps(unsigned long long number)
{
    int steps = 0;
    while (number > 1) {
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
        steps++;
    }
    return steps;
}

__host__ __device__ int tangled(int start)
{
    int value = start;
    int total = 0;
    for (int outer = 0; outer < 20; outer++) {
        if (value % 7 == 3) {
            value += outer;
            continue;
        }
        for (int inner = 0; inner < value % 5 + 1; inner++) {
            switch ((value + inner) % 6) {
            case 0: total += 1; break;
            case 1: total += inner; // falls through
            case 2: total += 10; break;
            case 3:
                if (total > 500) {
                    return total;
                }
                break;
            default: total -= 1;
            }
            if (total % 11 == 10) {
                break;
            }
        }
        value = (value * 13 + total) & 1023;
        do {
            total++;
        } while (total % 3 != 0);
    }
    return total;
}

__global__ void run(int* steps, int* totals)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    steps[i] = collatz_steps(i + 1 + broken);
    totals[i] = tangled(i);
}

int main()
{
    Array<int> steps(count), totals(count), expected_steps(count), expected_totals(count);
    for (int i = 0; i < count; i++) {
        expected_steps[i] = collatz_steps(i + 1);
        expected_totals[i] = tangled(i);
    }
    run<<<blocks_for(count, 160), 160>>>(steps.device, totals.device);
    FINISH();
    steps.download();
    totals.download();
    COMPARE(steps.host, expected_steps.host, count);
    COMPARE(totals.host, expected_totals.host, count);
    print_checksum("steps", steps.host, count);
    print_checksum("totals", totals.host, count);
    return pass("divergent_loop");
}
