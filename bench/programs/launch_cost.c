/* What launches cost: a driver-API program. `launch_cost KERNELS.ptx LAUNCHES` prints one line of JSON.
 *
 * The kernel `count` adds one to a counter, which is checked at the end: a launch that is lost, or runs beside another,
 * is seen. Needs no CUDA header.
 */
#include "driver.h"

typedef int (*upload_function)(uint64_t, const void *, size_t);
typedef int (*download_function)(void *, uint64_t, size_t);

#define BATCH 100
#define BATCHES 300
#define WAKE_UPS 100
#define SERIES 5

static launch_function launch_kernel;
static plain_function synchronize;
static void *kernel;
static uint64_t counter;
static uint64_t launches;

static double now_us(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void launch(void)
{
    void *arguments[] = {&counter};
    check(launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
    launches++;
}

static void wait_for_all(void)
{
    check(synchronize(), "cuCtxSynchronize");
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void set_up(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    static char text[1 << 20];
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    fclose(file);
    kernel = open_kernel(text, "count");
    check(((allocate_function)find("cuMemAlloc_v2"))(&counter, 8), "cuMemAlloc");
    uint64_t zero = 0;
    check(((upload_function)find("cuMemcpyHtoD_v2"))(counter, &zero, 8), "cuMemcpyHtoD");
    launch_kernel = (launch_function)find("cuLaunchKernel");
    synchronize = (plain_function)find("cuCtxSynchronize");
}

/* Time inside cuLaunchKernel while the device is awake: it is busy with launches that came just before. CPU time of the
 * calling thread, so that other load on the machine does not count. */
static double awake_us(void)
{
    static double samples[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH / 4; i++) {
            launch();
        }
        double start = now_us(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < BATCH; i++) {
            launch();
        }
        samples[batch] = (now_us(CLOCK_THREAD_CPUTIME_ID) - start) / BATCH;
        wait_for_all();
    }
    return median(samples, BATCHES);
}

/* A single launch after the device has gone to sleep: it has to be woken. */
static double wake_up_us(void)
{
    static double samples[WAKE_UPS];
    struct timespec pause = {0, 5000000};
    for (int i = 0; i < WAKE_UPS; i++) {
        nanosleep(&pause, NULL);
        double start = now_us(CLOCK_MONOTONIC);
        launch();
        samples[i] = now_us(CLOCK_MONOTONIC) - start;
        wait_for_all();
    }
    return median(samples, WAKE_UPS);
}

/* A launch and the wait for it, there and back. */
static double round_trip_us(void)
{
    static double samples[1000];
    for (int i = 0; i < 1000; i++) {
        double start = now_us(CLOCK_MONOTONIC);
        launch();
        wait_for_all();
        samples[i] = now_us(CLOCK_MONOTONIC) - start;
    }
    return median(samples, 1000);
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: launch_cost KERNELS.ptx LAUNCHES\n");
        return 2;
    }
    set_up(arguments[1]);
    long wanted = atol(arguments[2]);
    for (int i = 0; i < 1000; i++) {
        launch();
    }
    wait_for_all();
    double awake = awake_us(), wake_up = wake_up_us(), round_trip = round_trip_us();
    double rates[SERIES];
    for (int series = 0; series < SERIES; series++) {
        double start = now_us(CLOCK_MONOTONIC);
        for (long i = 0; i < wanted; i++) {
            launch();
        }
        wait_for_all();
        rates[series] = (double)wanted / (now_us(CLOCK_MONOTONIC) - start) * 1e6;
    }
    uint64_t counted = 0;
    check(((download_function)find("cuMemcpyDtoH_v2"))(&counted, counter, 8), "cuMemcpyDtoH");
    printf("{\"launch_us\": %.4f, \"wake_up_us\": %.3f, \"round_trip_us\": %.3f, \"launches\": %llu, \"counted\": %llu, "
           "\"rates\": [",
           awake, wake_up, round_trip, (unsigned long long)launches, (unsigned long long)counted);
    for (int series = 0; series < SERIES; series++) {
        printf("%s%.0f", series ? ", " : "", rates[series]);
    }
    printf("]}\n");
    return counted == launches ? 0 : 1;
}
