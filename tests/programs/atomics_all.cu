// Every atomic function on every type, in global and shared memory, with many lanes on the same word.
#include "check.h"

constexpr int count = 2003;
constexpr int threads = 128;

struct Words {
    int added, subtracted, least, greatest, all_bits, any_bits, odd_bits, exchanged;
    unsigned wrapped_up, wrapped_down, unsigned_least, unsigned_greatest;
    unsigned long long added_64, least_64, greatest_64, all_bits_64, any_bits_64, odd_bits_64, compared_64;
    long long signed_least_64, signed_greatest_64;
    float added_float, greatest_float;
    double added_double, product;
    unsigned short compared_16;
};

// A product by compare and swap, as there is no atomic multiplication.
__device__ void multiply(double* address, double factor)
{
    unsigned long long* word = reinterpret_cast<unsigned long long*>(address);
    unsigned long long old = *word;
    unsigned long long assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(__longlong_as_double(assumed) * factor));
    } while (old != assumed);
}

__device__ void add_16(unsigned short* address, unsigned short amount)
{
    unsigned short old = *address;
    unsigned short assumed;
    do {
        assumed = old;
        old = atomicCAS(address, assumed, static_cast<unsigned short>(assumed + amount));
    } while (old != assumed);
}

__device__ void apply(Words* words, int i)
{
    unsigned long long wide = static_cast<unsigned long long>(i) << 33;
    atomicAdd(&words->added, i + broken);
    atomicSub(&words->subtracted, i);
    atomicMin(&words->least, -i);
    atomicMax(&words->greatest, i);
    atomicMin(&words->unsigned_least, 0x80000000u - i);
    atomicMax(&words->unsigned_greatest, 0x80000000u + i);
    atomicAnd(&words->all_bits, ~(i & 0xff0));
    atomicOr(&words->any_bits, i & 0x0f0);
    atomicXor(&words->odd_bits, i);
    atomicInc(&words->wrapped_up, 99);
    atomicDec(&words->wrapped_down, 99);
    atomicAdd(&words->added_64, wide);
    atomicMin(&words->least_64, ~wide);
    atomicMax(&words->greatest_64, wide);
    atomicMin(&words->signed_least_64, -static_cast<long long>(wide));
    atomicMax(&words->signed_greatest_64, static_cast<long long>(wide));
    atomicAnd(&words->all_bits_64, ~wide);
    atomicOr(&words->any_bits_64, wide);
    atomicXor(&words->odd_bits_64, wide);
    atomicAdd(&words->added_float, 0.5f);
    atomicAdd(&words->added_double, i * 0.25);
    if (i % 100 == 0) {
        multiply(&words->product, 2.0);
    }
    add_16(&words->compared_16, 3);
    atomicCAS(&words->compared_64, 7ull, 1234567890123ull);
    if (i == 77) {
        atomicExch(&words->exchanged, 4321);
    }
}

__global__ void in_global(Words* words)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        apply(words, i);
        // Positive floats order like their bits.
        atomicMax(reinterpret_cast<int*>(&words->greatest_float), __float_as_int(i * 0.5f));
    }
}

__global__ void in_shared(Words* words)
{
    __shared__ Words shared;
    if (threadIdx.x == 0) {
        shared = *words;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        apply(&shared, i);
        atomicMax(reinterpret_cast<int*>(&shared.greatest_float), __float_as_int(i * 0.5f));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *words = shared;
    }
}

// What an atomic returns is the value before it: all tickets are different.
__global__ void draw_tickets(int* next, int* owners, int* exchanged)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        int ticket = atomicAdd(next, 1);
        owners[ticket] = 1;
        // A chain of exchanges hands each number on to exactly one other thread.
        int received = atomicExch(exchanged, i + 1);
        atomicAdd(&exchanged[1], received);
    }
}

__global__ void scoped(int* values)
{
    atomicAdd_block(&values[blockIdx.x], 2);
    atomicAdd_system(&values[gridDim.x], 1);
    __threadfence_system();
}

Words start()
{
    Words words = {};
    words.all_bits = -1;
    words.unsigned_least = UINT32_MAX;
    words.least_64 = UINT64_MAX;
    words.all_bits_64 = UINT64_MAX;
    words.compared_64 = 7;
    words.product = 1.0;
    return words;
}

void require_words(const Words& words)
{
    constexpr int last = count - 1;
    constexpr int sum = count * (count - 1) / 2;
    int all_bits = -1, any_bits = 0, odd_bits = 0;
    unsigned long long any_bits_64 = 0, odd_bits_64 = 0;
    for (int i = 0; i < count; i++) {
        all_bits &= ~(i & 0xff0);
        any_bits |= i & 0x0f0;
        odd_bits ^= i;
        any_bits_64 |= static_cast<unsigned long long>(i) << 33;
        odd_bits_64 ^= static_cast<unsigned long long>(i) << 33;
    }
    CHECK(words.added == sum && words.subtracted == -sum);
    CHECK(words.least == -last && words.greatest == last);
    CHECK(words.unsigned_least == 0x80000000u - last && words.unsigned_greatest == 0x80000000u + last);
    CHECK(words.all_bits == all_bits && words.any_bits == any_bits && words.odd_bits == odd_bits);
    CHECK(words.wrapped_up == count % 100);
    CHECK(words.wrapped_down == (100 - count % 100) % 100);
    CHECK(words.added_64 == static_cast<unsigned long long>(sum) << 33);
    CHECK(words.least_64 == ~(static_cast<unsigned long long>(last) << 33));
    CHECK(words.greatest_64 == static_cast<unsigned long long>(last) << 33);
    CHECK(words.signed_least_64 == -(static_cast<long long>(last) << 33));
    CHECK(words.signed_greatest_64 == static_cast<long long>(last) << 33);
    CHECK(words.all_bits_64 == ~any_bits_64 && words.any_bits_64 == any_bits_64);
    CHECK(words.odd_bits_64 == odd_bits_64);
    CHECK(words.added_float == count * 0.5f && words.greatest_float == last * 0.5f);
    CHECK(words.added_double == sum * 0.25);
    CHECK(words.product == static_cast<double>(1 << ((count + 99) / 100)));
    CHECK(words.compared_16 == static_cast<unsigned short>(3 * count));
    CHECK(words.compared_64 == 1234567890123ull);
    CHECK(words.exchanged == 4321);
}

int main()
{
    Array<Words> words(1);
    words[0] = start();
    words.upload();
    in_global<<<blocks_for(count, threads), threads>>>(words.device);
    FINISH();
    words.download();
    require_words(words[0]);
    std::printf("global memory: right\n");

    words[0] = start();
    words.upload();
    in_shared<<<1, threads>>>(words.device);
    FINISH();
    words.download();
    require_words(words[0]);
    std::printf("shared memory: right\n");

    Array<int> next(1), owners(count), exchanged(2);
    draw_tickets<<<blocks_for(count, threads), threads>>>(next.device, owners.device, exchanged.device);
    FINISH();
    next.download();
    owners.download();
    exchanged.download();
    CHECK(next[0] == count);
    for (int i = 0; i < count; i++) {
        CHECK(owners[i] == 1);
    }
    CHECK(exchanged[0] + exchanged[1] == count * (count + 1) / 2);
    std::printf("returned values: right\n");

    Array<int> scopes(4);
    scoped<<<3, 50>>>(scopes.device);
    FINISH();
    scopes.download();
    CHECK(scopes[0] == 100 && scopes[1] == 100 && scopes[2] == 100 && scopes[3] == 150);
    std::printf("scopes: right\n");
    return pass("atomics_all");
}
