/* The driver API without a CUDA header: types of the functions that the programs here call, and how to get them. */
#ifndef DRIVER_H
#define DRIVER_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*init_function)(unsigned);
typedef int (*device_function)(int *, int);
typedef int (*retain_function)(void **, int);
typedef int (*pointer_function)(void *);
typedef int (*load_function)(void **, const void *);
typedef int (*function_function)(void **, void *, const char *);
typedef int (*allocate_function)(uint64_t *, size_t);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                               void **, void **);
typedef int (*plain_function)(void);

static void *driver;

static void check(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "%s failed: %d\n", what, result);
        exit(1);
    }
}

static void *find(const char *name)
{
    void *address = dlsym(driver, name);
    if (address == NULL) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return address;
}

/* Opens the driver, makes the primary context of device 0 current and loads the module; returns its kernel of that name. */
static void *open_kernel(const char *text, const char *name)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    int device;
    void *context, *module, *kernel;
    check(((init_function)find("cuInit"))(0), "cuInit");
    check(((device_function)find("cuDeviceGet"))(&device, 0), "cuDeviceGet");
    check(((retain_function)find("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
    check(((pointer_function)find("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    check(((load_function)find("cuModuleLoadData"))(&module, text), "cuModuleLoadData");
    check(((function_function)find("cuModuleGetFunction"))(&kernel, module, name), "cuModuleGetFunction");
    return kernel;
}

#endif
