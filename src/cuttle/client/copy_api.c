/* The copy and set calls. */
#include "array.h"
#include "memory.h"

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

/* ------------------------------------------------------------------------------------------------ linear copies */

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    place to, from;
    ENTER();
    if (ByteCount == 0) return CUDA_SUCCESS;
    TRY(place_on_device(dstDevice, ByteCount, &to));
    TRY(place_of(ADDRESS(srcHost), ByteCount, &from));
    from.on_device = false;
    return copy_sync(&to, &from, ByteCount);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    place to, from;
    ENTER();
    if (ByteCount == 0) return CUDA_SUCCESS;
    TRY(place_of(ADDRESS(dstHost), ByteCount, &to));
    TRY(place_on_device(srcDevice, ByteCount, &from));
    from.on_device = false;
    return copy_sync(&to, &from, ByteCount);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    place to, from;
    ENTER();
    if (ByteCount == 0) return CUDA_SUCCESS;
    TRY(place_on_device(dstDevice, ByteCount, &to));
    TRY(place_on_device(srcDevice, ByteCount, &from));
    return copy_sync(&to, &from, ByteCount);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    place to, from;
    ENTER();
    if (ByteCount == 0) return CUDA_SUCCESS;
    TRY(place_of(dst, ByteCount, &to));
    TRY(place_of(src, ByteCount, &from));
    return copy_sync(&to, &from, ByteCount);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    place to, from;
    stream *on;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &on));
    if (ByteCount == 0) return CUDA_SUCCESS;
    TRY(place_of(dst, ByteCount, &to));
    TRY(place_of(src, ByteCount, &from));
    return copy_async(&to, &from, ByteCount, on);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
    place to;
    ENTER_BY_HANDLE();
    if (ByteCount != 0) TRY(place_on_device(dstDevice, ByteCount, &to));
    return cuMemcpyAsync(dstDevice, ADDRESS(srcHost), ByteCount, hStream);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    place from;
    ENTER_BY_HANDLE();
    if (ByteCount != 0) TRY(place_on_device(srcDevice, ByteCount, &from));
    return cuMemcpyAsync(ADDRESS(dstHost), srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    place either;
    ENTER_BY_HANDLE();
    if (ByteCount != 0) TRY(place_on_device(dstDevice, ByteCount, &either));
    if (ByteCount != 0) TRY(place_on_device(srcDevice, ByteCount, &either));
    return cuMemcpyAsync(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount) {
    CUresult result;
    ENTER();
    if (context_of(dstContext, &result) == NULL || context_of(srcContext, &result) == NULL) return result;
    return cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
    CUresult result;
    ENTER();
    if (context_of(dstContext, &result) == NULL || context_of(srcContext, &result) == NULL) return result;
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUstream on) {
    if (dsts == NULL || srcs == NULL || sizes == NULL || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (on == NULL || on == (CUstream)CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE; /* as documented */
    for (size_t i = 0; i < count; i++) TRY(cuMemcpyAsync(dsts[i], srcs[i], sizes[i], on));
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
                               size_t *attrsIdxs, size_t numAttrs, CUstream hStream) {
    ENTER();
    (void)attrs;
    (void)attrsIdxs;
    (void)numAttrs;
    return copy_batch(dsts, srcs, sizes, count, hStream);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
                            size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream) {
    CUresult result = cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
    if (result != CUDA_SUCCESS && failIdx != NULL) *failIdx = SIZE_MAX;
    return result;
}

/* ------------------------------------------------------------------------------------------------ block copies */

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) {
    block_copy copy;
    ENTER();
    TRY(block_copy_of_3d(pCopy, &copy));
    return block_copy_sync(&copy);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
    block_copy copy;
    stream *on;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &on));
    TRY(block_copy_of_3d(pCopy, &copy));
    return block_copy_async(&copy, on);
}

/* The peer form has two more fields, contexts, which change nothing with one device. */
static CUresult without_peers(const CUDA_MEMCPY3D_PEER *p, CUDA_MEMCPY3D *to) {
    if (p == NULL) return CUDA_ERROR_INVALID_VALUE;
    *to = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcZ = p->srcZ, .srcLOD = p->srcLOD, .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost, .srcDevice = p->srcDevice, .srcArray = p->srcArray, .srcPitch = p->srcPitch,
        .srcHeight = p->srcHeight, .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstZ = p->dstZ, .dstLOD = p->dstLOD,
        .dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost, .dstDevice = p->dstDevice, .dstArray = p->dstArray,
        .dstPitch = p->dstPitch, .dstHeight = p->dstHeight, .WidthInBytes = p->WidthInBytes, .Height = p->Height,
        .Depth = p->Depth};
    return CUDA_SUCCESS;
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) {
    CUDA_MEMCPY3D plain;
    TRY(without_peers(pCopy, &plain));
    return cuMemcpy3D_v2(&plain);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) {
    CUDA_MEMCPY3D plain;
    TRY(without_peers(pCopy, &plain));
    return cuMemcpy3DAsync_v2(&plain, hStream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) {
    block_copy copy;
    ENTER();
    TRY(block_copy_of_2d(pCopy, &copy));
    return block_copy_sync(&copy);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) { return cuMemcpy2D_v2(pCopy); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
    block_copy copy;
    stream *on;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(hStream, &on));
    TRY(block_copy_of_2d(pCopy, &copy));
    return block_copy_async(&copy, on);
}

/* One-dimensional copies with an array on one side: one row, which runs on into the next ones. */
static CUresult array_bytes(CUarray handle, size_t offset, size_t bytes, place *found) {
    array *of;
    TRY(array_of(handle, &of));
    uint64_t row = of->width * of->element_bytes;
    if (of->height > 1 || offset + bytes > row) return CUDA_ERROR_INVALID_VALUE;
    return place_of(of->address + offset, bytes, found);
}

static CUresult array_copy(place *to, place *from, size_t bytes, CUstream handle, bool async) {
    stream *on;
    if (!async) return copy_sync(to, from, bytes);
    TRY(stream_resolve(handle, &on));
    return copy_async(to, from, bytes, on);
}

#define ARRAY_COPY(find_to, find_from, stream_handle, is_async)            \
    place to, from;                                                        \
    ENTER();                                                               \
    if (ByteCount == 0) return CUDA_SUCCESS;                               \
    TRY(find_to);                                                          \
    TRY(find_from);                                                        \
    return array_copy(&to, &from, ByteCount, stream_handle, is_async)

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    ARRAY_COPY(array_bytes(dstArray, dstOffset, ByteCount, &to), place_on_device(srcDevice, ByteCount, &from), NULL, false);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    ARRAY_COPY(place_on_device(dstDevice, ByteCount, &to), array_bytes(srcArray, srcOffset, ByteCount, &from), NULL, false);
}
CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
    ARRAY_COPY(array_bytes(dstArray, dstOffset, ByteCount, &to), place_of(ADDRESS(srcHost), ByteCount, &from), NULL, false);
}
CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    ARRAY_COPY(place_of(ADDRESS(dstHost), ByteCount, &to), array_bytes(srcArray, srcOffset, ByteCount, &from), NULL, false);
}
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    ARRAY_COPY(array_bytes(dstArray, dstOffset, ByteCount, &to), array_bytes(srcArray, srcOffset, ByteCount, &from), NULL, false);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream) {
    ARRAY_COPY(array_bytes(dstArray, dstOffset, ByteCount, &to), place_of(ADDRESS(srcHost), ByteCount, &from), hStream, true);
}
CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream) {
    ARRAY_COPY(place_of(ADDRESS(dstHost), ByteCount, &to), array_bytes(srcArray, srcOffset, ByteCount, &from), hStream, true);
}

/* ------------------------------------------------------------------------------------------------ sets */

/* Device memory is filled behind the host's back; host and managed memory before the call returns. */
static CUresult fill_sync(const fill *of) {
    stream *on;
    place found;
    ENTER();
    if (of->width == 0 || of->height == 0) return CUDA_SUCCESS;
    TRY(default_stream(&on));
    TRY(capture_forbids(on));
    TRY(fill_check(of, &found));
    TRY(fill_async(of, on));
    return found.on_device ? CUDA_SUCCESS : wait_stream(on);
}

static CUresult fill_on(const fill *of, CUstream handle) {
    stream *on;
    ENTER_BY_HANDLE();
    TRY(stream_resolve(handle, &on));
    return fill_async(of, on);
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    return fill_sync(&(fill){dstDevice, N, 1, 0, uc, 1});
}
CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    return fill_sync(&(fill){dstDevice, N, 1, 0, us, 2});
}
CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned ui, size_t N) {
    return fill_sync(&(fill){dstDevice, N, 1, 0, ui, 4});
}
CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
    return fill_sync(&(fill){dstDevice, Width, Height, dstPitch, uc, 1});
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
    return fill_sync(&(fill){dstDevice, Width, Height, dstPitch, us, 2});
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height) {
    return fill_sync(&(fill){dstDevice, Width, Height, dstPitch, ui, 4});
}
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    return fill_on(&(fill){dstDevice, N, 1, 0, uc, 1}, hStream);
}
CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    return fill_on(&(fill){dstDevice, N, 1, 0, us, 2}, hStream);
}
CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned ui, size_t N, CUstream hStream) {
    return fill_on(&(fill){dstDevice, N, 1, 0, ui, 4}, hStream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream) {
    return fill_on(&(fill){dstDevice, Width, Height, dstPitch, uc, 1}, hStream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                            CUstream hStream) {
    return fill_on(&(fill){dstDevice, Width, Height, dstPitch, us, 2}, hStream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height, CUstream hStream) {
    return fill_on(&(fill){dstDevice, Width, Height, dstPitch, ui, 4}, hStream);
}
