// The benchmark kernels of kernels.cu in OpenCL C, line for line.

__kernel void saxpy(float a, __global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

__kernel void matmul_naive(__global const float *a, __global const float *b, __global float *c, int n)
{
    int row = get_global_id(1);
    int column = get_global_id(0);
    if (row < n && column < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; k++) {
            sum += a[row * n + k] * b[k * n + column];
        }
        c[row * n + column] = sum;
    }
}

__kernel void matmul_tiled(__global const float *a, __global const float *b, __global float *c, int n)
{
    __local float tile_a[16][16], tile_b[16][16];
    int x = get_local_id(0), y = get_local_id(1);
    int row = get_group_id(1) * 16 + y, column = get_group_id(0) * 16 + x;
    float sum = 0.0f;
    for (int tile = 0; tile < n / 16; tile++) {
        tile_a[y][x] = a[row * n + tile * 16 + x];
        tile_b[y][x] = b[(tile * 16 + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++) {
            sum += tile_a[y][k] * tile_b[k][x];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}

__kernel void nbody(__global const float4 *bodies, __global float4 *accelerations, int n)
{
    __local float4 tile[256];
    int i = get_global_id(0);
    float4 own = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < n; start += 256) {
        tile[get_local_id(0)] = bodies[start + get_local_id(0)];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 256; k++) {
            float dx = tile[k].x - own.x, dy = tile[k].y - own.y, dz = tile[k].z - own.z;
            float squared = dx * dx + dy * dy + dz * dz + 1e-3f;
            float inverse = 1.0f / sqrt(squared);
            float weight = tile[k].w * inverse * inverse * inverse;
            ax += dx * weight;
            ay += dy * weight;
            az += dz * weight;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    accelerations[i] = (float4)(ax, ay, az, 0.0f);
}

__kernel void reduce_tree(__global const float *x, __global float *sums, int n)
{
    __local float partial[256];
    int thread = get_local_id(0), i = get_global_id(0);
    partial[thread] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 128; half_size > 0; half_size >>= 1) {
        if (thread < half_size) {
            partial[thread] += partial[thread + half_size];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0) {
        sums[get_group_id(0)] = partial[0];
    }
}

#ifdef SHUFFLE
__attribute__((intel_reqd_sub_group_size(32)))
__kernel void reduce_shuffle(__global const float *x, __global float *sums, int n)
{
    __local float partial[8];
    int thread = get_local_id(0), i = get_global_id(0);
    float value = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) {
        value += intel_sub_group_shuffle_down(value, value, offset);
    }
    if ((thread & 31) == 0) {
        partial[thread >> 5] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread < 32) {
        value = thread < 8 ? partial[thread] : 0.0f;
        for (int offset = 4; offset > 0; offset >>= 1) {
            value += intel_sub_group_shuffle_down(value, value, offset);
        }
        if (thread == 0) {
            sums[get_group_id(0)] = value;
        }
    }
}
#endif

__kernel void histogram_global(__global const uchar *data, __global uint *counts, int n)
{
    int stride = get_global_size(0);
    for (int i = get_global_id(0); i < n; i += stride) {
        atomic_inc(&counts[data[i]]);
    }
}

__kernel void histogram_shared(__global const uchar *data, __global uint *counts, int n)
{
    __local uint own[256];
    own[get_local_id(0)] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    int stride = get_global_size(0);
    for (int i = get_global_id(0); i < n; i += stride) {
        atomic_inc(&own[data[i]]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&counts[get_local_id(0)], own[get_local_id(0)]);
}

__kernel void diverge(__global int *steps, int n)
{
    int i = get_global_id(0);
    if (i >= n) {
        return;
    }
    uint value = i + 1;
    int count = 0;
    while (value != 1 && count < 200) {
        value = (value & 1) ? 3 * value + 1 : value >> 1;
        count++;
    }
    steps[i] = count;
}

float below(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
    float tail = 1.330274429f * k - 1.821255978f;
    tail = (((tail * k + 1.781477937f) * k - 0.356563782f) * k + 0.319381530f) * k;
    tail *= 0.39894228f * exp(-0.5f * d * d);
    return d > 0.0f ? 1.0f - tail : tail;
}

__kernel void black_scholes(__global const float *price, __global const float *strike, __global const float *years,
                            __global float *call, __global float *put, int n)
{
    const float rate = 0.02f, volatility = 0.3f;
    int i = get_global_id(0);
    if (i < n) {
        float root = sqrt(years[i]);
        float d1 = (log(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / (volatility * root);
        float first = below(d1), second = below(d1 - volatility * root);
        float discounted = strike[i] * exp(-rate * years[i]);
        call[i] = price[i] * first - discounted * second;
        put[i] = discounted * (1.0f - second) - price[i] * (1.0f - first);
    }
}

__kernel void softmax(__global const float *x, __global float *y, int rows)
{
    __local float partial[256];
    int thread = get_local_id(0);
    __global const float *row = x + get_group_id(0) * 1024;
    float largest = row[thread];
    for (int i = 256; i < 1024; i += 256) {
        largest = fmax(largest, row[thread + i]);
    }
    partial[thread] = largest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 128; half_size > 0; half_size >>= 1) {
        if (thread < half_size) {
            partial[thread] = fmax(partial[thread], partial[thread + half_size]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    largest = partial[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float powers[4], sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        powers[i] = exp(row[thread + 256 * i] - largest);
        sum += powers[i];
    }
    partial[thread] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_size = 128; half_size > 0; half_size >>= 1) {
        if (thread < half_size) {
            partial[thread] += partial[thread + half_size];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float factor = 1.0f / partial[0];
    for (int i = 0; i < 4; i++) {
        y[get_group_id(0) * 1024 + thread + 256 * i] = powers[i] * factor;
    }
}
