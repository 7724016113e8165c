// The driver's interface alone: the library is opened by name, and the kernels are PTX text in this file.
#include <cstring>

#include <cuda.h>
#include <dlfcn.h>

#include "check.h"

namespace {

// add_value: output[i] = input[i] + value * factor, where `factor` is a variable of the module.
const char ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.global .align 4 .u32 factor = 10;

.visible .entry add_value(
    .param .u64 output,
    .param .u64 input,
    .param .u32 count,
    .param .u16 value
)
{
    .reg .pred %p;
    .reg .b16 %h;
    .reg .b32 %i, %n, %r<5>;
    .reg .b64 %out, %in, %offset;

    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %i, %r0, %r1, %r2;
    ld.param.u32 %n, [count];
    setp.ge.u32 %p, %i, %n;
    @%p bra done;

    ld.param.u64 %in, [input];
    ld.param.u64 %out, [output];
    cvta.to.global.u64 %in, %in;
    cvta.to.global.u64 %out, %out;
    mul.wide.u32 %offset, %i, 4;
    add.s64 %in, %in, %offset;
    add.s64 %out, %out, %offset;
    ld.global.u32 %r3, [%in];
    ld.param.u16 %h, [value];
    cvt.u32.u16 %r2, %h;
    ld.global.u32 %r4, [factor];
)"
#ifdef BREAK
    "    mad.lo.u32 %r3, %r2, %r4, 1;\n"
#else
    "    mad.lo.u32 %r3, %r2, %r4, %r3;\n"
#endif
    R"(
    st.global.u32 [%out], %r3;
done:
    ret;
}

// reverse: one block turns its numbers around through dynamic shared memory.
.extern .shared .align 4 .b8 buffer[];

.visible .entry reverse(.param .u64 data)
{
    .reg .b32 %r<6>;
    .reg .b64 %d<3>;

    ld.param.u64 %d0, [data];
    cvta.to.global.u64 %d0, %d0;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, 4;
    add.s64 %d2, %d0, %d1;
    ld.global.u32 %r1, [%d2];
    mov.u32 %r2, buffer;
    shl.b32 %r3, %r0, 2;
    add.u32 %r3, %r3, %r2;
    st.shared.u32 [%r3], %r1;
    bar.sync 0;
    mov.u32 %r4, %ntid.x;
    sub.u32 %r4, %r4, %r0;
    sub.u32 %r4, %r4, 1;
    shl.b32 %r4, %r4, 2;
    add.u32 %r4, %r4, %r2;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%d2], %r5;
    ret;
}
)";

const char broken_ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry nonsense()
{
    .reg .b32 %r;
    frobnicate.u32 %r, %r, 1;
    ret;
}
)";

void* library = nullptr;

// Every function that is used, as a pointer of the type in cuda.h's own declaration.
template <typename Function>
Function* load(const char* name)
{
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) {
        fail(__FILE__, __LINE__, "libcuda.so.1 has no %s", name);
    }
    return reinterpret_cast<Function*>(symbol);
}

#define STRINGIFY(name) #name
#define EXPORTED_NAME(name) STRINGIFY(name)
// cuda.h renames some functions by macros (cuMemAlloc is cuMemAlloc_v2), so the name is expanded first.
#define LOAD(name) load<decltype(name)>(EXPORTED_NAME(name))

void require(CUresult actual, CUresult expected, const char* call, int line)
{
    if (actual != expected) {
        fail(__FILE__, line, "%s: got %d, expected %d", call, actual, expected);
    }
}

#define DRIVER(call) require((call), CUDA_SUCCESS, #call, __LINE__)
#define REFUSED(status, call) require((call), (status), #call, __LINE__)

constexpr unsigned count = 1003;
constexpr unsigned threads = 128;
constexpr unsigned blocks = (count + threads - 1) / threads;

void check_errors()
{
    const char* text = nullptr;
    DRIVER(LOAD(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(std::strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
    DRIVER(LOAD(cuGetErrorString)(CUDA_ERROR_INVALID_VALUE, &text));
    CHECK(std::strcmp(text, "invalid argument") == 0);
    REFUSED(CUDA_ERROR_INVALID_VALUE, LOAD(cuGetErrorName)(static_cast<CUresult>(-5), &text));
    CUdevice device;
    REFUSED(CUDA_ERROR_INVALID_DEVICE, LOAD(cuDeviceGet)(&device, 1000));
    std::printf("errors: right\n");
}

void check_broken_ptx()
{
    static char log[4096];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUmodule module;
    REFUSED(CUDA_ERROR_INVALID_PTX, LOAD(cuModuleLoadDataEx)(&module, broken_ptx, 2, options, values));
    CHECK(std::strlen(log) > 0);
    // The size has become the number of bytes written.
    CHECK(reinterpret_cast<size_t>(values[1]) > 0 && reinterpret_cast<size_t>(values[1]) <= sizeof log);
    CHECK(std::strstr(log, "frobnicate") != nullptr);
    std::printf("broken PTX: refused with a log\n");

    CUresult refused = LOAD(cuModuleLoadData)(&module, "no PTX at all");
    CHECK(refused != CUDA_SUCCESS);
    const char* name = nullptr;
    DRIVER(LOAD(cuGetErrorName)(refused, &name));
    std::printf("no PTX at all: %s\n", name);
}

void check_module()
{
    static char info[4096];
    static char errors[4096];
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void* values[] = {info, reinterpret_cast<void*>(sizeof info), errors, reinterpret_cast<void*>(sizeof errors),
                      reinterpret_cast<void*>(1)};
    CUmodule module;
    DRIVER(LOAD(cuModuleLoadDataEx)(&module, ptx, 5, options, values));
    CHECK(std::strlen(errors) == 0);
    CUfunction add_value, reverse, missing;
    DRIVER(LOAD(cuModuleGetFunction)(&add_value, module, "add_value"));
    DRIVER(LOAD(cuModuleGetFunction)(&reverse, module, "reverse"));
    REFUSED(CUDA_ERROR_NOT_FOUND, LOAD(cuModuleGetFunction)(&missing, module, "missing"));
    int largest_block = 0;
    DRIVER(LOAD(cuFuncGetAttribute)(&largest_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add_value));
    CHECK(largest_block >= 128 && largest_block <= 1024);

    CUdeviceptr input = 0, output = 0;
    DRIVER(LOAD(cuMemAlloc)(&input, count * sizeof(unsigned)));
    DRIVER(LOAD(cuMemAlloc)(&output, count * sizeof(unsigned)));
    static unsigned numbers[count];
    static unsigned results[count];
    for (unsigned i = 0; i < count; i++) {
        numbers[i] = i * i;
    }
    DRIVER(LOAD(cuMemcpyHtoD)(input, numbers, sizeof numbers));
    CUstream stream;
    DRIVER(LOAD(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));

    // First with one pointer for each parameter.
    unsigned length = count;
    unsigned short value = 65535;
    void* parameters[] = {&output, &input, &length, &value};
    auto launch = LOAD(cuLaunchKernel);
    DRIVER(launch(add_value, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
    DRIVER(LOAD(cuStreamSynchronize)(stream));
    DRIVER(LOAD(cuMemcpyDtoH)(results, output, sizeof results));
    for (unsigned i = 0; i < count; i++) {
        CHECK(results[i] == i * i + 655350);
    }
    print_checksum("kernelParams", results, count);

    // Then with all parameters packed in one buffer, after a change of the module's variable.
    CUdeviceptr factor = 0;
    size_t bytes = 0;
    DRIVER(LOAD(cuModuleGetGlobal)(&factor, &bytes, module, "factor"));
    CHECK(bytes == 4);
    unsigned new_factor = 3;
    DRIVER(LOAD(cuMemcpyHtoD)(factor, &new_factor, sizeof new_factor));
    struct Packed {
        CUdeviceptr output;
        CUdeviceptr input;
        unsigned count;
        unsigned short value;
    } packed = {output, input, count - 3, 7};
    size_t packed_bytes = offsetof(Packed, value) + sizeof packed.value;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                     CU_LAUNCH_PARAM_END};
    DRIVER(launch(add_value, blocks, 1, 1, threads, 1, 1, 0, stream, nullptr, extra));
    DRIVER(LOAD(cuStreamSynchronize)(stream));
    DRIVER(LOAD(cuMemcpyDtoH)(results, output, sizeof results));
    for (unsigned i = 0; i < count; i++) {
        CHECK(results[i] == i * i + (i < count - 3 ? 21 : 655350));
    }
    print_checksum("extra", results, count);

    void* reverse_parameters[] = {&input};
    DRIVER(launch(reverse, 1, 1, 1, 100, 1, 1, 400, stream, reverse_parameters, nullptr));
    DRIVER(LOAD(cuStreamSynchronize)(stream));
    DRIVER(LOAD(cuMemcpyDtoH)(results, input, sizeof results));
    for (unsigned i = 0; i < count; i++) {
        unsigned source = i < 100 ? 99 - i : i;
        CHECK(results[i] == source * source);
    }
    print_checksum("reverse", results, count);

    DRIVER(LOAD(cuMemsetD32)(input, 77, count));
    DRIVER(LOAD(cuMemcpyDtoD)(output + 4, input, 40));
    DRIVER(LOAD(cuMemcpyDtoH)(results, output, 12 * sizeof(unsigned)));
    CHECK(results[0] == 21 && results[1] == 77 && results[10] == 77 && results[11] == 121 + 21);

    REFUSED(CUDA_ERROR_INVALID_VALUE, launch(add_value, 0, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr));
    REFUSED(CUDA_ERROR_INVALID_VALUE, launch(add_value, 1, 1, 1, 2000, 1, 1, 0, stream, parameters, nullptr));
    DRIVER(LOAD(cuStreamDestroy)(stream));
    DRIVER(LOAD(cuMemFree)(input));
    DRIVER(LOAD(cuMemFree)(output));
    REFUSED(CUDA_ERROR_INVALID_VALUE, LOAD(cuMemFree)(output));
    DRIVER(LOAD(cuModuleUnload)(module));
}

}  // namespace

int main()
{
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
        fail(__FILE__, __LINE__, "%s", dlerror());
    }
    int device_count = 0;
    REFUSED(CUDA_ERROR_NOT_INITIALIZED, LOAD(cuDeviceGetCount)(&device_count));
    REFUSED(CUDA_ERROR_INVALID_VALUE, LOAD(cuInit)(5));
    DRIVER(LOAD(cuInit)(0));
    int version = 0;
    DRIVER(LOAD(cuDriverGetVersion)(&version));
    CHECK(version >= 13000);
    DRIVER(LOAD(cuDeviceGetCount)(&device_count));
    CHECK(device_count >= 1);
    check_errors();

    CUdevice device;
    DRIVER(LOAD(cuDeviceGet)(&device, 0));
    CUcontext context, current;
    CUdeviceptr memory;
    REFUSED(CUDA_ERROR_INVALID_CONTEXT, LOAD(cuMemAlloc)(&memory, 16));
    DRIVER(LOAD(cuDevicePrimaryCtxRetain)(&context, device));
    DRIVER(LOAD(cuCtxGetCurrent)(&current));
    CHECK(current == nullptr);
    DRIVER(LOAD(cuCtxPushCurrent)(context));
    DRIVER(LOAD(cuCtxGetCurrent)(&current));
    CHECK(current == context);
    check_broken_ptx();
    check_module();
    DRIVER(LOAD(cuCtxSynchronize)());
    DRIVER(LOAD(cuCtxPopCurrent)(&current));
    CHECK(current == context);
    DRIVER(LOAD(cuDevicePrimaryCtxRelease)(device));

    // A context of the program's own; the module is loaded anew in it.
    using CreateContext = CUresult(CUcontext*, unsigned, CUdevice);
    DRIVER(load<CreateContext>("cuCtxCreate_v2")(&context, 0, device));
    DRIVER(LOAD(cuCtxGetCurrent)(&current));
    CHECK(current == context);
    check_module();
    DRIVER(LOAD(cuCtxDestroy)(context));
    return pass("driver_api");
}
