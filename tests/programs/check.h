// What all test programs share: status checks, comparisons, checksums and small inputs.
//
// Everything a program prints on stdout must be the same on every device; what went wrong goes to stderr.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

// A build with -DBREAK computes something wrong on purpose, and the program has to notice it by itself.
#ifdef BREAK
constexpr int broken = 1;
#else
constexpr int broken = 0;
#endif

// Says what was wrong and ends the program with exit code 1.
[[noreturn]] inline void fail(const char* file, int line, const char* format, ...)
{
    std::fprintf(stderr, "%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
    std::fflush(stdout);
    std::exit(1);
}

inline void require_status(cudaError_t actual, cudaError_t expected, const char* call, const char* file, int line)
{
    if (actual != expected) {
        fail(file, line, "%s: got %s, expected %s", call, cudaGetErrorName(actual), cudaGetErrorName(expected));
    }
}

// The call must succeed.
#define CUDA(call) require_status((call), cudaSuccess, #call, __FILE__, __LINE__)

// The call must end with exactly this status.
#define EXPECT(status, call) require_status((call), (status), #call, __FILE__, __LINE__)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fail(__FILE__, __LINE__, "wrong: %s", #condition); \
        } \
    } while (0)

// Two arrays must agree in every element.
#define COMPARE(actual, expected, count) compare((actual), (expected), (count), #actual, __FILE__, __LINE__)

template <typename T>
void compare(const T* actual, const T* expected, size_t count, const char* what, const char* file, int line)
{
    for (size_t i = 0; i < count; i++) {
        if (!(actual[i] == expected[i])) {
            fail(file, line, "%s[%zu] is %.17g, expected %.17g", what, i, static_cast<double>(actual[i]),
                 static_cast<double>(expected[i]));
        }
    }
}

// An array on the host with its twin on the device.
template <typename T>
struct Array {
    size_t count;
    T* host;
    T* device = nullptr;

    explicit Array(size_t element_count) : count(element_count), host(new T[element_count]())
    {
        CUDA(cudaMalloc(&device, bytes()));
        upload();
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array()
    {
        cudaFree(device);
        delete[] host;
    }

    size_t bytes() const { return count * sizeof(T); }
    void upload() { CUDA(cudaMemcpy(device, host, bytes(), cudaMemcpyHostToDevice)); }
    void download() { CUDA(cudaMemcpy(host, device, bytes(), cudaMemcpyDeviceToHost)); }
    T& operator[](size_t index) { return host[index]; }
};

// A launch must have been accepted and must have run to its end.
#define FINISH() \
    do { \
        CUDA(cudaGetLastError()); \
        CUDA(cudaDeviceSynchronize()); \
    } while (0)

inline int blocks_for(size_t count, int threads)
{
    return static_cast<int>((count + threads - 1) / threads);
}

// Pseudo-random numbers that are the same everywhere (xorshift).
struct Random {
    uint32_t state = 2463534242u;

    uint32_t next()
    {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state;
    }
    int below(int limit) { return static_cast<int>(next() % static_cast<uint32_t>(limit)); }
};

// FNV-1a over the bytes of an array.
inline uint64_t checksum(const void* data, size_t bytes)
{
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211ull;
    }
    return hash;
}

template <typename T>
void print_checksum(const char* what, const T* data, size_t count)
{
    std::printf("%s: %016llx\n", what, static_cast<unsigned long long>(checksum(data, count * sizeof(T))));
}

// The last line of each program: `return pass("name");`.
inline int pass(const char* name)
{
    std::printf("PASS %s\n", name);
    return 0;
}
