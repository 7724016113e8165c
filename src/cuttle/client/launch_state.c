/* The launch interface of CUDA 2 and 3: a function remembers its block shape, shared memory and parameters for its launches
 * (CUDA Driver API, "Execution Control [DEPRECATED]"). 32-bit programs of that time use it. What is answered where the manual
 * says nothing was recorded on an H200 (tools/record_launch_state.py). */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PARAMETER_BYTES 32764u /* an H200 takes 4,097 and refuses 32,768; this is what kernels can have since sm_70 */
#define MOST_THREADS 1024

struct launch_state {
    uint32_t block[3], shared, bytes;
    uint8_t parameters[MOST_PARAMETER_BYTES];
};

static CUresult state_of(CUfunction handle, function **of, launch_state **state) {
    ENTER_BY_HANDLE();
    TRY(function_of(handle, of));
    *state = LOAD((*of)->state);
    if (*state != NULL) return CUDA_SUCCESS;
    launch_state *made = calloc(1, sizeof *made), *other = NULL;
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    made->block[0] = made->block[1] = made->block[2] = 1;
    if (__atomic_compare_exchange_n(&(*of)->state, &other, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        *state = made;
    } else {
        free(made);
        *state = other;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
    function *of;
    launch_state *state;
    TRY(state_of(hfunc, &of, &state));
    if (x <= 0 || y <= 0 || z <= 0 || x > MOST_THREADS || y > MOST_THREADS || z > MOST_THREADS || x * y * z > MOST_THREADS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    state->block[0] = (uint32_t)x;
    state->block[1] = (uint32_t)y;
    state->block[2] = (uint32_t)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
    function *of;
    launch_state *state;
    TRY(state_of(hfunc, &of, &state));
    if (bytes > of->max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
    state->shared = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
    function *of;
    launch_state *state;
    TRY(state_of(hfunc, &of, &state));
    if (numbytes > MOST_PARAMETER_BYTES) return CUDA_ERROR_INVALID_VALUE;
    state->bytes = numbytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
    function *of;
    launch_state *state;
    TRY(state_of(hfunc, &of, &state));
    if (ptr == NULL || offset < 0 || numbytes > MOST_PARAMETER_BYTES || (unsigned)offset > MOST_PARAMETER_BYTES - numbytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(state->parameters + offset, ptr, numbytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) { return cuParamSetv(hfunc, offset, &value, sizeof value); }

CUresult cuParamSetf(CUfunction hfunc, int offset, float value) { return cuParamSetv(hfunc, offset, &value, sizeof value); }

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    function *of;
    launch_state *state;
    TRY(state_of(f, &of, &state));
    if (grid_width <= 0 || grid_height <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (state->bytes > of->parameter_bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    /* Parameters behind the size that was set are zero, also where they were set. */
    uint8_t parameters[MOST_PARAMETER_BYTES] = {0};
    size_t bytes = of->parameter_bytes < sizeof parameters ? of->parameter_bytes : sizeof parameters;
    memcpy(parameters, state->parameters, state->bytes);
    void *extra[] = {(void *)1, parameters, (void *)2, &bytes, NULL}; /* buffer, its size, end */
    const uint32_t *block = state->block;
    return cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1, block[0], block[1], block[2], state->shared, hStream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) { return cuLaunchGridAsync(f, grid_width, grid_height, NULL); }

CUresult cuLaunch(CUfunction f) { return cuLaunchGridAsync(f, 1, 1, NULL); }
