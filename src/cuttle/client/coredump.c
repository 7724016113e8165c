/* Settings of GPU core dumps, for the whole process and for each context. No dump is ever written: what would switch dumps on is
 * refused, everything else is kept and answered as by an H200. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#define COREDUMP_TEXT_BYTES 1024

typedef struct coredump_settings {
    bool enable_on_exception, trigger_host, lightweight, enable_user_trigger;
    unsigned generation_flags;
    char file[COREDUMP_TEXT_BYTES + 1], pipe[COREDUMP_TEXT_BYTES + 1];
} coredump_settings;

static os_lock settings_lock = OS_LOCK_INITIAL;
static coredump_settings global_settings = {.trigger_host = true};

typedef struct field {
    void *data;
    size_t bytes;
    bool is_text;
} field;

/* Contexts have no pipe and no user trigger of their own. */
static CUresult field_of(coredump_settings *of, CUcoredumpSettings which, field *found) {
    switch (which) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION: *found = (field){&of->enable_on_exception, 1, false}; break;
    case CU_COREDUMP_TRIGGER_HOST: *found = (field){&of->trigger_host, 1, false}; break;
    case CU_COREDUMP_LIGHTWEIGHT: *found = (field){&of->lightweight, 1, false}; break;
    case CU_COREDUMP_ENABLE_USER_TRIGGER: *found = (field){&of->enable_user_trigger, 1, false}; break;
    case CU_COREDUMP_FILE: *found = (field){of->file, COREDUMP_TEXT_BYTES, true}; break;
    case CU_COREDUMP_PIPE: *found = (field){of->pipe, COREDUMP_TEXT_BYTES, true}; break;
    case CU_COREDUMP_GENERATION_FLAGS: *found = (field){&of->generation_flags, 4, false}; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    bool global_only = which == CU_COREDUMP_ENABLE_USER_TRIGGER || which == CU_COREDUMP_PIPE;
    return global_only && of != &global_settings ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult get(coredump_settings *of, CUcoredumpSettings which, void *value, size_t *size) {
    field found;
    if (size == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(field_of(of, which, &found));
    if (value == NULL) {
        *size = found.bytes;
        return CUDA_SUCCESS;
    }
    if (!found.is_text) {
        if (*size != found.bytes) return CUDA_ERROR_INVALID_VALUE;
        memcpy(value, found.data, found.bytes);
        return CUDA_SUCCESS;
    }
    size_t length = strlen(found.data);
    if (*size <= length) return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, *size);
    memcpy(value, found.data, length);
    return CUDA_SUCCESS;
}

static CUresult set(coredump_settings *of, CUcoredumpSettings which, void *value, size_t *size) {
    field found;
    if (value == NULL || size == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(field_of(of, which, &found));
    if (found.is_text ? *size > found.bytes : *size != found.bytes) return CUDA_ERROR_INVALID_VALUE;
    bool switches = which == CU_COREDUMP_ENABLE_ON_EXCEPTION || which == CU_COREDUMP_ENABLE_USER_TRIGGER;
    if (switches && *(const unsigned char *)value != 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (found.is_text) memset(found.data, 0, found.bytes);
    memcpy(found.data, value, *size);
    return CUDA_SUCCESS;
}

/* A context begins with what holds for the process. */
static coredump_settings *settings_of(context *of) {
    if (of->coredump == NULL) {
        of->coredump = malloc(sizeof(coredump_settings));
        if (of->coredump != NULL) *(coredump_settings *)of->coredump = global_settings;
    }
    return of->coredump;
}

typedef CUresult settings_access(coredump_settings *of, CUcoredumpSettings attrib, void *value, size_t *size);

/* `get` or `set` on a context's settings; without a context on those that hold for the process. */
static CUresult access_settings(settings_access *access, context *of, CUcoredumpSettings attrib, void *value, size_t *size) {
    os_lock_take(&settings_lock);
    coredump_settings *settings = of != NULL ? settings_of(of) : &global_settings;
    CUresult result = settings != NULL ? access(settings, attrib, value, size) : CUDA_ERROR_OUT_OF_MEMORY;
    os_lock_release(&settings_lock);
    return result;
}

CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
    ENTER();
    return access_settings(get, current_context(), attrib, value, size);
}

CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
    ENTER_WITHOUT_CONTEXT();
    return access_settings(get, NULL, attrib, value, size);
}

CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size) {
    ENTER();
    return access_settings(set, current_context(), attrib, value, size);
}

CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size) {
    ENTER_WITHOUT_CONTEXT();
    return access_settings(set, NULL, attrib, value, size);
}
