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
    row(sqrt, host_sqrt, 0.0, 1000.0, 0) \
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
// Rounded once: the square root of a double must be exact, and rounding an extended one again might spoil it.
long double host_sqrt(long double x) { return std::sqrt(static_cast<double>(x)); }

// All functions of one kind share a kernel; each has a row of arguments and a row of results.
#define INDEX(function, host, low, high, error) row_of_##function,
enum FloatRow { FLOAT_FUNCTIONS(INDEX) float_rows };
enum FloatRowOfTwo { FLOAT_FUNCTIONS_OF_TWO(INDEX) float_rows_of_two };
enum DoubleRow { DOUBLE_FUNCTIONS(INDEX) double_rows };
enum DoubleRowOfTwo { DOUBLE_FUNCTIONS_OF_TWO(INDEX) double_rows_of_two };

#define CALL_OF_ONE(function, host, low, high, error) \
    result[row_of_##function * count + i] = function(x[row_of_##function * count + i]) + broken;
#define CALL_OF_TWO(function, host, low, high, error) \
    result[row_of_##function * count + i] = \
        function(x[row_of_##function * count + i], y[row_of_##function * count + i]) + broken;
#define KERNEL(name, type, calls) \
    __global__ void name(const type* x, const type* y, type* result) \
    { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < count) { \
            calls \
        } \
    }

KERNEL(run_float, float, FLOAT_FUNCTIONS(CALL_OF_ONE))
KERNEL(run_float_of_two, float, FLOAT_FUNCTIONS_OF_TWO(CALL_OF_TWO))
KERNEL(run_double, double, DOUBLE_FUNCTIONS(CALL_OF_ONE))
KERNEL(run_double_of_two, double, DOUBLE_FUNCTIONS_OF_TWO(CALL_OF_TWO))

// The host computes with more digits than the device. For doubles that matters: the host's own cbrt is off by 3 units.
template <typename T>
struct Wider;
template <>
struct Wider<float> {
    using type = double;
};
template <>
struct Wider<double> {
    using type = long double;
};

// The distance between neighbouring numbers of the type near a value.
template <typename T>
T unit_in_last_place(T value)
{
    return std::nextafter(std::fabs(value), static_cast<T>(INFINITY)) - std::fabs(value);
}

template <typename T>
struct Arguments {
    using Wide = typename Wider<T>::type;

    explicit Arguments(int rows) : x(rows * count), y(rows * count), result(rows * count) {}

    Array<T> x;
    Array<T> y;
    Array<T> result;

    void fill(int row, double low, double high)
    {
        Random random;
        for (int i = 0; i < count; i++) {
            x[row * count + i] = static_cast<T>(low + (high - low) * i / (count - 1));
            y[row * count + i] = static_cast<T>(low + (high - low) * (random.below(10000) + 0.5) / 10000);
        }
    }

    template <typename Kernel>
    void run(Kernel kernel)
    {
        x.upload();
        y.upload();
        kernel<<<blocks_for(count, 128), 128>>>(x.device, y.device, result.device);
        FINISH();
        result.download();
    }

    // `reference` computes from the very arguments that the device had. Says what is wrong and returns whether all is
    // right, so that one run shows everything.
    template <typename Reference>
    bool verify(const char* name, int row, Reference reference, double units)
    {
        for (int i = row * count; i < (row + 1) * count; i++) {
            Wide expected = reference(static_cast<Wide>(x[i]), static_cast<Wide>(y[i]));
            T nearest = static_cast<T>(expected);
            Wide error = std::fabs(static_cast<Wide>(result[i]) - (units > 0 ? expected : static_cast<Wide>(nearest)));
            Wide allowed = (units > 0 ? units + 0.5 : 0) * static_cast<Wide>(unit_in_last_place(nearest));
            if (!(error <= allowed)) {
                std::fprintf(stderr, "%s(%.17g, %.17g) is %.17g, expected %.17g\n", name, static_cast<double>(x[i]),
                             static_cast<double>(y[i]), static_cast<double>(result[i]), static_cast<double>(expected));
                return false;
            }
        }
        std::printf("%s: right\n", name);
        return true;
    }
};

#define FILL(function, host, low, high, error) arguments.fill(row_of_##function, low, high);
#define VERIFY_OF_ONE(function, host, low, high, error) \
    right &= arguments.verify(#function, row_of_##function, [](auto x, auto) { return host(x); }, error);
#define VERIFY_OF_TWO(function, host, low, high, error) \
    right &= arguments.verify(#function, row_of_##function, [](auto x, auto y) { return host(x, y); }, error);

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
    Arguments<float> arguments(1);
    arguments.fill(0, -3.0, 3.0);
    arguments.run(run_fast);
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
    bool right = true;
    {
        Arguments<float> arguments(float_rows);
        FLOAT_FUNCTIONS(FILL)
        arguments.run(run_float);
        FLOAT_FUNCTIONS(VERIFY_OF_ONE)
    }
    {
        Arguments<float> arguments(float_rows_of_two);
        FLOAT_FUNCTIONS_OF_TWO(FILL)
        arguments.run(run_float_of_two);
        FLOAT_FUNCTIONS_OF_TWO(VERIFY_OF_TWO)
    }
    {
        Arguments<double> arguments(double_rows);
        DOUBLE_FUNCTIONS(FILL)
        arguments.run(run_double);
        DOUBLE_FUNCTIONS(VERIFY_OF_ONE)
    }
    {
        Arguments<double> arguments(double_rows_of_two);
        DOUBLE_FUNCTIONS_OF_TWO(FILL)
        arguments.run(run_double_of_two);
        DOUBLE_FUNCTIONS_OF_TWO(VERIFY_OF_TWO)
    }
    CHECK(right);
    fast_functions();
    special_values();
    return pass("math_functions");
}
