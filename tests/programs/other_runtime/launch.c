// The compiler of 13.0 launches kernels through two functions that older compilers did not use and runtimes before 12 do
// not have. Linked with --wrap, they become what an older compiler wrote: cudaLaunchKernel with the address of the stub.
#include <stddef.h>

struct dim3 {
    unsigned x, y, z;
};

int cudaLaunchKernel(const void* function, struct dim3 grid, struct dim3 block, void** arguments, size_t shared, void* stream);

int __wrap___cudaGetKernel(const void** kernel, const void* function)
{
    *kernel = function;
    return 0;
}

int __wrap___cudaLaunchKernel(const void* kernel, struct dim3 grid, struct dim3 block, void** arguments, size_t shared,
                              void* stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
