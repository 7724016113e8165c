/* What the kernels share: places of threads, a counter-based random number, exponentials by the hardware's instructions. */
#ifndef CUTTLE_WORKLOADS_DEVICE_H
#define CUTTLE_WORKLOADS_DEVICE_H

#define KERNEL __attribute__((nvptx_kernel)) void
#define SHARED static __attribute__((address_space(3)))
#define THREAD_X __nvvm_read_ptx_sreg_tid_x()
#define THREAD_Y __nvvm_read_ptx_sreg_tid_y()
#define BLOCK_X __nvvm_read_ptx_sreg_ctaid_x()
#define BLOCK_Y __nvvm_read_ptx_sreg_ctaid_y()
#define BLOCK_Z __nvvm_read_ptx_sreg_ctaid_z()
#define BLOCKS_X __nvvm_read_ptx_sreg_nctaid_x()
#define BLOCKS_Z __nvvm_read_ptx_sreg_nctaid_z()
#define THREADS_X __nvvm_read_ptx_sreg_ntid_x()
#define BARRIER() __nvvm_bar_sync(0)

typedef unsigned u32;
typedef unsigned long long u64;

static inline u32 global_thread(void) { return BLOCK_X * THREADS_X + THREAD_X; }

static inline float exponential(float x) { return __nvvm_ex2_approx_f(x * 1.44269504f); }
static inline float logarithm(float x) { return __nvvm_lg2_approx_f(x) * 0.69314718f; }
static inline float larger(float a, float b) { return a > b ? a : b; }
static inline float smaller(float a, float b) { return a < b ? a : b; }

/* Random bits that depend on the counter and the key alone: any thread can compute any of them. Two multiplications of
   32 bits in ten rounds, as in Philox 2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */
static inline u32 random_bits(u32 counter, u32 stream, u32 key) {
    for (int round = 0; round < 10; round++) {
        u64 product = (u64)counter * 0xD256D193u;
        counter = (u32)(product >> 32) ^ key ^ stream;
        stream = (u32)product;
        key += 0x9E3779B9u;
    }
    return counter;
}

/* Evenly in [0, 1), 24 bits. */
static inline float random_float(u32 counter, u32 stream, u32 key) {
    return (float)(random_bits(counter, stream, key) >> 8) * (1.0f / 16777216.0f);
}

#endif
