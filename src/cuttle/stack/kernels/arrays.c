/* What the capability tests compute on arrays: element by element, sums, transforms, rows, gathering and scattering. */
#include "device.h"

#define THREADS 256

KERNEL elementwise(const float *restrict x, const float *restrict y, float *restrict out, u32 count) {
    u32 i = global_thread();
    if (i >= count) return;
    float size = x[i] < 0.0f ? -x[i] : x[i];
    out[i] = x[i] * y[i] + __nvvm_sqrt_rn_f(size) / (1.0f + exponential(-y[i]));
}

SHARED float sums[THREADS];
SHARED float tops[THREADS];

/* out[2 * block], [2 * block + 1]: sum and largest of a block's share. */
KERNEL sum_and_largest(const float *restrict values, float *restrict out, u32 count) {
    float sum = 0.0f, top = -3e38f;
    for (u32 i = global_thread(); i < count; i += BLOCKS_X * THREADS) {
        sum += values[i];
        top = larger(top, values[i]);
    }
    sums[THREAD_X] = sum;
    tops[THREAD_X] = top;
    BARRIER();
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        if ((u32)THREAD_X < half) {
            sums[THREAD_X] += sums[THREAD_X + half];
            tops[THREAD_X] = larger(tops[THREAD_X], tops[THREAD_X + half]);
        }
        BARRIER();
    }
    if (THREAD_X == 0) {
        out[2 * BLOCK_X] = sums[0];
        out[2 * BLOCK_X + 1] = tops[0];
    }
}

/* bfloat16 as the upper half of a single; rounded to nearest even. */
static inline float wide(unsigned short half) {
    union { u32 bits; float value; } whole = {(u32)half << 16};
    return whole.value;
}

static inline unsigned short narrow(float value) {
    union { float value; u32 bits; } whole = {value};
    return (unsigned short)((whole.bits + 0x7FFFu + (whole.bits >> 16 & 1)) >> 16);
}

/* out[n][n] = a[n][n] * b[n][n], summed in single precision. */
KERNEL multiply_bf16(const unsigned short *restrict a, const unsigned short *restrict b, unsigned short *restrict out, u32 n) {
    u32 place = global_thread();
    if (place >= n * n) return;
    float sum = 0.0f;
    for (u32 k = 0; k < n; k++) sum += wide(a[place / n * n + k]) * wide(b[k * n + place % n]);
    out[place] = narrow(sum);
}

SHARED float real[THREADS];
SHARED float imaginary[THREADS];

/* The discrete Fourier transform of 256 complex numbers in one block of 128 threads, in place: radix 2, decimation in time. */
KERNEL transform(float *restrict values) {
    for (u32 part = 0; part < 2; part++) {
        u32 i = part * 128 + THREAD_X, reversed = __builtin_bitreverse32(i) >> 24;
        real[reversed] = values[2 * i];
        imaginary[reversed] = values[2 * i + 1];
    }
    BARRIER();
    for (u32 half = 1; half < THREADS; half *= 2) {
        u32 inside = (u32)THREAD_X % half, low = (u32)THREAD_X / half * 2 * half + inside, high = low + half;
        float angle = -3.14159265f * (float)inside / (float)half;
        float c = __nvvm_cos_approx_f(angle), s = __nvvm_sin_approx_f(angle);
        float x = real[high] * c - imaginary[high] * s, y = real[high] * s + imaginary[high] * c;
        real[high] = real[low] - x;
        imaginary[high] = imaginary[low] - y;
        real[low] += x;
        imaginary[low] += y;
        BARRIER();
    }
    for (u32 part = 0; part < 2; part++) {
        u32 i = part * 128 + THREAD_X;
        values[2 * i] = real[i];
        values[2 * i + 1] = imaginary[i];
    }
}

/* out[rows][columns] = a sparse matrix in compressed rows * dense[][columns]. */
KERNEL multiply_sparse(const u32 *restrict starts, const u32 *restrict places, const float *restrict values,
                       const float *restrict dense, float *restrict out, u32 rows, u32 columns) {
    u32 place = global_thread();
    if (place >= rows * columns) return;
    u32 row = place / columns, column = place % columns;
    float sum = 0.0f;
    for (u32 i = starts[row]; i < starts[row + 1]; i++) sum += values[i] * dense[places[i] * columns + column];
    out[place] = sum;
}

/* Each row of values[rows][columns], one thread a row. */
KERNEL softmax_rows(const float *restrict values, float *restrict out, u32 rows, u32 columns) {
    u32 row = global_thread();
    if (row >= rows) return;
    const float *own = values + row * columns;
    float top = own[0], total = 0.0f;
    for (u32 i = 1; i < columns; i++) top = larger(top, own[i]);
    for (u32 i = 0; i < columns; i++) total += exponential(own[i] - top);
    for (u32 i = 0; i < columns; i++) out[row * columns + i] = exponential(own[i] - top) / total;
}

/* Mean 0 and variance 1 in each row, or, with a stride, in each channel: values[i * outer + c * inner + j]. */
KERNEL normalize(const float *restrict values, float *restrict out, u32 groups, u32 outer_count, u32 outer, u32 inner,
                 u32 inner_count, float epsilon) {
    u32 group = global_thread();
    if (group >= groups) return;
    float mean = 0.0f, square = 0.0f, count = (float)(outer_count * inner_count);
    for (u32 i = 0; i < outer_count; i++)
        for (u32 j = 0; j < inner_count; j++) mean += values[i * outer + group * inner + j] / count;
    for (u32 i = 0; i < outer_count; i++)
        for (u32 j = 0; j < inner_count; j++) {
            float apart = values[i * outer + group * inner + j] - mean;
            square += apart * apart / count;
        }
    float scale = 1.0f / __nvvm_sqrt_rn_f(square + epsilon);
    for (u32 i = 0; i < outer_count; i++)
        for (u32 j = 0; j < inner_count; j++) {
            u32 at = i * outer + group * inner + j;
            out[at] = (values[at] - mean) * scale;
        }
}

/* out[i] = values[places[i]], and counts[places[i]] goes up by i. */
KERNEL gather_and_scatter(const float *restrict values, const u32 *restrict places, float *restrict out, u32 *counts, u32 count) {
    u32 i = global_thread();
    if (i >= count) return;
    out[i] = values[places[i]];
    __atomic_fetch_add(&counts[places[i]], i, __ATOMIC_RELAXED);
}

KERNEL draw(u32 *restrict out, u32 count, u32 stream, u32 key) {
    u32 i = global_thread();
    if (i < count) out[i] = random_bits(i, stream, key);
}

/* What cuMemset and copies are checked with, and what graphs repeat: values[i] = values[i] * factor + i. */
KERNEL advance(u32 *values, u32 count, u32 factor) {
    u32 i = global_thread();
    if (i < count) values[i] = values[i] * factor + i;
}

/* The same after waiting a while, so that whoever does not wait for it sees the old values. */
KERNEL advance_late(u32 *values, u32 count, u32 factor, u32 rounds) {
    u32 i = global_thread();
    if (i >= count) return;
    u32 value = values[i], waste = i;
    for (u32 round = 0; round < rounds; round++) waste = waste * 1664525u + 1013904223u + (waste >> 7);
    values[i] = value * factor + i + (waste == 12345u && rounds == 0);
}

SHARED float staged[64][4];

/* A kernel whose attributes are known: 1,024 bytes of shared memory, three parameters of 8, 4 and 2 bytes. */
KERNEL known_attributes(float *out, u32 count, unsigned short factor) {
    u32 i = THREAD_X % 64;
    for (u32 part = 0; part < 4; part++) staged[i][part] = (float)(i * factor + part);
    BARRIER();
    if (i < count) out[i] = staged[63 - i][i % 4];
}
