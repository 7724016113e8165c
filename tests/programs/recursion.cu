// Functions that call themselves and each other, with a stack that is deeper than the default.
#include "check.h"

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n + broken : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ int ackermann(int m, int n)
{
    if (m == 0) {
        return n + 1;
    }
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__device__ bool is_odd(int n);
__device__ __noinline__ bool is_even(int n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(int n) { return n == 0 ? false : is_even(n - 1); }

__device__ __noinline__ void quicksort(int* data, int first, int last)
{
    if (first >= last) {
        return;
    }
    int pivot = data[(first + last) / 2];
    int low = first;
    int high = last;
    while (low <= high) {
        while (data[low] < pivot) {
            low++;
        }
        while (data[high] > pivot) {
            high--;
        }
        if (low <= high) {
            int swap = data[low];
            data[low++] = data[high];
            data[high--] = swap;
        }
    }
    quicksort(data, first, high);
    quicksort(data, low, last);
}

// A large frame at each level: the local array must survive the calls below.
__device__ __noinline__ int nested(int depth)
{
    int local[16];
    for (int i = 0; i < 16; i++) {
        local[i] = depth * i;
    }
    int below = depth == 0 ? 0 : nested(depth - 1);
    return below + local[(depth + below) & 15];
}

int nested_on_host(int depth)
{
    int below = depth == 0 ? 0 : nested_on_host(depth - 1);
    return below + depth * ((depth + below) & 15);
}

__global__ void recurse(int* results)
{
    int i = threadIdx.x;
    results[4 * i] = fibonacci(i % 12);
    results[4 * i + 1] = ackermann(2, i % 5);
    results[4 * i + 2] = is_even(i) ? 1 : 0;
    results[4 * i + 3] = nested(i);
}

__global__ void sort_rows(int* data, int length)
{
    quicksort(data + threadIdx.x * length, 0, length - 1);
}

int main()
{
    CUDA(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    size_t limit = 0;
    CUDA(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
    CHECK(limit >= 16384);

    constexpr int threads = 40;
    Array<int> results(4 * threads), expected(4 * threads);
    const int fibonacci_numbers[12] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    for (int i = 0; i < threads; i++) {
        expected[4 * i] = fibonacci_numbers[i % 12];
        expected[4 * i + 1] = 2 * (i % 5) + 3;
        expected[4 * i + 2] = i % 2 == 0;
        expected[4 * i + 3] = nested_on_host(i);
    }
    recurse<<<1, threads>>>(results.device);
    FINISH();
    results.download();
    COMPARE(results.host, expected.host, results.count);
    print_checksum("results", results.host, results.count);

    constexpr int length = 101;
    Array<int> rows(threads * length);
    long long sum = 0;
    Random random;
    for (size_t i = 0; i < rows.count; i++) {
        rows[i] = random.below(1000);
        sum += rows[i];
    }
    rows.upload();
    sort_rows<<<1, threads>>>(rows.device, length);
    FINISH();
    rows.download();
    for (size_t i = 0; i < rows.count; i++) {
        CHECK(i % length == 0 || rows[i - 1] <= rows[i]);
        sum -= rows[i];
    }
    CHECK(sum == 0);
    print_checksum("sorted", rows.host, rows.count);
    return pass("recursion");
}
