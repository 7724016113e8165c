/* Matrix products of the dense layers, row-major, any sizes. A block of 16x16 threads computes a tile of 64x64, each thread
   4x4 of it; operands pass through shared memory in slices of 16. */
#include "device.h"

#define TILE 64
#define SLICE 16
#define OWN 4

SHARED __attribute__((aligned(16))) float left[SLICE][TILE + 4];
SHARED __attribute__((aligned(16))) float right[SLICE][TILE + 4];

/* Element (row, k) of the left operand and (k, column) of the right one: stored straight or transposed. */
static inline float element(const float *matrix, u32 row, u32 column, u32 rows, u32 columns, int transposed) {
    if (row >= rows || column >= columns) return 0.0f;
    return transposed ? matrix[(u64)column * rows + row] : matrix[(u64)row * columns + column];
}

static inline __attribute__((always_inline)) void product(
    const float *a, const float *b, float sums[OWN][OWN], u32 m, u32 n, u32 k, u32 k_begin, u32 k_end,
    int a_transposed, int b_transposed
) {
    u32 thread = THREAD_Y * 16 + THREAD_X;
    u32 row = BLOCK_Y * TILE, column = BLOCK_X * TILE;
    for (u32 at = k_begin; at < k_end; at += SLICE) {
#pragma unroll
        for (u32 part = 0; part < TILE * SLICE / 256; part++) {
            u32 place = part * 256 + thread;
            /* Neighbouring threads read neighbouring words, whichever way the operand lies. */
            u32 ar = a_transposed ? place % TILE : place / SLICE, ak = a_transposed ? place / TILE : place % SLICE;
            u32 bc = b_transposed ? place / SLICE : place % TILE, bk = b_transposed ? place % SLICE : place / TILE;
            left[ak][ar] = at + ak < k_end ? element(a, row + ar, at + ak, m, k, a_transposed) : 0.0f;
            right[bk][bc] = at + bk < k_end ? element(b, at + bk, column + bc, k, n, b_transposed) : 0.0f;
        }
        BARRIER();
#pragma unroll
        for (u32 step = 0; step < SLICE; step++) {
            float x[OWN], y[OWN];
#pragma unroll
            for (u32 i = 0; i < OWN; i++) x[i] = left[step][THREAD_Y * OWN + i];
#pragma unroll
            for (u32 j = 0; j < OWN; j++) y[j] = right[step][THREAD_X * OWN + j];
#pragma unroll
            for (u32 i = 0; i < OWN; i++)
#pragma unroll
                for (u32 j = 0; j < OWN; j++) sums[i][j] += x[i] * y[j];
        }
        BARRIER();
    }
}

/* out[m][n] = a[m][k] * b[k][n] + bias[n], negative values to 0 if `rectify`; no bias if it is null. */
KERNEL multiply(const float *restrict a, const float *restrict b, const float *restrict bias, float *restrict out,
                u32 m, u32 n, u32 k, u32 rectify) {
    float sums[OWN][OWN] = {{0}};
    product(a, b, sums, m, n, k, 0, k, 0, 0);
#pragma unroll
    for (u32 i = 0; i < OWN; i++) {
        u32 row = BLOCK_Y * TILE + THREAD_Y * OWN + i;
#pragma unroll
        for (u32 j = 0; j < OWN; j++) {
            u32 column = BLOCK_X * TILE + THREAD_X * OWN + j;
            if (row >= m || column >= n) continue;
            float value = sums[i][j];
            if (bias) value += bias[column];
            out[(u64)row * n + column] = rectify ? larger(value, 0.0f) : value;
        }
    }
}

/* Gradient of a layer's input: out[m][n] = gradient[m][k] * weights[n][k]^T, zero where the layer before gave 0. */
KERNEL multiply_back(const float *restrict gradient, const float *restrict weights, const float *restrict activation,
                     float *restrict out, u32 m, u32 n, u32 k) {
    float sums[OWN][OWN] = {{0}};
    product(gradient, weights, sums, m, n, k, 0, k, 0, 1);
#pragma unroll
    for (u32 i = 0; i < OWN; i++) {
        u32 row = BLOCK_Y * TILE + THREAD_Y * OWN + i;
#pragma unroll
        for (u32 j = 0; j < OWN; j++) {
            u32 column = BLOCK_X * TILE + THREAD_X * OWN + j;
            if (row >= m || column >= n) continue;
            u64 at = (u64)row * n + column;
            out[at] = activation[at] > 0.0f ? sums[i][j] : 0.0f;
        }
    }
}

/* Gradient of a layer's weights: partial[z][m][n] = input[k][m]^T * gradient[k][n] over the z-th part of the rows k. */
KERNEL multiply_weights(const float *restrict input, const float *restrict gradient, float *restrict partial,
                        u32 m, u32 n, u32 k) {
    float sums[OWN][OWN] = {{0}};
    u32 part = (k + BLOCKS_Z - 1) / BLOCKS_Z, begin = BLOCK_Z * part, end = begin + part < k ? begin + part : k;
    product(input, gradient, sums, m, n, k, begin, end, 1, 0);
#pragma unroll
    for (u32 i = 0; i < OWN; i++) {
        u32 row = BLOCK_Y * TILE + THREAD_Y * OWN + i;
#pragma unroll
        for (u32 j = 0; j < OWN; j++) {
            u32 column = BLOCK_X * TILE + THREAD_X * OWN + j;
            if (row < m && column < n) partial[((u64)BLOCK_Z * m + row) * n + column] = sums[i][j];
        }
    }
}

/* out[i] = the sum of partial[z][i], always in the same order. */
KERNEL add_parts(const float *restrict partial, float *restrict out, u32 count, u32 parts) {
    u32 i = global_thread();
    if (i >= count) return;
    float sum = 0.0f;
    for (u32 z = 0; z < parts; z++) sum += partial[(u64)z * count + i];
    out[i] = sum;
}

/* Gradient of a bias: partial[z][n] = column sums of gradient[m][n] over the z-th part of the rows. */
KERNEL add_rows(const float *restrict gradient, float *restrict partial, u32 m, u32 n) {
    u32 column = global_thread();
    if (column >= n) return;
    u32 part = (m + BLOCKS_Z - 1) / BLOCKS_Z, begin = BLOCK_Z * part, end = begin + part < m ? begin + part : m;
    float sum = 0.0f;
    for (u32 row = begin; row < end; row++) sum += gradient[(u64)row * n + column];
    partial[(u64)BLOCK_Z * n + column] = sum;
}
