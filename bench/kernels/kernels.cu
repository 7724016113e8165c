// The benchmark kernels, and the counter kernel of the launch benchmarks. kernels.cl holds the same in OpenCL C.
// Sizes and launch shapes: src/cuttle/bench/problems.py.

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

extern "C" __global__ void matmul_naive(const float *a, const float *b, float *c, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && column < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; k++) {
            sum += a[row * n + k] * b[k * n + column];
        }
        c[row * n + column] = sum;
    }
}

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float tile_a[16][16], tile_b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int tile = 0; tile < n / 16; tile++) {
        tile_a[y][x] = a[row * n + tile * 16 + x];
        tile_b[y][x] = b[(tile * 16 + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            sum += tile_a[y][k] * tile_b[k][x];
        }
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void nbody(const float4 *bodies, float4 *accelerations, int n)
{
    __shared__ float4 tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float4 own = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < n; start += 256) {
        tile[threadIdx.x] = bodies[start + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 256; k++) {
            float dx = tile[k].x - own.x, dy = tile[k].y - own.y, dz = tile[k].z - own.z;
            float squared = dx * dx + dy * dy + dz * dz + 1e-3f;
            float inverse = 1.0f / sqrtf(squared);
            float weight = tile[k].w * inverse * inverse * inverse;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        __syncthreads();
    }
    accelerations[i] = make_float4(ax, ay, az, 0.0f);
}

extern "C" __global__ void reduce_tree(const float *x, float *sums, int n)
{
    __shared__ float partial[256];
    int thread = threadIdx.x, i = blockIdx.x * 256 + thread;
    partial[thread] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        sums[blockIdx.x] = partial[0];
    }
}

extern "C" __global__ void reduce_shuffle(const float *x, float *sums, int n)
{
    __shared__ float partial[8];
    int thread = threadIdx.x, i = blockIdx.x * 256 + thread;
    float value = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    if ((thread & 31) == 0) {
        partial[thread >> 5] = value;
    }
    __syncthreads();
    if (thread < 32) {
        value = thread < 8 ? partial[thread] : 0.0f;
        for (int offset = 4; offset > 0; offset >>= 1) {
            value += __shfl_down_sync(0xffffffffu, value, offset);
        }
        if (thread == 0) {
            sums[blockIdx.x] = value;
        }
    }
}

extern "C" __global__ void histogram_global(const unsigned char *data, unsigned *counts, int n)
{
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        atomicAdd(&counts[data[i]], 1u);
    }
}

extern "C" __global__ void histogram_shared(const unsigned char *data, unsigned *counts, int n)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        atomicAdd(&own[data[i]], 1u);
    }
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

extern "C" __global__ void diverge(int *steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned value = i + 1;
    int count = 0;
    while (value != 1 && count < 200) {
        value = (value & 1) ? 3 * value + 1 : value >> 1;
        count++;
    }
    steps[i] = count;
}

// Call and put prices (F. Black and M. Scholes 1973), the normal distribution by Abramowitz and Stegun's 26.2.17; all
// transcendental functions are the multi-function unit's.
__device__ float below(float d)
{
    float k = __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d));
    float tail = 1.330274429f * k - 1.821255978f;
    tail = (((tail * k + 1.781477937f) * k - 0.356563782f) * k + 0.319381530f) * k;
    tail *= 0.39894228f * __expf(-0.5f * d * d);
    return d > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float *price, const float *strike, const float *years, float *call,
                                         float *put, int n)
{
    const float rate = 0.02f, volatility = 0.3f;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float root = __fdividef(1.0f, rsqrtf(years[i]));
        float d1 = __fdividef(__logf(__fdividef(price[i], strike[i])) + (rate + 0.5f * volatility * volatility) * years[i],
                              volatility * root);
        float first = below(d1), second = below(d1 - volatility * root);
        float discounted = strike[i] * __expf(-rate * years[i]);
        call[i] = price[i] * first - discounted * second;
        put[i] = discounted * (1.0f - second) - price[i] * (1.0f - first);
    }
}

// A row of 1,024 per block of 256.
extern "C" __global__ void softmax(const float *x, float *y, int rows)
{
    __shared__ float partial[256];
    int thread = threadIdx.x;
    const float *row = x + blockIdx.x * 1024;
    float largest = row[thread];
    for (int i = 256; i < 1024; i += 256) {
        largest = fmaxf(largest, row[thread + i]);
    }
    partial[thread] = largest;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (thread < half) {
            partial[thread] = fmaxf(partial[thread], partial[thread + half]);
        }
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();
    float powers[4], sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        powers[i] = __expf(row[thread + 256 * i] - largest);
        sum += powers[i];
    }
    partial[thread] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }
    float factor = __fdividef(1.0f, partial[0]);
    for (int i = 0; i < 4; i++) {
        y[blockIdx.x * 1024 + thread + 256 * i] = powers[i] * factor;
    }
}

// c = a b of halves on f32, n a multiple of 64; b is stored by columns. A block of 128 makes a tile of 64 by 64, each warp a
// quarter of it, in steps of k = 64. Rows of the tiles are padded against bank conflicts.
extern "C" __global__ void matmul_mma(const unsigned *a, const unsigned *b, float *c, int n)
{
    __shared__ unsigned tile_a[64][36], tile_b[64][36];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = lane / 4, t = lane % 4;
    int row = blockIdx.y * 64, column = blockIdx.x * 64, pairs = n / 2;
    int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    float sums[2][4][4] = {};
    for (int start = 0; start < pairs; start += 32) {
        for (int i = 0; i < 64; i += 4) {
            tile_a[i + warp][lane] = a[(row + i + warp) * pairs + start + lane];
            tile_b[i + warp][lane] = b[(column + i + warp) * pairs + start + lane];
        }
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < 32; k += 8) {
            for (int i = 0; i < 2; i++) {
                const unsigned (*left)[36] = tile_a + warp_row + 16 * i + group;
                for (int j = 0; j < 4; j++) {
                    const unsigned *right = tile_b[warp_column + 8 * j + group];
                    float *sum = sums[i][j];
                    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                        : "r"(left[0][k + t]), "r"(left[8][k + t]), "r"(left[0][k + t + 4]), "r"(left[8][k + t + 4]),
                          "r"(right[k + t]), "r"(right[k + t + 4]));
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 4; j++) {
            float *to = c + (row + warp_row + 16 * i + group) * n + column + warp_column + 8 * j + 2 * t;
            to[0] = sums[i][j][0];
            to[1] = sums[i][j][1];
            to[8 * n] = sums[i][j][2];
            to[8 * n + 1] = sums[i][j][3];
        }
    }
}

extern "C" __global__ void count(unsigned long long *counter)
{
    *counter += 1;
}
