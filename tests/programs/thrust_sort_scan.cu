// Thrust: sort, sort by key, scan, reduce by key, transform.
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
    Random random;
    int sums[key_limit] = {};
    int sizes[key_limit] = {};
    for (int i = 0; i < count; i++) {
        keys[i] = random.below(key_limit);
        values[i] = i;
        sums[keys[i]] += 3 * i;
        sizes[keys[i]]++;
    }
    Array<int> original(count);
    for (int i = 0; i < count; i++) {
        original[i] = keys[i];
    }
    keys.upload();
    values.upload();

    thrust::stable_sort_by_key(thrust::device, keys.device, keys.device + count, values.device);
    keys.download();
    values.download();
    for (int i = 1; i < count; i++) {
        CHECK(keys[i - 1] < keys[i] || (keys[i - 1] == keys[i] && values[i - 1] < values[i]));
        CHECK(original[values[i]] == keys[i]);
    }
    print_checksum("sorted", values.host, count);

    thrust::transform(thrust::device, values.device, values.device + count, values.device, Scale());
    thrust::exclusive_scan(thrust::device, values.device, values.device + count, scanned.device);
    scanned.download();
    int sum = 0;
    for (int i = 0; i < count; i++) {
        CHECK(scanned[i] == sum);
        sum += 3 * values[i];
    }
    print_checksum("scanned", scanned.host, count);

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
