// The nine benchmark kernels, and the counter kernel of the launch benchmarks. kernels.cl holds the same in OpenCL C.
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

extern "C" __global__ void count(unsigned long long *counter)
{
    *counter += 1;
}
