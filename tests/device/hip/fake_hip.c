/* A strict stand-in for libamdhip64, built for HIP 5, 6 or 7 (-DMAJOR=...): calls before hipInit, null pointers and wrong devices get HIP's own
 * errors. What it has and how it misbehaves stands in environment variables:
 *   FAKE_HIP_DEVICES      gcnArchNames, separated by commas
 *   FAKE_HIP_VERSION      what hipRuntimeGetVersion writes
 *   FAKE_HIP_INIT, FAKE_HIP_COUNT   results of hipInit and hipGetDeviceCount
 *   FAKE_HIP_OVERLONG     bytes that the properties call writes behind its struct
 *   FAKE_HIP_WARP         the wave size that it reports
 *   FAKE_HIP_BEHAVIOUR    "crash" or "print", in hipInit
 *   FAKE_HIP_EMULATOR     see the end of this file
 * The struct layouts are written down here a second time, from the public headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_SUPPORTED = 801 };

#define EXPORT __attribute__((visibility("default")))

static int started;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static int device_count(void) {
    const char *text = getenv("FAKE_HIP_DEVICES");
    int count = 0;
    if (!text || !*text) return 0;
    for (count = 1; *text; text++) count += *text == ',';
    return count;
}

static void architecture(int device, char *out) {
    const char *text = getenv("FAKE_HIP_DEVICES");
    for (; device; device--) text = strchr(text, ',') + 1;
    size_t length = strcspn(text, ",");
    if (length > 200) length = 200;
    memcpy(out, text, length);
    out[length] = 0;
}

static int check(const void *pointer, int device) {
    if (!started) return NOT_INITIALIZED;
    if (!pointer) return INVALID_VALUE;
    return device < 0 || device >= device_count() ? INVALID_DEVICE : OK;
}

static int wave(int device) {
    char name[256];
    architecture(device, name);
    return number("FAKE_HIP_WARP", strncmp(name, "gfx9", 4) ? 32 : 64);
}

EXPORT int hipInit(unsigned flags) {
    const char *behaviour = getenv("FAKE_HIP_BEHAVIOUR");
    if (behaviour && !strcmp(behaviour, "crash")) abort();
    if (behaviour && !strcmp(behaviour, "print")) { printf("a driver says {hello}\n"); fflush(stdout); }
    if (flags) return INVALID_VALUE;
    int result = number("FAKE_HIP_INIT", OK);
    if (result == OK) started = 1;
    return result;
}

EXPORT int hipRuntimeGetVersion(int *version) {
    if (!version) return INVALID_VALUE;
    *version = number("FAKE_HIP_VERSION", MAJOR * 10000000 + 2 * 100000 + 345);
    return OK;
}

EXPORT int hipDriverGetVersion(int *version) { return hipRuntimeGetVersion(version); }

EXPORT const char *hipGetErrorName(int error) {
    return error == 4321 ? "hipErrorOfTheFuture" : "hipErrorUnknown";
}

EXPORT const char *hipGetErrorString(int error) { return hipGetErrorName(error); }

EXPORT int hipGetDeviceCount(int *count) {
    if (!started) return NOT_INITIALIZED;
    if (!count) return INVALID_VALUE;
    *count = device_count();
    return number("FAKE_HIP_COUNT", OK);
}

EXPORT int hipDeviceGet(int *device, int ordinal) {
    int result = check(device, ordinal);
    if (!result) *device = ordinal;
    return result;
}

EXPORT int hipDeviceGetName(char *name, int length, int device) {
    int result = check(name, device);
    if (result) return result;
    if (length <= 0) return INVALID_VALUE;
    snprintf(name, length, "Fake Radeon \x1b[2J%d", device);
    return OK;
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
    int result = check(bytes, device);
    if (!result) *bytes = (size_t)24 << 30;
    return result;
}

EXPORT int hipDeviceGetPCIBusId(char *text, int length, int device) {
    int result = check(text, device);
    if (result) return result;
    if (length < 13) return INVALID_VALUE;
    snprintf(text, length, "0000:%02x:00.0", 3 + device);
    return OK;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
    int result = check(value, device);
    if (result) return result;
    switch (attribute) {
    case 87: *value = wave(device); return OK;
    case 63: *value = 48; return OK;
    case 56: *value = 1024; return OK;
    case 74: *value = 65536; return OK;
    case 67: *value = 3 + device; return OK;
    case 68: case 69: case 16: *value = 0; return OK;
    default: return INVALID_VALUE;
    }
}

static void put(unsigned char *at, long long value, int bytes) { memcpy(at, &value, bytes); }

static int properties(unsigned char *out, int device, int size, int memory, int warp, int processors, int arch) {
    int result = check(out, device);
    if (result) return result;
    memset(out, 0, size + number("FAKE_HIP_OVERLONG", 0));
    snprintf((char *)out, 256, "Fake Radeon %d", device);
    put(out + memory, (long long)24 << 30, 8);
    put(out + warp, wave(device), 4);
    put(out + processors, 48, 4);
    architecture(device, (char *)out + arch);
    return OK;
}

/* The plain name keeps HIP 5's struct in all versions. */
EXPORT int hipGetDeviceProperties(unsigned char *out, int device) { return properties(out, device, 792, 256, 276, 336, 396); }

#if MAJOR >= 6
EXPORT int hipGetDevicePropertiesR0600(unsigned char *out, int device) {
    return properties(out, device, 1472, 288, 308, 388, 1160);
}
#endif

/* All other functions of the table, in a file that the tests write. With FAKE_HIP_EMULATOR (folders for sys.path, separated by colons) they are
 * executed by tests/device/hip/fake_runtime.py in the Python that loaded this library; without it nothing is supported. */
typedef long long word;
extern int PyGILState_Ensure(void) __attribute__((weak));
extern void PyGILState_Release(int) __attribute__((weak));
extern int PyRun_SimpleString(const char *) __attribute__((weak));
extern void *PyImport_ImportModule(const char *) __attribute__((weak));
extern void *PyObject_CallMethod(void *, const char *, const char *, ...) __attribute__((weak));
extern long PyLong_AsLong(void *) __attribute__((weak));
extern void PyErr_Print(void) __attribute__((weak));
extern void Py_DecRef(void *) __attribute__((weak));

static int forward(const char *name, int count, const word *arguments) {
    if (!getenv("FAKE_HIP_EMULATOR") || !PyGILState_Ensure) return NOT_SUPPORTED;
    if (!started) return NOT_INITIALIZED;
    int state = PyGILState_Ensure(), result = 999;
    PyRun_SimpleString("import os, sys\nsys.path.extend(p for p in os.environ['FAKE_HIP_EMULATOR'].split(':') if p not in sys.path)\n");
    void *module = PyImport_ImportModule("tests.device.hip.fake_runtime");
    void *answer = module ? PyObject_CallMethod(module, "call", "isiL", MAJOR, name, count, (word)(size_t)arguments) : 0;
    if (answer) result = (int)PyLong_AsLong(answer);
    else PyErr_Print();
    if (answer) Py_DecRef(answer);
    if (module) Py_DecRef(module);
    PyGILState_Release(state);
    return result;
}

#include "others.h"
