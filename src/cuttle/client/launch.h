/* Kernel launches. */
#ifndef CUTTLE_LAUNCH_H
#define CUTTLE_LAUNCH_H

#include "module.h"
#include "stream.h"

typedef struct launch_shape {
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros: none */
    uint32_t shared;
    uint32_t flags; /* 1 cooperative */
    uint32_t preferred_cluster[3];
    bool cluster_is_attribute; /* given with the launch or node, not the kernel's own */
} launch_shape;

CUresult launch_check(const function *of, const launch_shape *shape);
/* Fills a LAUNCH record after its header; the record has room for the parameters. */
void launch_fill(cuttle_record_launch *record, const function *of, const launch_shape *shape);
CUresult launch_parameters(uint8_t *to, const function *of, void **parameters, void **extra);

/* Whether the cluster of a shape fits the kernel and the grid and has at most `most` blocks. */
CUresult cluster_check(const function *of, const launch_shape *shape, uint32_t most);
/* Whether a kernel that must be launched with cluster dimensions got some; nodes of graphs need none. */
CUresult cluster_check_given(const function *of, const launch_shape *shape);
void cluster_say_none(void); /* on stderr, once: why launches with clusters fail on this device */
uint32_t cluster_most_blocks(const function *of); /* in a cluster of a launch */
/* Takes a launch attribute into the shape if it is about clusters. */
CUresult cluster_read_attribute(launch_shape *shape, CUlaunchAttributeID id, const CUlaunchAttributeValue *value);
CUresult cluster_function_attribute_set(function *of, CUfunction_attribute attribute, int value);

#endif
