/* The benchmark's problems as plain serial C, as one would write them for `gcc -O3 -march=native`, without -ffast-math.
 *
 * The matrix product has its loops in the order that vectorises; the tiled one is blocked likewise. Sums are per 256
 * elements, as the kernels make them. The "global" histogram counts atomically as the kernel has to, the "shared" one in
 * a table of its own.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

void saxpy(float a, const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++) {
        y[i] = a * x[i] + y[i];
    }
}

void matmul_naive(const float *restrict a, const float *restrict b, float *restrict c, int n)
{
    memset(c, 0, sizeof(float) * (size_t)n * (size_t)n);
    for (int row = 0; row < n; row++) {
        for (int k = 0; k < n; k++) {
            float factor = a[row * n + k];
            for (int column = 0; column < n; column++) {
                c[row * n + column] += factor * b[k * n + column];
            }
        }
    }
}

void matmul_tiled(const float *restrict a, const float *restrict b, float *restrict c, int n)
{
    for (int block_row = 0; block_row < n; block_row += 16) {
        for (int block_column = 0; block_column < n; block_column += 16) {
            float sums[16][16] = {{0}};
            for (int k = 0; k < n; k++) {
                for (int y = 0; y < 16; y++) {
                    for (int x = 0; x < 16; x++) {
                        sums[y][x] += a[(block_row + y) * n + k] * b[k * n + block_column + x];
                    }
                }
            }
            for (int y = 0; y < 16; y++) {
                memcpy(&c[(block_row + y) * n + block_column], sums[y], sizeof sums[y]);
            }
        }
    }
}

void nbody(const float *bodies, float *accelerations, int n)
{
    for (int i = 0; i < n; i++) {
        float x = bodies[4 * i], y = bodies[4 * i + 1], z = bodies[4 * i + 2];
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int k = 0; k < n; k++) {
            float dx = bodies[4 * k] - x, dy = bodies[4 * k + 1] - y, dz = bodies[4 * k + 2] - z;
            float squared = dx * dx + dy * dy + dz * dz + 1e-3f;
            float inverse = 1.0f / sqrtf(squared);
            float weight = bodies[4 * k + 3] * inverse * inverse * inverse;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        accelerations[4 * i] = ax;
        accelerations[4 * i + 1] = ay;
        accelerations[4 * i + 2] = az;
        accelerations[4 * i + 3] = 0.0f;
    }
}

static void block_sums(const float *x, float *sums, int n)
{
    for (int start = 0; start < n; start += 256) {
        int end = start + 256 < n ? start + 256 : n;
        float sum = 0.0f;
        for (int i = start; i < end; i++) {
            sum += x[i];
        }
        sums[start / 256] = sum;
    }
}

void reduce_tree(const float *x, float *sums, int n)
{
    block_sums(x, sums, n);
}

void reduce_shuffle(const float *x, float *sums, int n)
{
    block_sums(x, sums, n);
}

void histogram_global(const uint8_t *data, uint32_t *counts, int n)
{
    for (int i = 0; i < n; i++) {
        __atomic_fetch_add(&counts[data[i]], 1, __ATOMIC_RELAXED);
    }
}

void histogram_shared(const uint8_t *data, uint32_t *counts, int n)
{
    uint32_t own[256] = {0};
    for (int i = 0; i < n; i++) {
        own[data[i]]++;
    }
    for (int i = 0; i < 256; i++) {
        counts[i] += own[i];
    }
}

void diverge(int *steps, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t value = (uint32_t)i + 1;
        int count = 0;
        while (value != 1 && count < 200) {
            value = (value & 1) ? 3 * value + 1 : value >> 1;
            count++;
        }
        steps[i] = count;
    }
}

static float below(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 1.330274429f * k - 1.821255978f;
    tail = (((tail * k + 1.781477937f) * k - 0.356563782f) * k + 0.319381530f) * k;
    tail *= 0.39894228f * expf(-0.5f * d * d);
    return d > 0.0f ? 1.0f - tail : tail;
}

void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put, int n)
{
    const float rate = 0.02f, volatility = 0.3f;
    for (int i = 0; i < n; i++) {
        float root = sqrtf(years[i]);
        float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
        float first = below(d1), second = below(d1 - volatility * root);
        float discounted = strike[i] * expf(-rate * years[i]);
        call[i] = price[i] * first - discounted * second;
        put[i] = discounted * (1.0f - second) - price[i] * (1.0f - first);
    }
}

void softmax(const float *x, float *y, int rows)
{
    for (int r = 0; r < rows; r++, x += 1024, y += 1024) {
        float largest = x[0], sum = 0.0f;
        for (int i = 1; i < 1024; i++) {
            largest = fmaxf(largest, x[i]);
        }
        for (int i = 0; i < 1024; i++) {
            y[i] = expf(x[i] - largest);
            sum += y[i];
        }
        float factor = 1.0f / sum;
        for (int i = 0; i < 1024; i++) {
            y[i] *= factor;
        }
    }
}
