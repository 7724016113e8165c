/* User objects: reference counts that graphs hold for the program. */
#include "graph.h"

#include <stdlib.h>

typedef struct user_object {
    uint32_t tag;
    unsigned count;
    CUhostFn destroy;
    void *data;
} user_object;

static CUresult object_of(CUuserObject handle, user_object **found) {
    if (!has_tag(handle, TAG_USER_OBJECT)) return CUDA_ERROR_INVALID_VALUE;
    *found = (user_object *)handle;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned initialRefcount, unsigned flags) {
    ENTER_WITHOUT_CONTEXT();
    if (object_out == NULL || destroy == NULL || initialRefcount == 0) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    user_object *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (user_object){TAG_USER_OBJECT, initialRefcount, destroy, ptr};
    *object_out = (CUuserObject)made;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
    user_object *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(object_of(object, &of));
    __atomic_fetch_add(&of->count, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
    user_object *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(object_of(object, &of));
    if (count > LOAD(of->count)) return CUDA_ERROR_INVALID_VALUE;
    if (__atomic_sub_fetch(&of->count, count, __ATOMIC_ACQ_REL) == 0) {
        of->tag = TAG_DEAD;
        of->destroy(of->data);
    }
    return CUDA_SUCCESS;
}

/* A graph's references are never given back: the object then lives as long as the process, which is allowed. */
CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject object, unsigned count, unsigned flags) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(graph_of(graph_handle, &of));
    return (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0 ? CUDA_SUCCESS : cuUserObjectRetain(object, count);
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject object, unsigned count) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(graph_of(graph_handle, &of));
    return cuUserObjectRelease(object, count);
}
