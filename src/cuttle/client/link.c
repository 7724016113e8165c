/* cuLink*: putting several PTX texts, objects and libraries together. */
#include "module.h"
#include "request.h"

#include <stdlib.h>
#include <string.h>

typedef struct link_state {
    uint32_t tag;
    uint64_t id;
    jit_options options;
    uint8_t *image; /* belongs to the program until the link is destroyed */
} link_state;

static CUresult link_of(CUlinkState handle, link_state **found) {
    if (!has_tag(handle, TAG_LINK)) return CUDA_ERROR_INVALID_HANDLE;
    *found = (link_state *)handle;
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate_v2(unsigned numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut) {
    request call = {0};
    ENTER();
    if (stateOut == NULL) return CUDA_ERROR_INVALID_VALUE;
    link_state *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = jit_options_read(&made->options, numOptions, options, optionValues);
    for (int i = 0; i < 6; i++) request_argument(&call, made->options.arguments[i]);
    if (result == CUDA_SUCCESS) result = request_send(&call, CUTTLE_REQUEST_LINK_CREATE);
    request_done(&call);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    made->tag = TAG_LINK;
    made->id = call.values[0];
    *stateOut = (CUlinkState)made;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned numOptions,
                          CUjit_option *options, void **optionValues) {
    link_state *of;
    request call = {0};
    ENTER();
    (void)numOptions;
    (void)options;
    (void)optionValues;
    TRY(link_of(state, &of));
    if (data == NULL || size == 0) return CUDA_ERROR_INVALID_VALUE;
    size_t name_bytes = name != NULL ? strlen(name) : 0;
    request_argument(&call, of->id);
    request_argument(&call, type);
    request_argument(&call, name_bytes);
    request_payload(&call, name, name_bytes);
    request_payload(&call, data, size);
    CUresult result = request_send(&call, CUTTLE_REQUEST_LINK_ADD);
    jit_logs_give(&of->options, call.reply, call.reply_bytes, call.values[0], call.values[1]);
    request_done(&call);
    return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned numOptions, CUjit_option *options,
                          void **optionValues) {
    void *bytes;
    size_t size;
    ENTER();
    if (path == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(module_load_file(path, &bytes, &size));
    CUresult result = cuLinkAddData_v2(state, type, bytes, size, path, numOptions, options, optionValues);
    free(bytes);
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
    link_state *of;
    ENTER();
    TRY(link_of(state, &of));
    if (cubinOut == NULL) return CUDA_ERROR_INVALID_VALUE;
    request call = {.values = {of->id}, .count = 1};
    CUresult result = request_send(&call, CUTTLE_REQUEST_LINK_COMPLETE);
    uint64_t logs = call.values[CUTTLE_REPLY_LINK_COMPLETE_INFO_LOG_BYTES] + call.values[CUTTLE_REPLY_LINK_COMPLETE_ERROR_LOG_BYTES];
    uint64_t bytes = call.values[CUTTLE_REPLY_LINK_COMPLETE_IMAGE_BYTES];
    if (call.reply != NULL) {
        jit_logs_give(&of->options, call.reply, call.reply_bytes, call.values[CUTTLE_REPLY_LINK_COMPLETE_INFO_LOG_BYTES],
                      call.values[CUTTLE_REPLY_LINK_COMPLETE_ERROR_LOG_BYTES]);
    }
    if (result == CUDA_SUCCESS && (bytes == 0 || logs + bytes > call.reply_bytes)) result = CUDA_ERROR_UNKNOWN;
    if (result == CUDA_SUCCESS) {
        free(of->image);
        of->image = malloc(bytes + 1);
        if (of->image == NULL) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            memcpy(of->image, call.reply + logs, bytes);
            of->image[bytes] = 0; /* it may be PTX text */
            *cubinOut = of->image;
            if (sizeOut != NULL) *sizeOut = bytes;
        }
    }
    request_done(&call);
    return result;
}

CUresult cuLinkDestroy(CUlinkState state) {
    link_state *of;
    ENTER();
    TRY(link_of(state, &of));
    uint64_t id = of->id;
    of->tag = TAG_DEAD;
    free(of->image);
    of->image = NULL;
    return REQUEST(CUTTLE_REQUEST_LINK_DESTROY, NULL, id);
}

CUresult cuLinkCreate(unsigned numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut) {
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned numOptions,
                       CUjit_option *options, void **optionValues) {
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned numOptions, CUjit_option *options,
                       void **optionValues) {
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
