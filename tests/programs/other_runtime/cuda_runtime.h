// Stands before an older runtime's own header: the compiler of 13.0 writes a type that runtimes before 12 do not have.
#pragma once

typedef struct CUkern_st* cudaKernel_t;

#include_next <cuda_runtime.h>

static_assert(CUDART_VERSION == EXPECTED_CUDART_VERSION, "these are not the headers of the runtime under test");
