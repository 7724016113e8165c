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
