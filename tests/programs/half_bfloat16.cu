// Arithmetic in half and bfloat16, compared bit for bit with the host's float arithmetic rounded once.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"

constexpr int count = 1001;

struct Row {
    unsigned short sum;
    unsigned short product;
    unsigned short fused;
    unsigned short unary;
    unsigned short packed_low;
    unsigned short packed_high;
    int comparison;
    int whole;
};

__global__ void halves(const float* a, const float* b, Row* rows, __half* total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    __half x = __float2half(a[i]);
    __half y = __float2half(b[i]);
    __half2 pair = __halves2half2(x, y) * __half2half2(__float2half(0.5f + broken)) + __halves2half2(y, x);
    rows[i].sum = __half_as_ushort(__hadd(x, y));
    rows[i].product = __half_as_ushort(x * y);
    rows[i].fused = __half_as_ushort(__hfma(x, y, x));
    rows[i].unary = __half_as_ushort(__float2half_rz(a[i]));
    rows[i].packed_low = __half_as_ushort(__low2half(pair));
    rows[i].packed_high = __half_as_ushort(__high2half(pair));
    rows[i].comparison = __hlt(x, y) * 4 + (x >= y) * 2 + __heq(x, y);
    rows[i].whole = __half2int_rn(x);
    atomicAdd(total, __float2half(1.0f));
}

__global__ void brains(const float* a, const float* b, Row* rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    __nv_bfloat16 x = __float2bfloat16(a[i]);
    __nv_bfloat16 y = __float2bfloat16(b[i]);
    __nv_bfloat162 pair = __halves2bfloat162(__hmax(x, y), __hmin(x, y));
    rows[i].sum = __bfloat16_as_ushort(__hadd(x, y));
    rows[i].product = __bfloat16_as_ushort(x * y);
    rows[i].fused = __bfloat16_as_ushort(__hfma(x, y, x));
    rows[i].unary = __bfloat16_as_ushort(__hneg(__habs(x)));
    rows[i].packed_low = __bfloat16_as_ushort(__low2bfloat16(pair));
    rows[i].packed_high = __bfloat16_as_ushort(__high2bfloat16(pair));
    rows[i].comparison = __hlt(x, y) * 4 + (x >= y) * 2 + __heq(x, y);
    rows[i].whole = __bfloat162int_rz(x);
}

unsigned short bits(__half value)
{
    return __half_raw(value).x;
}

unsigned short bits(__nv_bfloat16 value)
{
    return __nv_bfloat16_raw(value).x;
}

int nearest_even(float value)
{
    int whole = static_cast<int>(value < 0 ? value - 1 : value);
    float rest = value - whole;
    return rest > 0.5f || (rest == 0.5f && whole % 2 != 0) ? whole + 1 : whole;
}

void require_rows(const Row* actual, const Row* expected)
{
    for (int i = 0; i < count; i++) {
        CHECK(actual[i].sum == expected[i].sum);
        CHECK(actual[i].product == expected[i].product);
        CHECK(actual[i].fused == expected[i].fused);
        CHECK(actual[i].unary == expected[i].unary);
        CHECK(actual[i].packed_low == expected[i].packed_low);
        CHECK(actual[i].packed_high == expected[i].packed_high);
        CHECK(actual[i].comparison == expected[i].comparison);
        CHECK(actual[i].whole == expected[i].whole);
    }
}

int main()
{
    Array<float> a(count), b(count);
    Array<Row> rows(count), expected(count);
    Array<__half> total(1);
    Random random;
    for (int i = 0; i < count; i++) {
        // Small multiples of 1/256, so that products and sums are exact in a float and round only once.
        a[i] = (random.below(20001) - 10000) / 256.0f;
        b[i] = i % 10 == 0 ? a[i] : (random.below(20001) - 10000) / 256.0f;
    }
    a.upload();
    b.upload();

    halves<<<blocks_for(count, 128), 128>>>(a.device, b.device, rows.device, total.device);
    FINISH();
    rows.download();
    total.download();
    for (int i = 0; i < count; i++) {
        __half rounded = __float2half(a[i]);
        float x = __half2float(rounded);
        float y = __half2float(__float2half(b[i]));
        Row& row = expected[i];
        row.sum = bits(__float2half(x + y));
        row.product = bits(__float2half(x * y));
        row.fused = bits(__double2half(static_cast<double>(x) * y + x));
        row.unary = bits(__float2half_rz(a[i]));
        row.packed_low = bits(__double2half(0.5 * x + y));
        row.packed_high = bits(__double2half(0.5 * y + x));
        row.comparison = (x < y) * 4 + (x >= y) * 2 + (x == y);
        row.whole = nearest_even(x);
    }
    require_rows(rows.host, expected.host);
    CHECK(__half2float(total[0]) == count);
    print_checksum("half", rows.host, count);

    brains<<<blocks_for(count, 128), 128>>>(a.device, b.device, rows.device);
    FINISH();
    rows.download();
    for (int i = 0; i < count; i++) {
        float x = __bfloat162float(__float2bfloat16(a[i]));
        float y = __bfloat162float(__float2bfloat16(b[i]));
        Row& row = expected[i];
        row.sum = bits(__float2bfloat16(x + y));
        row.product = bits(__float2bfloat16(x * y));
        row.fused = bits(__double2bfloat16(static_cast<double>(x) * y + x));
        row.unary = bits(__float2bfloat16(x < 0 ? x : -x));
        row.packed_low = bits(__float2bfloat16(x > y ? x : y));
        row.packed_high = bits(__float2bfloat16(x > y ? y : x));
        row.comparison = (x < y) * 4 + (x >= y) * 2 + (x == y);
        row.whole = static_cast<int>(x);
    }
    require_rows(rows.host, expected.host);
    print_checksum("bfloat16", rows.host, count);
    return pass("half_bfloat16");
}
