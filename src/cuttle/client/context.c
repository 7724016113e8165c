/* Contexts: the calling thread's stack, primary contexts, context attributes. One device, so that contexts differ only
 * in their identity; the device process hears of them when they are created and destroyed. */
#include "request.h"
#include "stream.h"

#include <stdlib.h>

#define PRIMARY_CONTEXT_ID 1

static os_lock contexts_lock = OS_LOCK_INITIAL;
static context primary = {.tag = TAG_CONTEXT, .primary = true, .id = PRIMARY_CONTEXT_ID, .api_version = 3020};
static uint64_t context_count = PRIMARY_CONTEXT_ID;

context *primary_context(int device) { return device == 0 ? &primary : NULL; }

context *context_of(CUcontext handle, CUresult *result) {
    context *of = handle != NULL ? (context *)handle : current_context();
    *result = CUDA_ERROR_INVALID_CONTEXT;
    if (of == NULL || (handle != NULL && !has_tag(handle, TAG_CONTEXT))) return NULL;
    if (of->destroyed) {
        *result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return NULL;
    }
    *result = CUDA_SUCCESS;
    return of;
}

static bool device_exists(CUdevice device) { return device >= 0 && (uint32_t)device < client.control->device_count; }

static CUresult push(context *of) {
    thread_state *thread = thread_enter();
    if (thread == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (thread->depth == thread->capacity) {
        unsigned capacity = thread->capacity ? thread->capacity * 2 : 8;
        context **grown = realloc(thread->contexts, capacity * sizeof *grown);
        if (grown == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        thread->contexts = grown;
        thread->capacity = capacity;
    }
    thread->contexts[thread->depth++] = of;
    return CUDA_SUCCESS;
}

/* Ends what belongs to a context. Its work is waited for; true if it has failed. */
static bool clear(context *of) {
    context_storage_clear(of);
    bool failed = LOAD(client.status->sticky_error) != 0 || wait_all_ended() != CUDA_SUCCESS;
    modules_forget(of);
    allocations_forget(of);
    free(of->coredump);
    of->coredump = NULL;
    return failed;
}

/* ------------------------------------------------------------------------------------------------ the stack */

CUresult cuCtxGetCurrent(CUcontext *pctx) {
    ENTER_WITHOUT_CONTEXT();
    if (pctx == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)current_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
    ENTER_WITHOUT_CONTEXT();
    thread_state *thread = thread_enter();
    if (thread == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (ctx == NULL) {
        if (thread->depth != 0) thread->depth--;
        return CUDA_SUCCESS;
    }
    CUresult result;
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    if (thread->depth == 0) return push(of);
    thread->contexts[thread->depth - 1] = of;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    if (ctx == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    context *of = context_of(ctx, &result);
    return of != NULL ? push(of) : result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx) {
    ENTER_WITHOUT_CONTEXT();
    context *now = current_context();
    if (now == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx != NULL) *pctx = (CUcontext)now;
    cuttle_thread->depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx) { return cuCtxPushCurrent_v2(ctx); }
CUresult cuCtxPopCurrent(CUcontext *pctx) { return cuCtxPopCurrent_v2(pctx); }

/* ------------------------------------------------------------------------------------------------ own contexts */

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned api_version) {
    ENTER_WITHOUT_CONTEXT();
    if (pctx == NULL || (flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    context *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (context){.tag = TAG_CONTEXT, .active = true, .device = dev, .flags = flags, .api_version = api_version,
                      .id = __atomic_add_fetch(&context_count, 1, __ATOMIC_RELAXED)};
    CUresult result = REQUEST(CUTTLE_REQUEST_CONTEXT_CREATE, NULL, made->id, flags);
    if (result == CUDA_SUCCESS) result = push(made);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *pctx = (CUcontext)made;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned flags, CUdevice dev) { return create(pctx, flags, dev, 3010); }
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev) { return create(pctx, flags, dev, 3020); }

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned flags, CUdevice dev) {
    if (numParams != 0 || paramsArray != NULL) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned flags, CUdevice dev) {
    if (ctxCreateParams != NULL && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != NULL)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return create(pctx, flags, dev, 3020);
}

/* The object stays in memory: a stale handle answers CONTEXT_IS_DESTROYED. */
CUresult cuCtxDestroy_v2(CUcontext ctx) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    if (ctx == NULL) return CUDA_ERROR_INVALID_VALUE;
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    if (of->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (current_context() == of) cuttle_thread->depth--;
    bool failed = clear(of);
    result = REQUEST(CUTTLE_REQUEST_CONTEXT_DESTROY, NULL, of->id);
    streams_forget(of, failed);
    of->destroyed = true;
    of->active = false;
    return result;
}

CUresult cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

CUresult cuCtxAttach(CUcontext *pctx, unsigned flags) {
    ENTER_WITHOUT_CONTEXT();
    if (pctx == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    context *now = current_context();
    if (now == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    now->retained++;
    *pctx = (CUcontext)now;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    if (of->retained != 0) {
        of->retained--;
        return CUDA_SUCCESS;
    }
    return cuCtxDestroy_v2(ctx);
}

/* ------------------------------------------------------------------------------------------------ primary contexts */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    ENTER_WITHOUT_CONTEXT();
    if (pctx == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    os_lock_take(&contexts_lock);
    primary.retained++;
    primary.active = true;
    os_lock_release(&contexts_lock);
    *pctx = (CUcontext)&primary;
    return CUDA_SUCCESS;
}

static CUresult reset(void) {
    if (client_exits) return CUDA_SUCCESS;
    bool failed = clear(&primary);
    CUresult result = REQUEST(CUTTLE_REQUEST_DEVICE_RESET, NULL, primary.id);
    streams_forget(&primary, failed);
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    ENTER_WITHOUT_CONTEXT();
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    os_lock_take(&contexts_lock);
    bool held = primary.retained != 0, last = primary.retained == 1;
    if (held) primary.retained--;
    os_lock_release(&contexts_lock);
    if (!held) return CUDA_ERROR_INVALID_CONTEXT;
    if (!last) return CUDA_SUCCESS;
    CUresult result = reset();
    primary.active = primary.retained != 0;
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    ENTER_WITHOUT_CONTEXT();
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if (!primary.active) return CUDA_SUCCESS;
    CUresult result = reset();
    primary.active = false;
    primary.retained = 0;
    primary.flags = 0;
    return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags) {
    ENTER_WITHOUT_CONTEXT();
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0 || (flags & CU_CTX_SCHED_MASK) == 3) return CUDA_ERROR_INVALID_VALUE;
    primary.flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active) {
    ENTER_WITHOUT_CONTEXT();
    if (flags == NULL || active == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = primary.flags;
    *active = primary.active;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { return cuDevicePrimaryCtxRelease_v2(dev); }
CUresult cuDevicePrimaryCtxReset(CUdevice dev) { return cuDevicePrimaryCtxReset_v2(dev); }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }

/* ------------------------------------------------------------------------------------------------ attributes */

#define ENTER_CURRENT(name)                              \
    ENTER_WITHOUT_CONTEXT();                             \
    context *name = current_context();                   \
    if (name == NULL) return CUDA_ERROR_INVALID_CONTEXT

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER_CURRENT(now);
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    *device = now->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    context *of = context_of(ctx, &result);
    if (of != NULL) *device = of->device;
    return result;
}

CUresult cuCtxGetFlags(unsigned *flags) {
    ENTER_CURRENT(now);
    if (flags == NULL) return CUDA_ERROR_INVALID_VALUE;
    *flags = now->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags) {
    ENTER_CURRENT(now);
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0) return CUDA_ERROR_INVALID_VALUE;
    now->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    if (ctxId == NULL) return CUDA_ERROR_INVALID_VALUE;
    context *of = context_of(ctx, &result);
    if (of != NULL) *ctxId = of->id;
    return result;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    if (version == NULL) return CUDA_ERROR_INVALID_VALUE;
    context *of = context_of(ctx, &result);
    if (of != NULL) *version = of->api_version;
    return result;
}

CUresult cuCtxSynchronize(void) {
    ENTER();
    TRY(capture_forbids_waiting());
    return wait_all();
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    if (ctx == NULL) return cuCtxSynchronize();
    if (client.status->sticky_error != 0) return (CUresult)client.status->sticky_error;
    return wait_all();
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
    uint64_t value = 0;
    ENTER();
    if (pvalue == NULL) return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    TRY(REQUEST(CUTTLE_REQUEST_LIMIT_GET, &value, limit));
    *pvalue = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER();
    if ((unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    TRY(capture_forbids_unsafe());
    return REQUEST(CUTTLE_REQUEST_LIMIT_SET, NULL, limit, value);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
    ENTER_CURRENT(now);
    if (pconfig == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pconfig = now->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    ENTER_CURRENT(now);
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
    now->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
    ENTER_CURRENT(now);
    if (pConfig == NULL) return CUDA_ERROR_INVALID_VALUE;
    *pConfig = now->shared_config ? now->shared_config : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    ENTER_CURRENT(now);
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) return CUDA_ERROR_INVALID_VALUE;
    now->shared_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    ENTER();
    if (leastPriority != NULL) *leastPriority = 0;
    if (greatestPriority != NULL) *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type) {
    ENTER();
    if (pExecAffinity == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    pExecAffinity->type = type;
    pExecAffinity->param.smCount.val = (unsigned)client.attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    return CUDA_SUCCESS;
}

/* There is one device: it has no peers. */
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned Flags) {
    ENTER();
    (void)Flags;
    return has_tag(peerContext, TAG_CONTEXT) ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    ENTER();
    return has_tag(peerContext, TAG_CONTEXT) ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_ERROR_INVALID_CONTEXT;
}

/* As an H200's driver answers since CUDA 12: programs built against older headers still link to it. */
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, int outputMode) {
    ENTER();
    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* There is no profiler to start. */
CUresult cuProfilerStart(void) {
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void) {
    ENTER();
    return CUDA_SUCCESS;
}
