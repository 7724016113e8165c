// Thrust: transform, scan, sort by key, reduce by key.
// The largest kernels come last, so that a build with -DBREAK ends before them.
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include "check.h"

constexpr int count = 5003;
constexpr int key_limit = 50;

struct Scale {
    __device__ int operator()(int value) const { return 3 * value + broken; }
};

int main()
{
    Array<int> keys(count), values(count), scanned(count), group_keys(key_limit), group_sums(key_limit);
    static int original[count];
    Random random;
    int sums[key_limit] = {};
    int sizes[key_limit] = {};
    for (int i = 0; i < count; i++) {
        keys[i] = random.below(key_limit);
        values[i] = i;
        original[i] = keys[i];
        sums[keys[i]] += 3 * i;
        sizes[keys[i]]++;
    }
    keys.upload();
    values.upload();

    thrust::transform(thrust::device, values.device, values.device + count, values.device, Scale());
    thrust::exclusive_scan(thrust::device, values.device, values.device + count, scanned.device);
    scanned.download();
    int sum = 0;
    for (int i = 0; i < count; i++) {
        CHECK(scanned[i] == sum);
        sum += 3 * i;
    }
    print_checksum("scanned", scanned.host, count);

    thrust::stable_sort_by_key(thrust::device, keys.device, keys.device + count, values.device);
    keys.download();
    values.download();
    for (int i = 0; i < count; i++) {
        CHECK(i == 0 || keys[i - 1] < keys[i] || (keys[i - 1] == keys[i] && values[i - 1] < values[i]));
        CHECK(values[i] % 3 == 0 && original[values[i] / 3] == keys[i]);
    }
    print_checksum("sorted", values.host, count);

    auto ends = thrust::reduce_by_key(thrust::device, keys.device, keys.device + count, values.device,
                                      group_keys.device, group_sums.device);
    int groups = static_cast<int>(ends.first - group_keys.device);
    group_keys.download();
    group_sums.download();
    int found = 0;
    for (int key = 0; key < key_limit; key++) {
        if (sizes[key] > 0) {
            CHECK(found < groups && group_keys[found] == key && group_sums[found] == sums[key]);
            found++;
        }
    }
    CHECK(found == groups);
    std::printf("groups: %d\n", groups);
    return pass("thrust_sort_scan");
}
