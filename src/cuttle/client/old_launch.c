/* Launches as before CUDA 4: block shape, shared memory and parameters are set on the function, one call each, and stay there.
   Deprecated, but NVIDIA's driver has them still, and PyCUDA uses them. CUDA Driver API, "Execution Control [DEPRECATED]". */
#include "launch.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

#define PARAMETER_BYTES 4096u

struct old_launch {
    unsigned block[3];
    unsigned shared;
    size_t bytes; /* of parameters */
    uint8_t parameters[PARAMETER_BYTES];
};

static os_lock settings_lock = OS_LOCK_INITIAL;

static CUresult settings_of(CUfunction handle, struct old_launch **found) {
    function *of;
    TRY(function_of(handle, &of));
    struct old_launch *known = LOAD(of->old_launch);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        if (known == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        os_lock_take(&settings_lock);
        if (LOAD(of->old_launch) == NULL) {
            STORE(of->old_launch, known);
        } else { /* another thread was faster */
            free(known);
            known = LOAD(of->old_launch);
        }
        os_lock_release(&settings_lock);
    }
    *found = known;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z) {
    struct old_launch *settings;
    ENTER();
    TRY(settings_of(hfunc, &settings));
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    settings->block[0] = (unsigned)x;
    settings->block[1] = (unsigned)y;
    settings->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes) {
    struct old_launch *settings;
    ENTER();
    TRY(settings_of(hfunc, &settings));
    settings->shared = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes) {
    struct old_launch *settings;
    ENTER();
    TRY(settings_of(hfunc, &settings));
    if (numbytes > PARAMETER_BYTES) return CUDA_ERROR_INVALID_VALUE;
    settings->bytes = numbytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes) {
    struct old_launch *settings;
    ENTER();
    TRY(settings_of(hfunc, &settings));
    if (offset < 0 || (unsigned)offset > PARAMETER_BYTES || numbytes > PARAMETER_BYTES - (unsigned)offset) return CUDA_ERROR_INVALID_VALUE;
    if (ptr == NULL && numbytes != 0) return CUDA_ERROR_INVALID_VALUE;
    if (numbytes != 0) memcpy(settings->parameters + offset, ptr, numbytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value) { return cuParamSetv(hfunc, offset, &value, sizeof value); }
CUresult cuParamSetf(CUfunction hfunc, int offset, float value) { return cuParamSetv(hfunc, offset, &value, sizeof value); }

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    struct old_launch *settings;
    ENTER();
    TRY(settings_of(f, &settings));
    if (grid_width <= 0 || grid_height <= 0) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = settings->bytes;
    void *extra[] = {(void *)1, settings->parameters, (void *)2, &bytes, NULL};
    return cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1, settings->block[0], settings->block[1], settings->block[2],
                          settings->shared, hStream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height) { return cuLaunchGridAsync(f, grid_width, grid_height, NULL); }
CUresult cuLaunch(CUfunction f) { return cuLaunchGridAsync(f, 1, 1, NULL); }
