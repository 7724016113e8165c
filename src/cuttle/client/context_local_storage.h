#ifndef CUTTLE_CONTEXT_LOCAL_STORAGE_H
#define CUTTLE_CONTEXT_LOCAL_STORAGE_H

#include "client.h"

CUresult CUDAAPI context_storage_put(CUcontext ctx, void *key, void *value, void(CUDA_CB *destructor)(CUcontext, void *, void *));
CUresult CUDAAPI context_storage_delete(CUcontext ctx, void *key);
CUresult CUDAAPI context_storage_get(void **value, CUcontext ctx, void *key);

#endif
