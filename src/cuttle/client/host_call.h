/* Functions of the program that run when the device reaches them. */
#ifndef CUTTLE_HOST_CALL_H
#define CUTTLE_HOST_CALL_H

#include "stream.h"

CUresult host_call_submit(stream *to, CUhostFn function, void *data, unsigned node_kind);
/* Starts the service thread; needed before a HOST_CALL can be reached (graphs are launched without host_call_submit). */
bool host_call_service(void);

#endif
