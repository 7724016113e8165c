/* Events. */
#ifndef CUTTLE_EVENT_H
#define CUTTLE_EVENT_H

#include "stream.h"

typedef struct event {
    uint32_t tag;
    uint32_t slot;
    unsigned flags;
    bool recorded; /* at least once outside of a capture */
    bool captured; /* its latest record belongs to a stream capture */
    context *owner;
    struct event *next;
} event;

event *event_of_slot(uint32_t slot);

#endif
