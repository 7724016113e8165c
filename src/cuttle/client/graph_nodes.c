/* Nodes and their parameters, which travel and rest as ring records. */
#include "event.h"
#include "graph.h"
#include "host_call.h"
#include "launch.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ to records */

static CUresult fetch(CUgraphNode handle, unsigned kind, node **found, request *call);

/* A node that gets new parameters keeps its attributes. */
static CUresult keep_attributes(CUgraphNode handle, launch_shape *shape) {
    node *of;
    request call;
    TRY(fetch(handle, CU_GRAPH_NODE_TYPE_KERNEL, &of, &call));
    const cuttle_record_launch *record = (const cuttle_record_launch *)of->record;
    if (record == NULL) return CUDA_ERROR_INVALID_VALUE;
    shape->flags = record->flags;
    shape->cluster_is_attribute = record->cluster_is_attribute != 0;
    if (shape->cluster_is_attribute) memcpy(shape->cluster, record->cluster, sizeof shape->cluster);
    return CUDA_SUCCESS;
}

/* `changed` is the node that gets the parameters, NULL for a new one. */
static CUresult kernel_record(const CUDA_KERNEL_NODE_PARAMS *from, CUgraphNode changed, node_record *made) {
    function *of;
    if (from == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(function_of(from->func != NULL ? from->func : (CUfunction)from->kern, &of));
    launch_shape shape = {{from->gridDimX, from->gridDimY, from->gridDimZ},
                          {from->blockDimX, from->blockDimY, from->blockDimZ},
                          {of->cluster[0], of->cluster[1], of->cluster[2]}, from->sharedMemBytes, 0, {0, 0, 0}, false};
    if (changed != NULL) TRY(keep_attributes(changed, &shape));
    TRY(launch_check(of, &shape));
    if (of->parameter_count != 0 && from->kernelParams == NULL && from->extra == NULL) return CUDA_ERROR_INVALID_VALUE;
    cuttle_record_launch *record =
        node_record_make(made, CUTTLE_RECORD_LAUNCH, sizeof *record + of->parameter_bytes, CU_GRAPH_NODE_TYPE_KERNEL);
    if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    launch_fill(record, of, &shape);
    CUresult result = launch_parameters((uint8_t *)record + sizeof *record, of, from->kernelParams, from->extra);
    if (result != CUDA_SUCCESS) free(made->bytes);
    return result;
}

static CUDA_KERNEL_NODE_PARAMS kernel_from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *from) {
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = from->func, .gridDimX = from->gridDimX, .gridDimY = from->gridDimY, .gridDimZ = from->gridDimZ,
        .blockDimX = from->blockDimX, .blockDimY = from->blockDimY, .blockDimZ = from->blockDimZ,
        .sharedMemBytes = from->sharedMemBytes, .kernelParams = from->kernelParams, .extra = from->extra};
}

/* With pageable memory the node is a host function that copies; its description lives as long as the process. */
static void CUDA_CB run_host_copy(void *argument) { block_copy_run(argument); }

static CUresult host_record(CUhostFn function, void *data, unsigned node_kind, node_record *made) {
    if (!host_call_service()) return CUDA_ERROR_OUT_OF_MEMORY;
    cuttle_record_host_call *record = node_record_make(made, CUTTLE_RECORD_HOST_CALL, sizeof *record, node_kind);
    if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    record->function = (uint64_t)(uintptr_t)function;
    record->data = (uint64_t)(uintptr_t)data;
    return CUDA_SUCCESS;
}

static CUresult memcpy_record(const CUDA_MEMCPY3D *from, node_record *made) {
    block_copy copy;
    TRY(block_copy_of_3d(from, &copy));
    if (copy.destination.device != 0 && copy.source.device != 0) {
        cuttle_record_copy_3d *record = node_record_make(made, CUTTLE_RECORD_COPY_3D, sizeof *record, CU_GRAPH_NODE_TYPE_MEMCPY);
        if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        record->destination = copy.destination.device;
        record->source = copy.source.device;
        record->width_bytes = copy.width;
        record->height = copy.height;
        record->depth = copy.depth;
        record->destination_pitch = copy.destination_pitch;
        record->destination_slice = copy.destination_slice;
        record->source_pitch = copy.source_pitch;
        record->source_slice = copy.source_slice;
        return CUDA_SUCCESS;
    }
    block_copy *kept = malloc(sizeof *kept);
    if (kept == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *kept = copy;
    return host_record(run_host_copy, kept, CU_GRAPH_NODE_TYPE_MEMCPY, made);
}

static CUresult memset_record(const CUDA_MEMSET_NODE_PARAMS *from, node_record *made) {
    place where;
    if (from == NULL || (from->elementSize != 1 && from->elementSize != 2 && from->elementSize != 4)) return CUDA_ERROR_INVALID_VALUE;
    fill of = {from->dst, from->width, from->height, from->pitch, from->value, from->elementSize};
    if (of.width == 0 || of.height == 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(fill_check(&of, &where));
    cuttle_record_fill *record = node_record_make(made, CUTTLE_RECORD_FILL, sizeof *record, CU_GRAPH_NODE_TYPE_MEMSET);
    if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    record->destination = where.device;
    record->width = of.width;
    record->height = of.height;
    record->pitch = of.pitch != 0 ? of.pitch : of.width * of.element_bytes;
    record->value = of.value;
    record->element_bytes = of.element_bytes;
    return CUDA_SUCCESS;
}

static CUresult host_params_record(const CUDA_HOST_NODE_PARAMS *from, node_record *made) {
    if (from == NULL || from->fn == NULL) return CUDA_ERROR_INVALID_VALUE;
    return host_record(from->fn, from->userData, CU_GRAPH_NODE_TYPE_HOST, made);
}

static CUresult event_record(CUevent handle, bool wait, node_record *made) {
    if (!has_tag(handle, TAG_EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    event *of = (event *)handle;
    cuttle_record_event_record *record =
        node_record_make(made, wait ? CUTTLE_RECORD_EVENT_WAIT : CUTTLE_RECORD_EVENT_RECORD, sizeof *record,
                         wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    record->event = of->slot;
    if (!wait) of->recorded = true;
    return CUDA_SUCCESS;
}

static CUresult empty_record(unsigned node_kind, node_record *made) {
    return node_record_make(made, CUTTLE_RECORD_NOP, sizeof(cuttle_record), node_kind) != NULL ? CUDA_SUCCESS
                                                                                             : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult free_record(CUdeviceptr address, node_record *made) {
    cuttle_record_free_async *record = node_record_make(made, CUTTLE_RECORD_FREE_ASYNC, sizeof *record, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (record == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    record->address = address;
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ adding */

#define ADD(make, child)                                                                             \
    node_record record;                                                                              \
    ENTER();                                                                                         \
    TRY(make);                                                                                       \
    return graph_add(phGraphNode, hGraph, dependencies, numDependencies, &record, child)

#define ADD_PARAMETERS CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies

CUresult cuGraphAddKernelNode_v2(ADD_PARAMETERS, const CUDA_KERNEL_NODE_PARAMS *nodeParams) { ADD(kernel_record(nodeParams, NULL, &record), 0); }

CUresult cuGraphAddKernelNode(ADD_PARAMETERS, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS full = kernel_from_v1(nodeParams);
    ADD(kernel_record(&full, NULL, &record), 0);
}

CUresult cuGraphAddMemcpyNode(ADD_PARAMETERS, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    (void)ctx;
    ADD(memcpy_record(copyParams, &record), 0);
}

CUresult cuGraphAddMemsetNode(ADD_PARAMETERS, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx) {
    (void)ctx;
    ADD(memset_record(memsetParams, &record), 0);
}

CUresult cuGraphAddHostNode(ADD_PARAMETERS, const CUDA_HOST_NODE_PARAMS *nodeParams) { ADD(host_params_record(nodeParams, &record), 0); }
CUresult cuGraphAddEmptyNode(ADD_PARAMETERS) { ADD(empty_record(CU_GRAPH_NODE_TYPE_EMPTY, &record), 0); }
CUresult cuGraphAddEventRecordNode(ADD_PARAMETERS, CUevent event_handle) { ADD(event_record(event_handle, false, &record), 0); }
CUresult cuGraphAddEventWaitNode(ADD_PARAMETERS, CUevent event_handle) { ADD(event_record(event_handle, true, &record), 0); }
CUresult cuGraphAddMemFreeNode(ADD_PARAMETERS, CUdeviceptr dptr) { ADD(free_record(dptr, &record), 0); }

CUresult cuGraphAddChildGraphNode(ADD_PARAMETERS, CUgraph childGraph) {
    graph *child;
    TRY(graph_of(childGraph, &child));
    ADD(empty_record(CU_GRAPH_NODE_TYPE_GRAPH, &record), child->id);
}

CUresult cuGraphAddMemAllocNode(ADD_PARAMETERS, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    graph *of;
    uint64_t *numbers;
    ENTER();
    if (phGraphNode == NULL || nodeParams == NULL || nodeParams->bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(graph_of(hGraph, &of));
    TRY(node_numbers(dependencies, numDependencies, &numbers));
    request call = {.values = {of->id, numDependencies, nodeParams->bytesize}, .count = 3};
    request_payload(&call, numbers, numDependencies * 8);
    CUresult result = request_send(&call, CUTTLE_REQUEST_GRAPH_ADD_ALLOC);
    request_done(&call);
    free(numbers);
    if (result != CUDA_SUCCESS) return result;
    nodeParams->dptr = call.values[CUTTLE_REPLY_GRAPH_ADD_ALLOC_ADDRESS];
    allocations_add(&(allocation){.base = nodeParams->dptr, .bytes = nodeParams->bytesize, .kind = ALLOCATION_POOL, .of_graph = true});
    *phGraphNode = (CUgraphNode)node_of_id(call.values[CUTTLE_REPLY_GRAPH_ADD_ALLOC_NODE], of->id);
    return CUDA_SUCCESS;
}

/* Parameters of any kind as a record. */
static CUresult any_record(const CUgraphNodeParams *from, CUgraphNode changed, node_record *made) {
    switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS full;
        _Static_assert(sizeof full == sizeof from->kernel, "the two versions have the same fields");
        memcpy(&full, &from->kernel, sizeof full);
        return kernel_record(&full, changed, made);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return memcpy_record(&from->memcpy.copyParams, made);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memset_record(&(CUDA_MEMSET_NODE_PARAMS){from->memset.dst, from->memset.pitch, from->memset.value,
                                                        from->memset.elementSize, from->memset.width, from->memset.height},
                             made);
    case CU_GRAPH_NODE_TYPE_HOST: return host_params_record(&(CUDA_HOST_NODE_PARAMS){from->host.fn, from->host.userData}, made);
    case CU_GRAPH_NODE_TYPE_EMPTY: return empty_record(CU_GRAPH_NODE_TYPE_EMPTY, made);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return event_record(from->eventWait.event, true, made);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return event_record(from->eventRecord.event, false, made);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return free_record(from->free.dptr, made);
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    (void)dependencyData;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH) {
        return cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams->graph.graph);
    }
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.bytesize = nodeParams->alloc.bytesize};
        TRY(cuGraphAddMemAllocNode(phGraphNode, hGraph, dependencies, numDependencies, &alloc));
        nodeParams->alloc.dptr = alloc.dptr;
        return CUDA_SUCCESS;
    }
    ADD(any_record(nodeParams, NULL, &record), 0);
}

CUresult cuGraphAddNode(ADD_PARAMETERS, CUgraphNodeParams *nodeParams) {
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

/* ------------------------------------------------------------------------------------------------ changing */

#define SET(make)              \
    node_record record;        \
    ENTER();                   \
    TRY(make);                 \
    return node_set(hNode, &record)

#define SET_EXECUTABLE(make)   \
    node_record record;        \
    ENTER();                   \
    TRY(make);                 \
    return executable_node_set(hGraphExec, hNode, &record)

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) { SET(kernel_record(nodeParams, hNode, &record)); }
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS full = kernel_from_v1(nodeParams);
    SET(kernel_record(&full, hNode, &record));
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams) { SET(memcpy_record(nodeParams, &record)); }
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams) { SET(memset_record(nodeParams, &record)); }
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) { SET(host_params_record(nodeParams, &record)); }
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event_handle) { SET(event_record(event_handle, false, &record)); }
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event_handle) { SET(event_record(event_handle, true, &record)); }
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    SET(any_record(nodeParams, hNode, &record));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    SET_EXECUTABLE(kernel_record(nodeParams, hNode, &record));
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS full = kernel_from_v1(nodeParams);
    SET_EXECUTABLE(kernel_record(&full, hNode, &record));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx) {
    (void)ctx;
    SET_EXECUTABLE(memcpy_record(copyParams, &record));
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                        CUcontext ctx) {
    (void)ctx;
    SET_EXECUTABLE(memset_record(memsetParams, &record));
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams) {
    SET_EXECUTABLE(host_params_record(nodeParams, &record));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event_handle) {
    SET_EXECUTABLE(event_record(event_handle, false, &record));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event_handle) {
    SET_EXECUTABLE(event_record(event_handle, true, &record));
}
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams) {
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    SET_EXECUTABLE(any_record(nodeParams, hNode, &record));
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
    executable *in;
    node *of;
    graph *child;
    ENTER();
    TRY(executable_of(hGraphExec, &in));
    TRY(node_of(hNode, &of));
    TRY(graph_of(childGraph, &child));
    return REQUEST(CUTTLE_REQUEST_EXECUTABLE_CHILD_SET, NULL, in->id, of->id, child->id);
}

/* ------------------------------------------------------------------------------------------------ asking */

/* The record stays with the node until the next question. */
static CUresult fetch(CUgraphNode handle, unsigned kind, node **found, request *call) {
    ENTER_WITHOUT_CONTEXT();
    TRY(node_of(handle, found));
    *call = (request){.values = {(*found)->id}, .count = 1};
    TRY(request_send(call, CUTTLE_REQUEST_GRAPH_NODE_GET));
    free((*found)->record);
    (*found)->record = call->reply;
    call->reply = NULL;
    return kind == ~0u || call->values[CUTTLE_REPLY_GRAPH_NODE_GET_KIND] == kind ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
    node *of;
    request call;
    if (type == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, ~0u, &of, &call));
    *type = (CUgraphNodeType)call.values[CUTTLE_REPLY_GRAPH_NODE_GET_KIND];
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph) {
    node *of;
    request call;
    if (phGraph == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &of, &call));
    *phGraph = (CUgraph)graph_of_id(call.values[CUTTLE_REPLY_GRAPH_NODE_GET_CHILD_GRAPH]);
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams) {
    node *of;
    request call;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &of, &call));
    free(of->shown);
    of->shown = of->record;
    of->record = NULL;
    cuttle_record_launch *record = (cuttle_record_launch *)of->shown;
    function *kernel = record != NULL ? function_of_id(record->target) : NULL;
    if (kernel == NULL) return CUDA_ERROR_INVALID_VALUE;
    free(of->parameters);
    of->parameters = calloc(kernel->parameter_count + 1, sizeof *of->parameters);
    if (of->parameters == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < kernel->parameter_count; i++) {
        of->parameters[i] = of->shown + sizeof *record + kernel->parameters[i].offset;
    }
    uint32_t grid[3];
    for (int i = 0; i < 3; i++) {
        bool of_clusters = kernel->blocks_are_clusters && record->cluster[i] != 0;
        grid[i] = of_clusters ? record->grid[i] / record->cluster[i] : record->grid[i];
    }
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS){
        .func = (CUfunction)kernel, .gridDimX = grid[0], .gridDimY = grid[1], .gridDimZ = grid[2],
        .blockDimX = record->block[0], .blockDimY = record->block[1], .blockDimZ = record->block[2],
        .sharedMemBytes = record->dynamic_shared_bytes, .kernelParams = of->parameters};
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams) {
    CUDA_KERNEL_NODE_PARAMS full;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(cuGraphKernelNodeGetParams_v2(hNode, &full));
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS_v1){full.func, full.gridDimX, full.gridDimY, full.gridDimZ, full.blockDimX, full.blockDimY,
                                               full.blockDimZ, full.sharedMemBytes, full.kernelParams, full.extra};
    return CUDA_SUCCESS;
}

static CUDA_MEMCPY3D memcpy_params(const block_copy *copy) {
    uint64_t rows = copy->height > 1 ? copy->height : 1;
    return (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (CUdeviceptr)(uintptr_t)copy->source.host,
        .srcPitch = copy->source_pitch, .srcHeight = copy->source_pitch ? copy->source_slice / copy->source_pitch : rows,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = (CUdeviceptr)(uintptr_t)copy->destination.host,
        .dstPitch = copy->destination_pitch,
        .dstHeight = copy->destination_pitch ? copy->destination_slice / copy->destination_pitch : rows,
        .WidthInBytes = copy->width, .Height = copy->height, .Depth = copy->depth};
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams) {
    node *of;
    request call;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &of, &call));
    if (of->record == NULL) return CUDA_ERROR_INVALID_VALUE;
    block_copy copy = {.height = 1, .depth = 1};
    switch (((cuttle_record *)of->record)->kind) {
    case CUTTLE_RECORD_COPY: {
        cuttle_record_copy *record = (cuttle_record_copy *)of->record;
        copy.source.host = (uint8_t *)(uintptr_t)record->source;
        copy.destination.host = (uint8_t *)(uintptr_t)record->destination;
        copy.width = record->bytes;
        break;
    }
    case CUTTLE_RECORD_COPY_3D: {
        cuttle_record_copy_3d *record = (cuttle_record_copy_3d *)of->record;
        copy = (block_copy){{.host = (uint8_t *)(uintptr_t)record->destination}, {.host = (uint8_t *)(uintptr_t)record->source},
                            record->width_bytes, record->height, record->depth, record->destination_pitch,
                            record->destination_slice, record->source_pitch, record->source_slice};
        break;
    }
    default: copy = *(block_copy *)(uintptr_t)((cuttle_record_host_call *)of->record)->data; break;
    }
    *nodeParams = memcpy_params(&copy);
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams) {
    node *of;
    request call;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &of, &call));
    cuttle_record_fill *record = (cuttle_record_fill *)of->record;
    if (record == NULL) return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = (CUDA_MEMSET_NODE_PARAMS){record->destination, record->pitch, record->value, record->element_bytes,
                                            record->width, record->height};
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams) {
    node *of;
    request call;
    if (nodeParams == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_HOST, &of, &call));
    cuttle_record_host_call *record = (cuttle_record_host_call *)of->record;
    if (record == NULL) return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = (CUDA_HOST_NODE_PARAMS){(CUhostFn)(uintptr_t)record->function, (void *)(uintptr_t)record->data};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out) {
    node *of;
    request call;
    if (params_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &of, &call));
    memset(params_out, 0, sizeof *params_out);
    params_out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params_out->bytesize = call.values[CUTTLE_REPLY_GRAPH_NODE_GET_BYTES];
    params_out->dptr = call.values[CUTTLE_REPLY_GRAPH_NODE_GET_ADDRESS];
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out) {
    node *of;
    request call;
    if (dptr_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &of, &call));
    if (of->record == NULL) return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = ((cuttle_record_free_async *)of->record)->address;
    return CUDA_SUCCESS;
}

static CUresult event_of_node(CUgraphNode handle, unsigned kind, CUevent *event_out) {
    node *of;
    request call;
    if (event_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(handle, kind, &of, &call));
    if (of->record == NULL) return CUDA_ERROR_INVALID_VALUE;
    *event_out = (CUevent)event_of_slot(((cuttle_record_event_record *)of->record)->event);
    return *event_out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
    return event_of_node(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out) {
    return event_of_node(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

/* ------------------------------------------------------------------------------------------------ kernel attributes */

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out) {
    node *of;
    request call;
    if (value_out == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &of, &call));
    cuttle_record_launch *record = (cuttle_record_launch *)of->record;
    if (record == NULL) return CUDA_ERROR_INVALID_VALUE;
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value_out->cooperative = (int)(record->flags & 1);
    if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && record->cluster_is_attribute) {
        value_out->clusterDim.x = record->cluster[0];
        value_out->clusterDim.y = record->cluster[1];
        value_out->clusterDim.z = record->cluster[2];
    }
    return CUDA_SUCCESS;
}

/* Whether a launch can have these cluster dimensions. */
static CUresult check_cluster(const cuttle_record_launch *record, const CUkernelNodeAttrValue *value) {
    function *kernel = record != NULL ? function_of_id(record->target) : NULL;
    if (kernel == NULL) return CUDA_ERROR_INVALID_VALUE;
    launch_shape shape = {.grid = {record->grid[0], record->grid[1], record->grid[2]},
                          .cluster = {value->clusterDim.x, value->clusterDim.y, value->clusterDim.z}};
    return cluster_check(kernel, &shape, cluster_most_blocks(kernel));
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value) {
    node *of;
    request call;
    node_record copy;
    if (value == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(fetch(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &of, &call));
    if (attr == CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION) return CUDA_ERROR_INVALID_VALUE; /* only captures make such */
    if (attr != CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attr != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return CUDA_SUCCESS; /* hints */
    if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) TRY(check_cluster((cuttle_record_launch *)of->record, value));
    if (of->record == NULL || node_record_make(&copy, CUTTLE_RECORD_LAUNCH, call.reply_bytes, CU_GRAPH_NODE_TYPE_KERNEL) == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy.bytes, of->record, call.reply_bytes);
    cuttle_record_launch *record = (cuttle_record_launch *)copy.bytes;
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        record->flags = (record->flags & ~1u) | (value->cooperative != 0);
    } else {
        record->cluster_is_attribute = 1;
        record->cluster[0] = value->clusterDim.x;
        record->cluster[1] = value->clusterDim.y;
        record->cluster[2] = value->clusterDim.z;
    }
    return node_set(hNode, &copy);
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
    CUkernelNodeAttrValue value;
    TRY(cuGraphKernelNodeGetAttribute(src, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    TRY(cuGraphKernelNodeSetAttribute(dst, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    TRY(cuGraphKernelNodeGetAttribute(src, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value));
    return value.clusterDim.x != 0 ? cuGraphKernelNodeSetAttribute(dst, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value) : CUDA_SUCCESS;
}
