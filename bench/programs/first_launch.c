/* How long a first launch takes: a driver-API program. `first_launch KERNEL.ptx NAME PAUSE_MS` prints one line of JSON.
 *
 * The kernel takes a pointer and is launched with one block of 256 threads that work on 256 words. Between loading the
 * module and the launch there is a pause in which compile workers start; the time is from cuLaunchKernel to the end of the
 * wait for it. Needs no CUDA header.
 */
#include "driver.h"

#define THREADS 256

typedef int (*fill_function)(uint64_t, unsigned, size_t);

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(size + 1);
    if (text == NULL || fread(text, 1, size, file) != size) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    text[size] = 0;
    fclose(file);
    return text;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "usage: first_launch KERNEL.ptx NAME PAUSE_MS\n");
        return 2;
    }
    char *text = read_text(arguments[1]);
    long pause_ms = atol(arguments[3]);
    void *kernel = open_kernel(text, arguments[2]);
    uint64_t words;
    check(((allocate_function)find("cuMemAlloc_v2"))(&words, 4 * THREADS), "cuMemAlloc");
    check(((fill_function)find("cuMemsetD32_v2"))(words, 1, THREADS), "cuMemsetD32");
    launch_function launch = (launch_function)find("cuLaunchKernel");
    plain_function synchronize = (plain_function)find("cuCtxSynchronize");
    check(synchronize(), "cuCtxSynchronize");
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    void *parameters[] = {&words};
    double start = now_ms();
    check(launch(kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
    check(synchronize(), "cuCtxSynchronize");
    printf("{\"first_launch_ms\": %.3f}\n", now_ms() - start);
    return 0;
}
