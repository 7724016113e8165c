/* Kernel launches. */
#ifndef CUTTLE_LAUNCH_H
#define CUTTLE_LAUNCH_H

#include "module.h"
#include "stream.h"

typedef struct launch_shape {
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared;
    uint32_t flags; /* 1 cooperative */
} launch_shape;

CUresult launch_check(const function *of, const launch_shape *shape);
/* Fills a LAUNCH record after its header; the record has room for the parameters. */
void launch_fill(cuttle_record_launch *record, const function *of, const launch_shape *shape);
CUresult launch_parameters(uint8_t *to, const function *of, void **parameters, void **extra);

#endif
