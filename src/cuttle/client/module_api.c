/* The calls on modules, libraries, kernels and functions. */
#include "launch.h"
#include "request.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

static CUresult module_of(const void *handle, module **found) {
    if (!has_tag(handle, TAG_MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (module *)handle;
    return CUDA_SUCCESS;
}

CUresult function_of(CUfunction handle, function **found) {
    if (!has_tag(handle, TAG_FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (function *)handle;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ modules */

CUresult cuModuleLoadDataEx(CUmodule *mod, const void *image, unsigned numOptions, CUjit_option *options, void **optionValues) {
    jit_options jit;
    module *loaded;
    ENTER();
    if (mod == NULL || image == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(jit_options_read(&jit, numOptions, options, optionValues));
    TRY(module_load(&loaded, image, &jit, false));
    *mod = (CUmodule)loaded;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *mod, const void *image) { return cuModuleLoadDataEx(mod, image, 0, NULL, NULL); }
CUresult cuModuleLoadFatBinary(CUmodule *mod, const void *fatCubin) { return cuModuleLoadDataEx(mod, fatCubin, 0, NULL, NULL); }

CUresult cuModuleLoad(CUmodule *mod, const char *fname) {
    void *bytes;
    size_t size;
    ENTER();
    if (mod == NULL || fname == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_load_file(fname, &bytes, &size));
    CUresult result = cuModuleLoadData(mod, bytes);
    free(bytes);
    return result;
}

CUresult cuModuleUnload(CUmodule hmod) {
    module *of;
    ENTER_BY_HANDLE();
    TRY(module_of(hmod, &of));
    if (of->is_library) return CUDA_ERROR_INVALID_HANDLE;
    TRY(capture_forbids_unsafe());
    module_unload(of);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    if (mode == NULL) return CUDA_ERROR_INVALID_VALUE;
    const char *value = getenv("CUDA_MODULE_LOADING");
    *mode = value != NULL && strcmp(value, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    module *of;
    function *found;
    ENTER_BY_HANDLE();
    if (hfunc == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(hmod, &of));
    TRY(module_function(of, name, &found));
    *hfunc = (CUfunction)found;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
    module *of;
    ENTER_BY_HANDLE();
    if (name == NULL || (dptr == NULL && bytes == NULL)) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(hmod, &of));
    return module_global(of, name, dptr, bytes, false);
}

/* Names of all kernels: one allocation, each name NUL-terminated. */
static CUresult kernel_names(module *of, uint64_t *count, char **names, size_t *bytes) {
    request call = {0};
    request_argument(&call, of->id);
    CUresult result = request_send(&call, CUTTLE_REQUEST_KERNEL_NAMES);
    *count = result == CUDA_SUCCESS ? call.values[0] : 0;
    *names = (char *)call.reply;
    *bytes = call.reply_bytes;
    if (result != CUDA_SUCCESS) request_done(&call);
    return result;
}

static CUresult enumerate(module *of, void **functions, unsigned count) {
    uint64_t have;
    char *names;
    size_t bytes;
    TRY(kernel_names(of, &have, &names, &bytes));
    CUresult result = CUDA_SUCCESS;
    size_t at = 0;
    for (unsigned i = 0; i < count && at < bytes && result == CUDA_SUCCESS; i++) {
        function *found = NULL;
        result = module_function(of, names + at, &found);
        functions[i] = found;
        at += strlen(names + at) + 1;
    }
    free(names);
    return result;
}

static CUresult count_kernels(module *of, unsigned *count) {
    uint64_t have;
    char *names;
    size_t bytes;
    TRY(kernel_names(of, &have, &names, &bytes));
    free(names);
    *count = (unsigned)have;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule mod) {
    module *of;
    ENTER();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(mod, &of));
    return count_kernels(of, count);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned numFunctions, CUmodule mod) {
    module *of;
    ENTER();
    if (functions == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(mod, &of));
    return enumerate(of, (void **)functions, numFunctions);
}

/* ------------------------------------------------------------------------------------------------ libraries */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                           unsigned numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned numLibraryOptions) {
    jit_options jit;
    module *loaded;
    ENTER_WITHOUT_CONTEXT();
    (void)libraryOptions; /* the bytes are sent at once, so that it does not matter whether they stay */
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    if (library == NULL || code == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(jit_options_read(&jit, numJitOptions, jitOptions, jitOptionsValues));
    TRY(module_load(&loaded, code, &jit, true));
    *library = (CUlibrary)loaded;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned numLibraryOptions) {
    void *bytes;
    size_t size;
    ENTER_WITHOUT_CONTEXT();
    if (library == NULL || fileName == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_load_file(fileName, &bytes, &size));
    CUresult result = cuLibraryLoadData(library, bytes, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                                        libraryOptionValues, numLibraryOptions);
    free(bytes);
    return result;
}

CUresult cuLibraryUnload(CUlibrary library) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(module_of(library, &of));
    module_unload(of);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    module *of;
    function *found;
    ENTER_WITHOUT_CONTEXT();
    if (pKernel == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(library, &of));
    TRY(module_function(of, name, &found));
    *pKernel = (CUkernel)found;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary lib) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(lib, &of));
    return count_kernels(of, count);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned numKernels, CUlibrary lib) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    if (kernels == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(lib, &of));
    return enumerate(of, (void **)kernels, numKernels);
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    module *of;
    ENTER();
    if (pMod == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(library, &of));
    *pMod = (CUmodule)of;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    if (name == NULL || (dptr == NULL && bytes == NULL)) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(library, &of));
    return module_global(of, name, dptr, bytes, false);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    if (name == NULL || (dptr == NULL && bytes == NULL)) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(library, &of));
    return module_global(of, name, dptr, bytes, true);
}

CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol) {
    module *of;
    ENTER_WITHOUT_CONTEXT();
    if (fptr == NULL || symbol == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_of(library, &of));
    return CUDA_ERROR_NOT_FOUND;
}

/* ------------------------------------------------------------------------------------------------ kernels */

CUresult function_attribute(const function *of, CUfunction_attribute attribute, int *value) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)of->max_threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)of->static_shared; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = (int)of->constant; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)of->local; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)of->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = (int)of->ptx_version; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = (int)of->binary_version; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)of->max_dynamic_shared; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = of->preferred_carveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = of->cluster_must_be_set; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = (int)of->cluster[0]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = (int)of->cluster[1]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = (int)of->cluster[2]; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = of->non_portable_cluster; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = of->cluster_policy; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult function_attribute_set(function *of, CUfunction_attribute attribute, int value) {
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
        int most = client.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
        if (value < 0 || value > most - (int)of->static_shared) return CUDA_ERROR_INVALID_VALUE;
        TRY(REQUEST(CUTTLE_REQUEST_FUNCTION_ATTRIBUTE_SET, NULL, of->id, attribute, (uint64_t)value));
        of->max_dynamic_shared = (uint32_t)value;
        return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
        of->preferred_carveout = value;
        return CUDA_SUCCESS;
    default: return cluster_function_attribute_set(of, attribute, value);
    }
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
    function *of;
    ENTER_BY_HANDLE();
    if (pi == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(hfunc, &of));
    return function_attribute(of, attrib, pi);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    function *of;
    ENTER_BY_HANDLE();
    TRY(function_of(hfunc, &of));
    return function_attribute_set(of, attrib, value);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if (pi == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    TRY(function_of((CUfunction)kernel, &of));
    return function_attribute(of, attrib, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    TRY(function_of((CUfunction)kernel, &of));
    return function_attribute_set(of, attrib, val);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    function *of;
    ENTER();
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    return function_of(hfunc, &of);
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    function *of;
    ENTER();
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) return CUDA_ERROR_INVALID_VALUE;
    return function_of(hfunc, &of);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    if (dev != 0) return CUDA_ERROR_INVALID_DEVICE;
    return function_of((CUfunction)kernel, &of);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    function *of;
    ENTER();
    if (pFunc == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of((CUfunction)kernel, &of));
    *pFunc = (CUfunction)of;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if (pLib == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of((CUfunction)kernel, &of));
    *pLib = (CUlibrary)of->owner;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
    function *of;
    ENTER_BY_HANDLE();
    if (hmod == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(hfunc, &of));
    *hmod = (CUmodule)of->owner;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if (name == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(hfunc, &of));
    *name = of->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc) { return cuFuncGetName(name, (CUfunction)hfunc); }

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
    function *of;
    ENTER_WITHOUT_CONTEXT();
    if (paramOffset == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(func, &of));
    if (paramIndex >= of->parameter_count) return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = of->parameters[paramIndex].offset;
    if (paramSize != NULL) *paramSize = of->parameters[paramIndex].bytes;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize) {
    return cuFuncGetParamInfo((CUfunction)kernel, paramIndex, paramOffset, paramSize);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function_handle) {
    function *of;
    ENTER();
    if (state == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(function_handle, &of));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function_handle) {
    function *of;
    ENTER();
    TRY(function_of(function_handle, &of));
    return REQUEST(CUTTLE_REQUEST_KERNEL_PREPARE, NULL, of->id);
}
