/* Graphs. The device process keeps them; here are the handles, and nodes' parameters as ring records (abi/requests.py). */
#ifndef CUTTLE_GRAPH_H
#define CUTTLE_GRAPH_H

#include "request.h"
#include "stream.h"

typedef struct graph {
    uint32_t tag;
    uint64_t id;
    struct graph *next; /* of the same hash */
} graph;

typedef struct node {
    uint32_t tag;
    uint64_t id;
    uint64_t graph;     /* number of its graph */
    struct node *next;  /* of the same hash */
    uint8_t *record;    /* the answer to the latest question about it */
    uint8_t *shown;     /* what the parameters of the latest cuGraphKernelNodeGetParams point into */
    void **parameters;
} node;

typedef struct executable {
    uint32_t tag;
    uint64_t id;
    uint64_t flags;
} executable;

/* Handles of numbers: the same handle for the same number. NULL when memory is out. */
graph *graph_of_id(uint64_t id);
node *node_of_id(uint64_t id, uint64_t graph_id);

static inline CUresult graph_of(CUgraph handle, graph **found) {
    if (!has_tag(handle, TAG_GRAPH)) return CUDA_ERROR_INVALID_VALUE;
    *found = (graph *)handle;
    return CUDA_SUCCESS;
}
static inline CUresult node_of(CUgraphNode handle, node **found) {
    if (!has_tag(handle, TAG_NODE)) return CUDA_ERROR_INVALID_VALUE;
    *found = (node *)handle;
    return CUDA_SUCCESS;
}
static inline CUresult executable_of(CUgraphExec handle, executable **found) {
    if (!has_tag(handle, TAG_EXECUTABLE)) return CUDA_ERROR_INVALID_VALUE;
    *found = (executable *)handle;
    return CUDA_SUCCESS;
}

/* Numbers of node handles; free the result. */
CUresult node_numbers(const CUgraphNode *nodes, size_t count, uint64_t **numbers);
/* The usual way to give lists: with no array the count is asked for; too large an array is filled with NULLs. */
CUresult give_nodes(request *reply, CUgraphNode *nodes, size_t *count, uint64_t graph_id);

/* Parameters of a node as a record; free with free(). */
typedef struct node_record {
    uint8_t *bytes;
    size_t count; /* whole slots */
    unsigned kind; /* CUgraphNodeType */
} node_record;

void *node_record_make(node_record *made, uint32_t kind, size_t bytes, unsigned node_kind);
CUresult graph_add(CUgraphNode *added, CUgraph to, const CUgraphNode *dependencies, size_t count, node_record *record,
                   uint64_t child_graph);
CUresult node_set(CUgraphNode handle, node_record *record);
CUresult executable_node_set(CUgraphExec executable_handle, CUgraphNode handle, node_record *record);

#endif
