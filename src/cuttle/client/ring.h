/* The command ring: records that the device process takes in order, without an answer. */
#ifndef CUTTLE_RING_H
#define CUTTLE_RING_H

#include "client.h"

extern os_lock ring_lock;

/* Takes the ring's lock and room for `bytes` bytes (header included). NULL: the device is lost, nothing is held. */
void *ring_begin(uint32_t kind, uint32_t stream_slot, size_t bytes);
/* Gives the record the next sequence number of its stream (if `ordered`), publishes it, releases the lock. */
uint64_t ring_commit(void *record, bool ordered);

/* Wakes the device process if it sleeps; call after publishing. */
void device_wake(void);

#endif
