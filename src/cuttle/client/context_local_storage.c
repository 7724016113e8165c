/* Values that libraries in the program keep per context under a key of theirs (an export table; docs/legal.md names the
 * source of the interface). Destructors run outside of the lock: they may call back. */
#include "context_local_storage.h"

#include <stdlib.h>

static os_lock storage_lock = OS_LOCK_INITIAL;

CUresult CUDAAPI context_storage_put(CUcontext ctx, void *key, void *value, void(CUDA_CB *destructor)(CUcontext, void *, void *)) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    local_storage *made = malloc(sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    os_lock_take(&storage_lock);
    local_storage *entry = of->storage;
    while (entry != NULL && entry->key != key) entry = entry->next;
    if (entry == NULL) {
        made->next = of->storage;
        made->key = key;
        of->storage = entry = made;
        made = NULL;
    }
    entry->value = value;
    entry->destructor = destructor;
    os_lock_release(&storage_lock);
    free(made);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI context_storage_delete(CUcontext ctx, void *key) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    context *of = context_of(ctx, &result);
    if (of == NULL) return result;
    os_lock_take(&storage_lock);
    local_storage **link = &of->storage;
    while (*link != NULL && (*link)->key != key) link = &(*link)->next;
    local_storage *found = *link;
    if (found != NULL) *link = found->next;
    os_lock_release(&storage_lock);
    free(found);
    return CUDA_SUCCESS;
}

/* An absent value is an error: the caller takes it as the sign to make its state. */
CUresult CUDAAPI context_storage_get(void **value, CUcontext ctx, void *key) {
    CUresult result;
    ENTER_WITHOUT_CONTEXT();
    context *of = context_of(ctx, &result);
    if (of == NULL) return CUDA_ERROR_INVALID_HANDLE;
    result = CUDA_ERROR_INVALID_HANDLE;
    os_lock_take(&storage_lock);
    for (local_storage *entry = of->storage; entry != NULL; entry = entry->next) {
        if (entry->key == key) {
            *value = entry->value;
            result = CUDA_SUCCESS;
            break;
        }
    }
    os_lock_release(&storage_lock);
    return result;
}

void context_storage_clear(context *of) {
    for (;;) {
        os_lock_take(&storage_lock);
        local_storage *entry = of->storage;
        if (entry != NULL) of->storage = entry->next;
        os_lock_release(&storage_lock);
        if (entry == NULL) return;
        if (entry->destructor != NULL) entry->destructor((CUcontext)of, entry->key, entry->value);
        free(entry);
    }
}
