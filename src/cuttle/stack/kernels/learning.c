/* Layers and optimisers of the capability tests. */
#include "device.h"

/* out[n][o][h][w]: images[n][c][h][w] with filters[o][c][3][3], zeros around. */
KERNEL convolve(const float *restrict images, const float *restrict filters, float *restrict out,
                u32 count, u32 channels, u32 outputs, u32 height, u32 width) {
    u32 place = global_thread();
    if (place >= count * outputs * height * width) return;
    u32 x = place % width, y = place / width % height, o = place / (width * height) % outputs, n = place / (width * height * outputs);
    float sum = 0.0f;
    for (u32 c = 0; c < channels; c++)
        for (u32 dy = 0; dy < 3; dy++)
            for (u32 dx = 0; dx < 3; dx++) {
                u32 from_y = y + dy - 1, from_x = x + dx - 1; /* wraps below 0: out of range as well */
                if (from_y < height && from_x < width)
                    sum += images[((n * channels + c) * height + from_y) * width + from_x] *
                           filters[((o * channels + c) * 3 + dy) * 3 + dx];
            }
    out[place] = sum;
}

#define WIDTH 16 /* of a head */

/* scores[rows][rows] of one head: queries and keys [rows][WIDTH]. */
KERNEL find_scores(const float *restrict queries, const float *restrict keys, float *restrict scores, u32 rows) {
    u32 place = global_thread();
    if (place >= rows * rows) return;
    float sum = 0.0f;
    for (u32 i = 0; i < WIDTH; i++) sum += queries[place / rows * WIDTH + i] * keys[place % rows * WIDTH + i];
    scores[place] = sum * 0.25f;
}

SHARED float key_tile[32][WIDTH];
SHARED float value_tile[32][WIDTH];

/* Attention in one pass: a thread per query, keys and values in tiles of 32 through shared memory, the maximum corrected as it
   grows (Dao et al., 2022, arXiv 2205.14135). Blocks of 32 threads; rows a multiple of 32. */
KERNEL attend_tiled(const float *restrict queries, const float *restrict keys, const float *restrict values,
                    float *restrict out, u32 rows) {
    u32 row = global_thread();
    float query[WIDTH], sums[WIDTH], top = -3e38f, total = 0.0f;
    for (u32 i = 0; i < WIDTH; i++) {
        query[i] = queries[row * WIDTH + i];
        sums[i] = 0.0f;
    }
    for (u32 first = 0; first < rows; first += 32) {
        for (u32 i = 0; i < WIDTH; i++) {
            key_tile[THREAD_X][i] = keys[(first + THREAD_X) * WIDTH + i];
            value_tile[THREAD_X][i] = values[(first + THREAD_X) * WIDTH + i];
        }
        BARRIER();
        for (u32 j = 0; j < 32; j++) {
            float score = 0.0f;
            for (u32 i = 0; i < WIDTH; i++) score += query[i] * key_tile[j][i];
            score *= 0.25f;
            float grown = larger(top, score), keep = exponential(top - grown), weight = exponential(score - grown);
            total = total * keep + weight;
            for (u32 i = 0; i < WIDTH; i++) sums[i] = sums[i] * keep + weight * value_tile[j][i];
            top = grown;
        }
        BARRIER();
    }
    for (u32 i = 0; i < WIDTH; i++) out[row * WIDTH + i] = sums[i] / total;
}

/* Attention over one chunk of keys (Rabe and Staats, 2021, arXiv 2112.05682): carried[rows][WIDTH + 2] are the weighted values,
   the maximum and the sum so far; `last` divides. */
KERNEL attend_chunk(const float *restrict queries, const float *restrict keys, const float *restrict values,
                    float *restrict carried, u32 rows, u32 first, u32 count) {
    u32 row = global_thread();
    if (row >= rows) return;
    float *own = carried + row * (WIDTH + 2);
    float top = first ? own[WIDTH] : -3e38f, total = first ? own[WIDTH + 1] : 0.0f;
    for (u32 j = first; j < first + count; j++) {
        float score = 0.0f;
        for (u32 i = 0; i < WIDTH; i++) score += queries[row * WIDTH + i] * keys[j * WIDTH + i];
        score *= 0.25f;
        float grown = larger(top, score), keep = exponential(top - grown), weight = exponential(score - grown);
        total = total * keep + weight;
        for (u32 i = 0; i < WIDTH; i++) own[i] = (j ? own[i] * keep : 0.0f) + weight * values[j * WIDTH + i];
        top = grown;
    }
    own[WIDTH] = top;
    own[WIDTH + 1] = total;
}

/* Stochastic gradient descent with momentum. */
KERNEL descend(float *restrict parameters, const float *restrict gradient, float *restrict momentum, u32 count, float rate, float kept) {
    u32 i = global_thread();
    if (i >= count) return;
    momentum[i] = kept * momentum[i] + gradient[i];
    parameters[i] -= rate * momentum[i];
}

/* Scaled gradients in half precision, and whether one of them is no finite number: what decides the scale of the next step. */
KERNEL to_half(const float *restrict gradient, unsigned short *restrict halves, u32 *overflow, u32 count, float scale) {
    u32 i = global_thread();
    if (i >= count) return;
    union { _Float16 value; unsigned short bits; } half = {(_Float16)(gradient[i] * scale)};
    halves[i] = half.bits;
    if ((half.bits & 0x7C00u) == 0x7C00u) __atomic_fetch_or(overflow, 1u, __ATOMIC_RELAXED);
}

KERNEL from_half(const unsigned short *restrict halves, float *restrict gradient, u32 count, float scale) {
    u32 i = global_thread();
    if (i >= count) return;
    union { unsigned short bits; _Float16 value; } half = {halves[i]};
    gradient[i] = (float)half.value / scale;
}
