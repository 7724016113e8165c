// Integer instructions that C has no operator for, each against a plain loop or wide arithmetic on the host.
#include "check.h"

constexpr int count = 1500;
constexpr int columns = 32;

__global__ void run(const unsigned* a_input, const unsigned* b_input, unsigned* output)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    unsigned a = a_input[i];
    unsigned b = b_input[i];
    unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
    unsigned* row = output + columns * i;
    row[0] = __popc(a) + broken;
    row[1] = __popcll(wide);
    row[2] = __clz(a >> (b & 31));
    row[3] = __clzll(wide >> (b & 63));
    row[4] = __brev(a);
    row[5] = static_cast<unsigned>(__brevll(wide) >> 17);
    row[6] = __ffs(a << (b & 31));
    row[7] = __ffsll(wide << (b & 63));
    row[8] = __byte_perm(a, b, b >> 7 & 0x7777);
    row[9] = __mulhi(static_cast<int>(a), static_cast<int>(b));
    row[10] = __umulhi(a, b);
    row[11] = static_cast<unsigned>(__mul64hi(static_cast<long long>(wide), static_cast<long long>(wide * 3)) >> 13);
    row[12] = static_cast<unsigned>(__umul64hi(wide, wide * 3) >> 13);
    row[13] = __funnelshift_l(a, b, b >> 3);
    row[14] = __funnelshift_r(a, b, b >> 3);
    row[15] = __funnelshift_lc(a, b, b & 63);
    row[16] = __funnelshift_rc(a, b, b & 63);
    row[17] = __dp4a(static_cast<int>(a), static_cast<int>(b), 1000);
    row[18] = __dp4a(a, b, 1000u);
    row[19] = __umul24(a, b);
    row[20] = __mul24(static_cast<int>(a), static_cast<int>(b));
    row[21] = __sad(static_cast<int>(a), static_cast<int>(b), 5u);
    row[22] = __usad(a, b, 5u);
    row[23] = __hadd(static_cast<int>(a), static_cast<int>(b));
    row[24] = __rhadd(static_cast<int>(a), static_cast<int>(b));
    row[25] = __uhadd(a, b);
    row[26] = __vadd4(a, b);
    row[27] = __vabsdiffu2(a, b);
    row[28] = __vmaxs4(a, b);
    row[29] = __vcmpgtu4(a, b);
    row[30] = __dp2a_lo(static_cast<int>(a), static_cast<int>(b), 7);
    row[31] = static_cast<unsigned>(__fns(a, b & 31, 2));
}

int leading_zeros(unsigned long long value, int width)
{
    int zeros = 0;
    while (zeros < width && (value >> (width - 1 - zeros) & 1) == 0) {
        zeros++;
    }
    return zeros;
}

int first_set(unsigned long long value, int width)
{
    for (int bit = 0; bit < width; bit++) {
        if (value >> bit & 1) {
            return bit + 1;
        }
    }
    return 0;
}

unsigned long long reversed(unsigned long long value, int width)
{
    unsigned long long result = 0;
    for (int bit = 0; bit < width; bit++) {
        result |= (value >> bit & 1) << (width - 1 - bit);
    }
    return result;
}

unsigned permuted(unsigned a, unsigned b, unsigned selector)
{
    unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned choice = selector >> (4 * i) & 7;
        result |= static_cast<unsigned>(bytes >> (8 * choice) & 0xff) << (8 * i);
    }
    return result;
}

int signed_byte(unsigned value, int index)
{
    return static_cast<signed char>(value >> (8 * index));
}

unsigned byte(unsigned value, int index)
{
    return value >> (8 * index) & 0xff;
}

// The position of the second set bit at or above `start`.
unsigned second_set(unsigned mask, int start)
{
    int found = 0;
    for (int bit = start; bit < 32; bit++) {
        if (mask >> bit & 1 && ++found == 2) {
            return bit;
        }
    }
    return 0xffffffffu;
}

void expect_row(unsigned a, unsigned b, unsigned* row)
{
    unsigned long long wide = static_cast<unsigned long long>(a) << 32 | b;
    unsigned long long swapped = static_cast<unsigned long long>(b) << 32 | a;
    int x = static_cast<int>(a);
    int y = static_cast<int>(b);
    long long difference = static_cast<long long>(x) - y;
    row[0] = static_cast<unsigned>(__builtin_popcount(a));
    row[1] = static_cast<unsigned>(__builtin_popcountll(wide));
    row[2] = leading_zeros(a >> (b & 31), 32);
    row[3] = leading_zeros(wide >> (b & 63), 64);
    row[4] = static_cast<unsigned>(reversed(a, 32));
    row[5] = static_cast<unsigned>(reversed(wide, 64) >> 17);
    row[6] = first_set(a << (b & 31), 32);
    row[7] = first_set(wide << (b & 63), 64);
    row[8] = permuted(a, b, b >> 7 & 0x7777);
    row[9] = static_cast<unsigned>(static_cast<long long>(x) * y >> 32);
    row[10] = static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
    __int128 signed_product = static_cast<__int128>(static_cast<long long>(wide)) * static_cast<long long>(wide * 3);
    unsigned __int128 product = static_cast<unsigned __int128>(wide) * (wide * 3);
    row[11] = static_cast<unsigned>(static_cast<long long>(signed_product >> 64) >> 13);
    row[12] = static_cast<unsigned>(static_cast<unsigned long long>(product >> 64) >> 13);
    // The second operand is the upper half.
    row[13] = static_cast<unsigned>(swapped << (b >> 3 & 31) >> 32);
    row[14] = static_cast<unsigned>(swapped >> (b >> 3 & 31));
    int clamped = (b & 63) < 32 ? b & 63 : 32;
    row[15] = clamped == 32 ? a : static_cast<unsigned>(swapped << clamped >> 32);
    row[16] = static_cast<unsigned>(swapped >> clamped);
    int signed_dot = 1000;
    unsigned dot = 1000;
    for (int i = 0; i < 4; i++) {
        signed_dot += signed_byte(a, i) * signed_byte(b, i);
        dot += byte(a, i) * byte(b, i);
        row[26] |= (byte(a, i) + byte(b, i) & 0xff) << (8 * i);
        int largest = signed_byte(a, i) > signed_byte(b, i) ? signed_byte(a, i) : signed_byte(b, i);
        row[28] |= (static_cast<unsigned>(largest) & 0xff) << (8 * i);
        row[29] |= (byte(a, i) > byte(b, i) ? 0xffu : 0u) << (8 * i);
    }
    row[17] = static_cast<unsigned>(signed_dot);
    row[18] = dot;
    row[19] = (a & 0xffffff) * (b & 0xffffff);
    row[20] = static_cast<unsigned>((x << 8 >> 8)) * static_cast<unsigned>((y << 8 >> 8));
    row[21] = static_cast<unsigned>(difference < 0 ? -difference : difference) + 5;
    row[22] = (a > b ? a - b : b - a) + 5;
    row[23] = static_cast<unsigned>((static_cast<long long>(x) + y) >> 1);
    row[24] = static_cast<unsigned>((static_cast<long long>(x) + y + 1) >> 1);
    row[25] = static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1);
    for (int i = 0; i < 2; i++) {
        unsigned left = a >> (16 * i) & 0xffff;
        unsigned right = b >> (16 * i) & 0xffff;
        row[27] |= (left > right ? left - right : right - left) << (16 * i);
    }
    int low_words = static_cast<short>(a) * signed_byte(b, 0) + static_cast<short>(a >> 16) * signed_byte(b, 1);
    row[30] = static_cast<unsigned>(low_words + 7);
    row[31] = second_set(a, static_cast<int>(b & 31));
}

int main()
{
    Array<unsigned> a(count), b(count), output(columns * count), expected(columns * count);
    const unsigned edges[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0x00800000, 0xff7fffff, 255, 65536};
    constexpr int edge_count = sizeof edges / sizeof edges[0];
    Random random;
    for (int i = 0; i < count; i++) {
        bool edge = i < edge_count * edge_count;
        a[i] = edge ? edges[i / edge_count] : random.next();
        b[i] = edge ? edges[i % edge_count] : random.next();
        expect_row(a[i], b[i], &expected[columns * i]);
    }
    a.upload();
    b.upload();
    run<<<blocks_for(count, 128), 128>>>(a.device, b.device, output.device);
    FINISH();
    output.download();
    for (int i = 0; i < count; i++) {
        for (int column = 0; column < columns; column++) {
            if (output[columns * i + column] != expected[columns * i + column]) {
                fail(__FILE__, __LINE__, "column %d of %08x, %08x: got %08x, expected %08x", column, a[i], b[i],
                     output[columns * i + column], expected[columns * i + column]);
            }
        }
    }
    print_checksum("table", output.host, output.count);
    return pass("integer_intrinsics");
}
