/* What a function that is not there yet answers. */
#ifndef CUTTLE_UNSUPPORTED_H
#define CUTTLE_UNSUPPORTED_H

#include "driver_types.h"

/* Counts the call, names the function once on stderr when CUTTLE_TRACE is set; CUDA_ERROR_NOT_SUPPORTED. */
CUresult cuttle_unsupported(unsigned index, const char *name);

#endif
