/* Graph structure: nodes, edges, instantiation, launch. */
#include "graph.h"

#include "host_call.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096

static os_lock graphs_lock = OS_LOCK_INITIAL;
static graph *graphs[BUCKETS];
static node *nodes_known[BUCKETS];

graph *graph_of_id(uint64_t id) {
    os_lock_take(&graphs_lock);
    graph *found = graphs[id % BUCKETS];
    while (found != NULL && found->id != id) found = found->next;
    if (found == NULL && (found = calloc(1, sizeof *found)) != NULL) {
        *found = (graph){TAG_GRAPH, id, graphs[id % BUCKETS]};
        graphs[id % BUCKETS] = found;
    }
    os_lock_release(&graphs_lock);
    return found;
}

node *node_of_id(uint64_t id, uint64_t graph_id) {
    os_lock_take(&graphs_lock);
    node *found = nodes_known[id % BUCKETS];
    while (found != NULL && found->id != id) found = found->next;
    if (found == NULL && (found = calloc(1, sizeof *found)) != NULL) {
        *found = (node){.tag = TAG_NODE, .id = id, .graph = graph_id, .next = nodes_known[id % BUCKETS]};
        nodes_known[id % BUCKETS] = found;
    }
    os_lock_release(&graphs_lock);
    return found;
}

static void unlink_graph(graph *of) {
    os_lock_take(&graphs_lock);
    for (graph **link = &graphs[of->id % BUCKETS]; *link != NULL; link = &(*link)->next) {
        if (*link != of) continue;
        *link = of->next;
        break;
    }
    os_lock_release(&graphs_lock);
    of->tag = TAG_DEAD;
}

static void unlink_node(node *of) {
    os_lock_take(&graphs_lock);
    for (node **link = &nodes_known[of->id % BUCKETS]; *link != NULL; link = &(*link)->next) {
        if (*link != of) continue;
        *link = of->next;
        break;
    }
    os_lock_release(&graphs_lock);
    free(of->record);
    free(of->shown);
    free(of->parameters);
    of->record = of->shown = NULL;
    of->parameters = NULL;
    of->tag = TAG_DEAD;
}

CUresult node_numbers(const CUgraphNode *handles, size_t count, uint64_t **numbers) {
    if (count != 0 && handles == NULL) return CUDA_ERROR_INVALID_VALUE;
    *numbers = calloc(count + 1, sizeof **numbers);
    if (*numbers == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        node *of;
        CUresult result = node_of(handles[i], &of);
        if (result != CUDA_SUCCESS) {
            free(*numbers);
            return result;
        }
        (*numbers)[i] = of->id;
    }
    return CUDA_SUCCESS;
}

CUresult give_nodes(request *reply, CUgraphNode *handles, size_t *count, uint64_t graph_id) {
    size_t have = reply->reply_bytes / 8;
    if (handles == NULL) {
        *count = have;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; i++) {
        uint64_t id;
        if (i >= have) {
            handles[i] = NULL;
            continue;
        }
        memcpy(&id, reply->reply + 8 * i, 8);
        handles[i] = (CUgraphNode)node_of_id(id, graph_id);
    }
    if (*count > have) *count = have;
    return CUDA_SUCCESS;
}

void *node_record_make(node_record *made, uint32_t kind, size_t bytes, unsigned node_kind) {
    size_t slots = (bytes + CUTTLE_SLOT_BYTES - 1) / CUTTLE_SLOT_BYTES;
    made->count = slots * CUTTLE_SLOT_BYTES;
    made->kind = node_kind;
    made->bytes = calloc(slots, CUTTLE_SLOT_BYTES);
    if (made->bytes != NULL) {
        *(cuttle_record *)made->bytes = (cuttle_record){.kind = (uint16_t)kind, .slots = (uint16_t)slots};
    }
    return made->bytes;
}

/* ------------------------------------------------------------------------------------------------ building */

/* Takes the record over. */
CUresult graph_add(CUgraphNode *added, CUgraph to, const CUgraphNode *dependencies, size_t count, node_record *record,
                   uint64_t child_graph) {
    graph *of;
    uint64_t *numbers = NULL;
    request call = {0};
    CUresult result = added != NULL ? graph_of(to, &of) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = node_numbers(dependencies, count, &numbers);
    if (result != CUDA_SUCCESS) {
        free(record->bytes);
        return result;
    }
    request_argument(&call, of->id);
    request_argument(&call, record->kind);
    request_argument(&call, count);
    request_argument(&call, child_graph);
    request_payload(&call, numbers, count * 8);
    request_payload(&call, record->bytes, record->count);
    result = request_send(&call, CUTTLE_REQUEST_GRAPH_ADD_NODE);
    request_done(&call);
    free(numbers);
    free(record->bytes);
    if (result != CUDA_SUCCESS) return result;
    *added = (CUgraphNode)node_of_id(call.values[0], of->id);
    return *added != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult node_set(CUgraphNode handle, node_record *record) {
    node *of;
    request call = {0};
    CUresult result = node_of(handle, &of);
    if (result == CUDA_SUCCESS) {
        request_argument(&call, of->id);
        request_payload(&call, record->bytes, record->count);
        result = request_send(&call, CUTTLE_REQUEST_GRAPH_NODE_SET);
        request_done(&call);
    }
    free(record->bytes);
    return result;
}

CUresult executable_node_set(CUgraphExec executable_handle, CUgraphNode handle, node_record *record) {
    node *of;
    executable *in;
    request call = {0};
    CUresult result = executable_of(executable_handle, &in);
    if (result == CUDA_SUCCESS) result = node_of(handle, &of);
    if (result == CUDA_SUCCESS) {
        request_argument(&call, in->id);
        request_argument(&call, of->id);
        request_payload(&call, record->bytes, record->count);
        result = request_send(&call, CUTTLE_REQUEST_EXECUTABLE_NODE_SET);
        request_done(&call);
    }
    free(record->bytes);
    return result;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned flags) {
    uint64_t id;
    ENTER_WITHOUT_CONTEXT();
    if (phGraph == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    TRY(REQUEST(CUTTLE_REQUEST_GRAPH_CREATE, &id, flags));
    *phGraph = (CUgraph)graph_of_id(id);
    return *phGraph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph hGraph) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(graph_of(hGraph, &of));
    unlink_graph(of);
    return REQUEST(CUTTLE_REQUEST_GRAPH_DESTROY, NULL, of->id);
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
    graph *of;
    uint64_t id;
    ENTER_WITHOUT_CONTEXT();
    if (phGraphClone == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(graph_of(originalGraph, &of));
    TRY(REQUEST(CUTTLE_REQUEST_GRAPH_CLONE, &id, of->id));
    *phGraphClone = (CUgraph)graph_of_id(id);
    return *phGraphClone != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    node *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(node_of(hNode, &of));
    TRY(REQUEST(CUTTLE_REQUEST_GRAPH_NODE_DESTROY, NULL, of->id));
    unlink_node(of);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
    node *of;
    graph *clone;
    uint64_t id;
    ENTER_WITHOUT_CONTEXT();
    if (phNode == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(node_of(hOriginalNode, &of));
    TRY(graph_of(hClonedGraph, &clone));
    TRY(REQUEST(CUTTLE_REQUEST_GRAPH_NODE_IN_CLONE, &id, of->id, clone->id));
    *phNode = (CUgraphNode)node_of_id(id, clone->id);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------ questions */

static CUresult list_nodes(CUgraph handle, bool roots_only, CUgraphNode *nodes, size_t *count) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(graph_of(handle, &of));
    request call = {.values = {of->id, roots_only}, .count = 2};
    CUresult result = request_send(&call, CUTTLE_REQUEST_GRAPH_NODES);
    if (result == CUDA_SUCCESS) result = give_nodes(&call, nodes, count, of->id);
    request_done(&call);
    return result;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) { return list_nodes(hGraph, false, nodes, numNodes); }
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
    return list_nodes(hGraph, true, rootNodes, numRootNodes);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    if (numEdges == NULL || (from == NULL) != (to == NULL)) return CUDA_ERROR_INVALID_VALUE;
    TRY(graph_of(hGraph, &of));
    request call = {.values = {of->id}, .count = 1};
    TRY(request_send(&call, CUTTLE_REQUEST_GRAPH_EDGES));
    size_t have = call.reply_bytes / 16, room = from != NULL ? *numEdges : 0;
    for (size_t i = 0; i < room; i++) {
        uint64_t pair[2] = {0, 0};
        if (i < have) memcpy(pair, call.reply + 16 * i, 16);
        from[i] = i < have ? (CUgraphNode)node_of_id(pair[0], of->id) : NULL;
        to[i] = i < have ? (CUgraphNode)node_of_id(pair[1], of->id) : NULL;
        if (edgeData != NULL) memset(&edgeData[i], 0, sizeof edgeData[i]);
    }
    if (from == NULL || *numEdges > have) *numEdges = have;
    request_done(&call);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) {
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

static CUresult neighbours(CUgraphNode handle, bool dependents, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count) {
    node *of;
    ENTER_WITHOUT_CONTEXT();
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(node_of(handle, &of));
    request call = {.values = {of->id, dependents}, .count = 2};
    CUresult result = request_send(&call, CUTTLE_REQUEST_GRAPH_NODE_NEIGHBOURS);
    if (result == CUDA_SUCCESS) result = give_nodes(&call, nodes, count, of->graph);
    if (result == CUDA_SUCCESS && nodes != NULL && edges != NULL) memset(edges, 0, *count * sizeof *edges);
    request_done(&call);
    return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies) {
    return neighbours(hNode, false, dependencies, NULL, numDependencies);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                       size_t *numDependencies) {
    return neighbours(hNode, false, dependencies, edgeData, numDependencies);
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes) {
    return neighbours(hNode, true, dependentNodes, NULL, numDependentNodes);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                         size_t *numDependentNodes) {
    return neighbours(hNode, true, dependentNodes, edgeData, numDependentNodes);
}

static CUresult change_edges(uint32_t number, CUgraph handle, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    graph *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(graph_of(handle, &of));
    if (count == 0) return CUDA_SUCCESS;
    if (from == NULL || to == NULL) return CUDA_ERROR_INVALID_VALUE;
    uint64_t *pairs = calloc(count, 16);
    if (pairs == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        node *source = NULL, *target = NULL;
        result = node_of(from[i], &source);
        if (result == CUDA_SUCCESS) result = node_of(to[i], &target);
        if (result != CUDA_SUCCESS) break;
        pairs[2 * i] = source->id;
        pairs[2 * i + 1] = target->id;
    }
    if (result == CUDA_SUCCESS) {
        request call = {.values = {of->id, count}, .count = 2};
        request_payload(&call, pairs, count * 16);
        result = request_send(&call, number);
        request_done(&call);
    }
    free(pairs);
    return result;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies) {
    return change_edges(CUTTLE_REQUEST_GRAPH_EDGES_ADD, hGraph, from, to, numDependencies);
}
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                   size_t numDependencies) {
    (void)edgeData; /* ports only matter to programmatic launches; whole nodes wait here */
    return change_edges(CUTTLE_REQUEST_GRAPH_EDGES_ADD, hGraph, from, to, numDependencies);
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies) {
    return change_edges(CUTTLE_REQUEST_GRAPH_EDGES_REMOVE, hGraph, from, to, numDependencies);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edgeData, size_t numDependencies) {
    (void)edgeData;
    return change_edges(CUTTLE_REQUEST_GRAPH_EDGES_REMOVE, hGraph, from, to, numDependencies);
}

/* ------------------------------------------------------------------------------------------------ execution */

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags) {
    graph *of;
    uint64_t id;
    ENTER();
    if (phGraphExec == NULL) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    TRY(graph_of(hGraph, &of));
    executable *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REQUEST(CUTTLE_REQUEST_GRAPH_INSTANTIATE, &id, of->id, flags);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *made = (executable){TAG_EXECUTABLE, id, flags};
    *phGraphExec = (CUgraphExec)made;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                               size_t bufferSize) {
    if (phErrorNode != NULL) *phErrorNode = NULL;
    if (logBuffer != NULL && bufferSize != 0) logBuffer[0] = 0;
    return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize) {
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (params == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuGraphInstantiateWithFlags(phGraphExec, hGraph, params->flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    params->hErrNode_out = NULL;
    params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    executable *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(executable_of(hGraphExec, &of));
    of->tag = TAG_DEAD;
    return REQUEST(CUTTLE_REQUEST_EXECUTABLE_DESTROY, NULL, of->id);
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags) {
    executable *of;
    ENTER_WITHOUT_CONTEXT();
    if (flags == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(executable_of(hGraphExec, &of));
    *flags = of->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream) {
    executable *of;
    stream *on;
    cuttle_record_graph_launch *record;
    ENTER();
    TRY(executable_of(hGraph, &of));
    TRY(stream_resolve(hStream, &on));
    if (on->capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    TRY(emit_begin(on, CUTTLE_RECORD_GRAPH_LAUNCH, sizeof *record, (void **)&record));
    record->graph = of->id;
    return emit_commit(on, record, CU_GRAPH_NODE_TYPE_GRAPH);
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream) {
    executable *of;
    stream *on;
    ENTER();
    TRY(executable_of(hGraph, &of));
    return stream_resolve(hStream, &on);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo) {
    executable *of;
    graph *from;
    ENTER_WITHOUT_CONTEXT();
    if (resultInfo == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(executable_of(hGraphExec, &of));
    TRY(graph_of(hGraph, &from));
    request call = {.values = {of->id, from->id}, .count = 2};
    CUresult result = request_send(&call, CUTTLE_REQUEST_EXECUTABLE_UPDATE);
    request_done(&call);
    memset(resultInfo, 0, sizeof *resultInfo);
    resultInfo->result = (CUgraphExecUpdateResult)call.values[CUTTLE_REPLY_EXECUTABLE_UPDATE_UPDATE_RESULT];
    uint64_t id = call.values[CUTTLE_REPLY_EXECUTABLE_UPDATE_NODE];
    if (result != CUDA_SUCCESS && id != 0) resultInfo->errorNode = (CUgraphNode)node_of_id(id, from->id);
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out) {
    CUgraphExecUpdateResultInfo info;
    CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
        if (hErrorNode_out != NULL) *hErrorNode_out = info.errorNode;
        if (updateResult_out != NULL) *updateResult_out = info.result;
    }
    return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned isEnabled) {
    executable *in;
    node *of;
    ENTER_WITHOUT_CONTEXT();
    TRY(executable_of(hGraphExec, &in));
    TRY(node_of(hNode, &of));
    return REQUEST(CUTTLE_REQUEST_EXECUTABLE_NODE_ENABLE, NULL, in->id, of->id, isEnabled != 0);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned *isEnabled) {
    executable *in;
    node *of;
    uint64_t enabled;
    ENTER_WITHOUT_CONTEXT();
    if (isEnabled == NULL) return CUDA_ERROR_INVALID_VALUE;
    TRY(executable_of(hGraphExec, &in));
    TRY(node_of(hNode, &of));
    TRY(REQUEST(CUTTLE_REQUEST_EXECUTABLE_NODE_ENABLED, &enabled, in->id, of->id));
    *isEnabled = enabled != 0;
    return CUDA_SUCCESS;
}
