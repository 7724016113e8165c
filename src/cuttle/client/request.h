/* Synchronous requests to the device process (abi/requests.py). */
#ifndef CUTTLE_REQUEST_H
#define CUTTLE_REQUEST_H

#include "client.h"

#define REQUEST_PIECES 20

typedef struct request {
    uint64_t values[CUTTLE_REQUEST_ARGUMENTS]; /* arguments; the reply's values after the call */
    unsigned count;                            /* arguments */
    unsigned pieces;
    struct {
        const void *bytes;
        size_t count;
    } piece[REQUEST_PIECES];                   /* the payload, one after the other */
    uint8_t *reply;                            /* reply payload: allocated, NULL if there is none */
    size_t reply_bytes;
} request;

static inline void request_argument(request *to, uint64_t value) { to->values[to->count++] = value; }
static inline void request_payload(request *to, const void *bytes, size_t count) {
    to->piece[to->pieces].bytes = bytes;
    to->piece[to->pieces++].count = count;
}

/* Sends and waits for the answer. Free `reply` with request_done. */
CUresult request_send(request *of, uint32_t number);
void request_done(request *of);

/* A request with up to four arguments, no payloads, and at most one value in the reply. */
CUresult request_simple(uint32_t number, unsigned count, const uint64_t *arguments, uint64_t *value);
#define REQUEST(number, value, ...)                                                                      \
    request_simple(number, sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__}, value)

/* Calls of generated code (sync.c): scalars, payload pieces, outputs in order. */
typedef struct cuttle_call {
    request request;
    uint32_t number;
    unsigned outputs;
    struct {
        void *place;
        size_t bytes;
    } output[16];
} cuttle_call;

static inline cuttle_call cuttle_call_begin(uint32_t number) { return (cuttle_call){.number = number}; }
static inline void cuttle_call_argument(cuttle_call *call, uint64_t value) { request_argument(&call->request, value); }
static inline void cuttle_call_payload(cuttle_call *call, const void *bytes, size_t count) {
    request_payload(&call->request, bytes, count);
}
static inline void cuttle_call_output(cuttle_call *call, void *place, size_t bytes) {
    call->output[call->outputs].place = place;
    call->output[call->outputs++].bytes = bytes;
}
CUresult cuttle_call_end(cuttle_call *call);

#endif
