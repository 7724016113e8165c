// Mathematical functions in single and double precision, each within its documented error of the host's result.
#include <cmath>

#include "check.h"

constexpr int count = 601;

// function, host's function in double precision, range of arguments, largest error in units in the last place
#define FLOAT_FUNCTIONS(row) \
    row(sinf, std::sin, -20.0, 20.0, 2) \
    row(cosf, std::cos, -20.0, 20.0, 2) \
    row(tanf, std::tan, -20.0, 20.0, 4) \
    row(asinf, std::asin, -1.0, 1.0, 4) \
    row(atanf, std::atan, -50.0, 50.0, 3) \
    row(sinhf, std::sinh, -20.0, 20.0, 3) \
    row(tanhf, std::tanh, -5.0, 5.0, 3) \
    row(expf, std::exp, -80.0, 80.0, 2) \
    row(exp2f, std::exp2, -100.0, 100.0, 2) \
    row(expm1f, std::expm1, -10.0, 10.0, 2) \
    row(logf, std::log, 0.001, 1000.0, 2) \
    row(log2f, std::log2, 0.001, 1000.0, 2) \
    row(sqrtf, std::sqrt, 0.0, 1000.0, 0) \
    row(rsqrtf, host_rsqrt, 0.001, 1000.0, 2) \
    row(cbrtf, std::cbrt, -1000.0, 1000.0, 2) \
    row(erff, std::erf, -3.0, 3.0, 3) \
    row(tgammaf, std::tgamma, 0.5, 20.0, 6) \
    row(floorf, std::floor, -50.0, 50.0, 0) \
    row(rintf, std::rint, -50.0, 50.0, 0)

#define DOUBLE_FUNCTIONS(row) \
    row(sin, std::sin, -20.0, 20.0, 3) \
    row(tanh, std::tanh, -5.0, 5.0, 3) \
    row(exp, std::exp, -600.0, 600.0, 2) \
    row(log, std::log, 0.001, 1000.0, 2) \
    row(sqrt, std::sqrt, 0.0, 1000.0, 0) \
    row(cbrt, std::cbrt, -1000.0, 1000.0, 2)

#define FLOAT_FUNCTIONS_OF_TWO(row) \
    row(powf, std::pow, 0.01, 20.0, 9) \
    row(atan2f, std::atan2, -20.0, 20.0, 4) \
    row(hypotf, std::hypot, -20.0, 20.0, 3) \
    row(fmodf, std::fmod, -20.0, 20.0, 0) \
    row(fmaxf, std::fmax, -20.0, 20.0, 0)

#define DOUBLE_FUNCTIONS_OF_TWO(row) \
    row(pow, std::pow, 0.01, 20.0, 3) \
    row(atan2, std::atan2, -20.0, 20.0, 3)

double host_rsqrt(double x) { return 1.0 / std::sqrt(x); }

#define KERNEL_OF_ONE(function, type) \
    __global__ void run_##function(const type* x, const type*, type* result) \
    { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < count) { \
            result[i] = function(x[i]) + broken; \
        } \
    }
#define KERNEL_OF_TWO(function, type) \
    __global__ void run_##function(const type* x, const type* y, type* result) \
    { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < count) { \
            result[i] = function(x[i], y[i]) + broken; \
        } \
    }
#define FLOAT_KERNEL(function, host, low, high, error) KERNEL_OF_ONE(function, float)
#define DOUBLE_KERNEL(function, host, low, high, error) KERNEL_OF_ONE(function, double)
#define FLOAT_KERNEL_OF_TWO(function, host, low, high, error) KERNEL_OF_TWO(function, float)
#define DOUBLE_KERNEL_OF_TWO(function, host, low, high, error) KERNEL_OF_TWO(function, double)

FLOAT_FUNCTIONS(FLOAT_KERNEL)
DOUBLE_FUNCTIONS(DOUBLE_KERNEL)
FLOAT_FUNCTIONS_OF_TWO(FLOAT_KERNEL_OF_TWO)
DOUBLE_FUNCTIONS_OF_TWO(DOUBLE_KERNEL_OF_TWO)

// The distance between neighbouring numbers of the type near a value.
double unit_in_last_place(float, double value)
{
    float rounded = std::fabs(static_cast<float>(value));
    return static_cast<double>(std::nextafter(rounded, INFINITY)) - rounded;
}

double unit_in_last_place(double, double value)
{
    return std::nextafter(std::fabs(value), static_cast<double>(INFINITY)) - std::fabs(value);
}

template <typename T>
struct Arguments {
    Array<T> x{count};
    Array<T> y{count};
    Array<T> result{count};

    void fill(double low, double high)
    {
        Random random;
        for (int i = 0; i < count; i++) {
            x[i] = static_cast<T>(low + (high - low) * i / (count - 1));
            y[i] = static_cast<T>(low + (high - low) * (random.below(10000) + 0.5) / 10000);
        }
        x.upload();
        y.upload();
    }

    // `reference` computes in double precision from the very arguments that the device had.
    template <typename Reference>
    void verify(const char* name, Reference reference, double units)
    {
        FINISH();
        result.download();
        for (int i = 0; i < count; i++) {
            double expected = reference(static_cast<double>(x[i]), static_cast<double>(y[i]));
            double allowed = (units + (units > 0 ? 0.5 : 0)) * unit_in_last_place(T(), expected);
            // An exact function of float arguments may still need rounding to a float.
            double nearest = static_cast<double>(static_cast<T>(expected));
            if (!(std::fabs(static_cast<double>(result[i]) - (units > 0 ? expected : nearest)) <= allowed)) {
                fail(__FILE__, __LINE__, "%s(%.17g, %.17g) is %.17g, expected %.17g", name, static_cast<double>(x[i]),
                     static_cast<double>(y[i]), static_cast<double>(result[i]), expected);
            }
        }
    }
};

template <typename T, typename Kernel, typename Reference>
void test(Arguments<T>& arguments, const char* name, Kernel kernel, Reference reference, double low, double high,
          double units)
{
    arguments.fill(low, high);
    kernel<<<blocks_for(count, 128), 128>>>(arguments.x.device, arguments.y.device, arguments.result.device);
    arguments.verify(name, reference, units);
    std::printf("%s: right\n", name);
}

#define TEST_OF_ONE(function, host, low, high, error) \
    test(arguments, #function, run_##function, [](double x, double) { return host(x); }, low, high, error);
#define TEST_OF_TWO(function, host, low, high, error) \
    test(arguments, #function, run_##function, [](double x, double y) { return host(x, y); }, low, high, error);

__global__ void run_fast(const float* x, const float* y, float* result)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float sum = __sinf(x[i]) + __cosf(x[i]) + __expf(y[i]) + __logf(y[i] + 4.0f) + __fdividef(x[i], y[i] + 4.0f);
        result[i] = sum + __powf(2.0f, y[i]) + __frcp_rn(y[i] + 4.0f);
    }
}

__global__ void run_special(float* result)
{
    float zero = result[0];
    result[0] = sqrtf(-1.0f + zero);
    result[1] = logf(zero);
    result[2] = 1.0f / zero;
    result[3] = expf(200.0f + zero);
    result[4] = expf(-200.0f + zero);
    result[5] = atan2f(zero, -1.0f);
    result[6] = powf(zero, zero);
    result[7] = fmaf(3.0f, 5.0f, zero - 15.0f);
    result[8] = fminf(nanf(""), 4.0f + zero);
    result[9] = static_cast<float>(ilogbf(1000.0f + zero));
    result[10] = ldexpf(0.75f + zero, 5);
    result[11] = remainderf(7.5f + zero, 2.0f);
    result[12] = roundf(-2.5f + zero);
    result[13] = nearbyintf(2.5f + zero);
}

// The fast forms only promise a small absolute error in a small range.
void fast_functions()
{
    Arguments<float> arguments;
    arguments.fill(-3.0, 3.0);
    run_fast<<<blocks_for(count, 128), 128>>>(arguments.x.device, arguments.y.device, arguments.result.device);
    FINISH();
    arguments.result.download();
    for (int i = 0; i < count; i++) {
        double x = arguments.x[i];
        double y = arguments.y[i];
        double expected = std::sin(x) + std::cos(x) + std::exp(y) + std::log(y + 4) + x / (y + 4) + std::pow(2, y)
                          + 1 / (y + 4);
        CHECK(std::fabs(arguments.result[i] - expected) < 1e-4);
    }
    std::printf("fast functions: right\n");
}

void special_values()
{
    Array<float> result(14);
    run_special<<<1, 1>>>(result.device);
    FINISH();
    result.download();
    CHECK(std::isnan(result[0]));
    CHECK(result[1] == -INFINITY && result[2] == INFINITY && result[3] == INFINITY && result[4] == 0);
    CHECK(std::fabs(result[5] - 3.14159265f) < 1e-6f && result[6] == 1 && result[7] == 0 && result[8] == 4);
    CHECK(result[9] == 9 && result[10] == 24 && result[11] == -0.5f && result[12] == -3 && result[13] == 2);
    std::printf("special values: right\n");
}

int main()
{
    {
        Arguments<float> arguments;
        FLOAT_FUNCTIONS(TEST_OF_ONE)
        FLOAT_FUNCTIONS_OF_TWO(TEST_OF_TWO)
    }
    {
        Arguments<double> arguments;
        DOUBLE_FUNCTIONS(TEST_OF_ONE)
        DOUBLE_FUNCTIONS_OF_TWO(TEST_OF_TWO)
    }
    fast_functions();
    special_values();
    return pass("math_functions");
}
