"""Driver functions: pool. Rows written by `tools/extract_cuda_headers.py`; routes are kept by hand."""

# ruff: noqa: E501

from cuttle.abi.cuda.row import F, Function

FUNCTIONS: tuple[Function, ...] = (
    F("cuMemAllocAsync", "cuMemAllocAsync", 11020, "_ptsz", 11020, "local",
      "CUdeviceptr *dptr, size_t bytesize, CUstream hStream"),
    F("cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020, "_ptsz", 11020, "local",
      "CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream"),
    F("cuMemFreeAsync", "cuMemFreeAsync", 11020, "_ptsz", 11020, "async",
      "CUdeviceptr dptr, CUstream hStream"),
    F("cuMemPoolCreate", "cuMemPoolCreate", 11020, "", 0, "local",
      "CUmemoryPool *pool, const CUmemPoolProps *poolProps"),
    F("cuMemPoolDestroy", "cuMemPoolDestroy", 11020, "", 0, "local",
      "CUmemoryPool pool"),
    F("cuMemPoolExportPointer", "cuMemPoolExportPointer", 11020, "", 0, "todo",
      "CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr"),
    F("cuMemPoolExportToShareableHandle", "cuMemPoolExportToShareableHandle", 11020, "", 0, "todo",
      "void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, unsigned long long flags"),
    F("cuMemPoolGetAccess", "cuMemPoolGetAccess", 11020, "", 0, "local",
      "CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location"),
    F("cuMemPoolGetAttribute", "cuMemPoolGetAttribute", 11020, "", 0, "local",
      "CUmemoryPool pool, CUmemPool_attribute attr, void *value"),
    F("cuMemPoolImportFromShareableHandle", "cuMemPoolImportFromShareableHandle", 11020, "", 0, "todo",
      "CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, unsigned long long flags"),
    F("cuMemPoolImportPointer", "cuMemPoolImportPointer", 11020, "", 0, "todo",
      "CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData"),
    F("cuMemPoolSetAccess", "cuMemPoolSetAccess", 11020, "", 0, "local",
      "CUmemoryPool pool, const CUmemAccessDesc *map, size_t count"),
    F("cuMemPoolSetAttribute", "cuMemPoolSetAttribute", 11020, "", 0, "local",
      "CUmemoryPool pool, CUmemPool_attribute attr, void *value"),
    F("cuMemPoolTrimTo", "cuMemPoolTrimTo", 11020, "", 0, "local",
      "CUmemoryPool pool, size_t minBytesToKeep"),
)  # fmt: skip
