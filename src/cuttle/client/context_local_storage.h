#ifndef CUTTLE_CONTEXT_LOCAL_STORAGE_H
#define CUTTLE_CONTEXT_LOCAL_STORAGE_H

#include "client.h"

CUresult context_storage_put(CUcontext ctx, void *key, void *value, void (*destructor)(CUcontext, void *, void *));
CUresult context_storage_delete(CUcontext ctx, void *key);
CUresult context_storage_get(void **value, CUcontext ctx, void *key);

#endif
