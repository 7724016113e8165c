/* Advice about managed memory. Host and device share the pages, so that advice changes nothing; programs can ask for what
 * they said. Kept page by page, as an H200 answers: a range has a property if all of its pages have it. */
#include "allocations.h"
#include "stream.h"

#include <stdlib.h>

#define ADVICE_PAGE 4096ull
#define CU_DEVICE_CPU ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

typedef struct advice {
    CUmemLocation preferred, prefetched;
    bool read_mostly, by_device, by_host;
} advice;

/* Pages from `first` to `end` of one allocation. Pages without an entry were never talked about. */
typedef struct span {
    uint64_t first, end, allocation;
    advice said;
} span;

static const advice nothing = {.preferred = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID},
                               .prefetched = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID}};

static os_lock advice_lock = OS_LOCK_INITIAL;
static span *spans; /* in no order, without overlaps */
static size_t span_count, span_capacity;

static CUresult managed_range(CUdeviceptr address, size_t bytes, span *pages) {
    allocation found;
    if (bytes == 0 || !allocations_find(address, &found)) return CUDA_ERROR_INVALID_VALUE;
    if (found.kind != ALLOCATION_MANAGED || bytes > found.bytes - (address - found.base)) return CUDA_ERROR_INVALID_VALUE;
    *pages = (span){address / ADVICE_PAGE * ADVICE_PAGE, (address + bytes + ADVICE_PAGE - 1) / ADVICE_PAGE * ADVICE_PAGE, found.id,
                    nothing};
    return CUDA_SUCCESS;
}

static bool reserve(size_t more) {
    if (span_count + more <= span_capacity) return true;
    size_t grown = span_capacity ? span_capacity * 2 : 16;
    while (grown < span_count + more) grown *= 2;
    span *moved = realloc(spans, grown * sizeof *moved);
    if (moved == NULL) return false;
    spans = moved;
    span_capacity = grown;
    return true;
}

/* Cuts entries at the borders of `pages`, drops those of allocations that are gone, and fills what is between with new entries:
 * afterwards entries that overlap `pages` are inside of it and cover it. */
static bool cover(const span *pages) {
    for (size_t i = span_count; i-- > 0;) {
        bool overlaps = spans[i].first < pages->end && pages->first < spans[i].end;
        if (overlaps && spans[i].allocation != pages->allocation) spans[i] = spans[--span_count];
    }
    for (size_t i = 0; i < span_count; i++) {
        if (spans[i].first >= pages->end || pages->first >= spans[i].end) continue;
        if (!reserve(2)) return false;
        if (spans[i].first < pages->first) {
            spans[span_count] = spans[i];
            spans[span_count++].end = pages->first;
            spans[i].first = pages->first;
        }
        if (spans[i].end > pages->end) {
            spans[span_count] = spans[i];
            spans[span_count++].first = pages->end;
            spans[i].end = pages->end;
        }
    }
    for (uint64_t at = pages->first; at < pages->end;) {
        uint64_t next = pages->end, inside = 0;
        for (size_t i = 0; i < span_count; i++) {
            if (spans[i].first <= at && at < spans[i].end) inside = spans[i].end;
            else if (spans[i].first > at && spans[i].first < next) next = spans[i].first;
        }
        if (inside == 0) {
            if (!reserve(1)) return false;
            spans[span_count++] = (span){at, next, pages->allocation, nothing};
            inside = next;
        }
        at = inside;
    }
    return true;
}

static void say(advice *to, CUmem_advise what, CUmemLocation where) {
    bool host = where.type != CU_MEM_LOCATION_TYPE_DEVICE, set = what == CU_MEM_ADVISE_SET_ACCESSED_BY;
    switch (what) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY: to->read_mostly = true; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: to->read_mostly = false; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        to->preferred = host ? (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU} : where;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: to->preferred = nothing.preferred; break;
    default:
        if (host) to->by_host = set;
        else to->by_device = set;
    }
}

static CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise what, CUmemLocation where) {
    span pages;
    TRY(capture_forbids_unsafe());
    TRY(managed_range(address, bytes, &pages));
    os_lock_take(&advice_lock);
    bool covered = cover(&pages);
    for (size_t i = 0; i < span_count && covered; i++) {
        if (spans[i].first < pages.end && pages.first < spans[i].end) say(&spans[i].said, what, where);
    }
    os_lock_release(&advice_lock);
    return covered ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_advice(CUmem_advise what) {
    return what >= CU_MEM_ADVISE_SET_READ_MOSTLY && what <= CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

static bool has_location(CUmem_advise what) {
    return what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || what == CU_MEM_ADVISE_SET_ACCESSED_BY ||
           what == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    ENTER();
    if (!is_advice(advice)) return CUDA_ERROR_INVALID_VALUE;
    if (has_location(advice) && device != 0 && device != CU_DEVICE_CPU) return CUDA_ERROR_INVALID_DEVICE;
    CUmemLocation where = {device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, device};
    return advise(devPtr, count, advice, where);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    ENTER();
    bool numa = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    bool known = numa || location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST;
    if (!is_advice(advice) || !known) return CUDA_ERROR_INVALID_VALUE;
    if (has_location(advice)) {
        bool numbered = location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
        if (numbered && location.id != 0) return CUDA_ERROR_INVALID_VALUE;
        if (numa && advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION) return CUDA_ERROR_INVALID_VALUE;
    }
    return advise(devPtr, count, advice, location);
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUmemLocation where, CUstream handle) {
    stream *on;
    span pages;
    TRY(managed_range(address, bytes, &pages));
    if (where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id != 0) return CUDA_ERROR_INVALID_DEVICE;
    TRY(stream_resolve(handle, &on)); /* host and device share the pages: nothing moves */
    if (where.type == CU_MEM_LOCATION_TYPE_HOST) where.id = CU_DEVICE_CPU;
    os_lock_take(&advice_lock);
    bool covered = cover(&pages);
    for (size_t i = 0; i < span_count && covered; i++) {
        if (spans[i].first < pages.end && pages.first < spans[i].end) spans[i].said.prefetched = where;
    }
    os_lock_release(&advice_lock);
    return covered ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    ENTER();
    CUmemLocation where = {dstDevice == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, dstDevice};
    return prefetch(devPtr, count, where, hStream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned flags, CUstream hStream) {
    ENTER();
    if (flags != 0 || location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
    return prefetch(devPtr, count, location, hStream);
}

static bool is_same(CUmemLocation a, CUmemLocation b) { return a.type == b.type && a.id == b.id; }

/* What all pages have in common. */
static advice common(const span *pages) {
    advice result = nothing;
    bool first = true;
    uint64_t covered = 0;
    for (size_t i = 0; i < span_count; i++) {
        if (spans[i].allocation != pages->allocation || spans[i].first >= pages->end || pages->first >= spans[i].end) continue;
        const advice *said = &spans[i].said;
        if (first) result = *said;
        first = false;
        result.read_mostly &= said->read_mostly;
        result.by_device &= said->by_device;
        result.by_host &= said->by_host;
        if (!is_same(result.preferred, said->preferred)) result.preferred = nothing.preferred;
        if (!is_same(result.prefetched, said->prefetched)) result.prefetched = nothing.prefetched;
        uint64_t from = spans[i].first > pages->first ? spans[i].first : pages->first;
        uint64_t to = spans[i].end < pages->end ? spans[i].end : pages->end;
        covered += to - from;
    }
    return covered == pages->end - pages->first ? result : nothing;
}

/* A location as the number that the first form of the interface knows: a device, CU_DEVICE_CPU or CU_DEVICE_INVALID. */
static int as_device(CUmemLocation where) {
    if (where.type == CU_MEM_LOCATION_TYPE_INVALID) return CU_DEVICE_INVALID;
    return where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : CU_DEVICE_CPU;
}

static CUresult range_attribute(int *data, size_t bytes, CUmem_range_attribute attribute, const advice *said) {
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        if (bytes < 4 || bytes % 4 != 0) return CUDA_ERROR_INVALID_VALUE;
        size_t room = bytes / 4, used = 0;
        if (said->by_device) data[used++] = 0;
        if (said->by_host && used < room) data[used++] = CU_DEVICE_CPU;
        while (used < room) data[used++] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    }
    if (bytes != 4) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *data = said->read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: *data = as_device(said->preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *data = as_device(said->prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *data = (int)said->preferred.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *data = said->preferred.id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *data = (int)said->prefetched.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *data = said->prefetched.id; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count) {
    span pages;
    ENTER();
    if (data == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(managed_range(devPtr, count, &pages));
    os_lock_take(&advice_lock);
    advice said = common(&pages);
    os_lock_release(&advice_lock);
    return range_attribute(data, dataSize, attribute, &said);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes, size_t numAttributes,
                                 CUdeviceptr devPtr, size_t count) {
    if (data == NULL || dataSizes == NULL || attributes == NULL || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numAttributes; i++) {
        TRY(cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count));
    }
    return CUDA_SUCCESS;
}
