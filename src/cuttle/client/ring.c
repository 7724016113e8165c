#include "ring.h"

#define SLOT_MASK (CUTTLE_RING_SLOTS - 1)

os_lock ring_lock = OS_LOCK_INITIAL;

static uint64_t known_tail; /* under ring_lock: a lower bound of ring_tail, so that the shared line is read seldom */

void device_wake(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* what was published must be visible before the look at the sleeper */
    if (UNLIKELY(LOAD(client.control->device_sleeping) != 0) &&
        __atomic_exchange_n(&client.control->device_sleeping, 0, __ATOMIC_SEQ_CST) != 0) {
        if (!os_socket_signal(client.socket)) client_lost();
    }
}

static bool wait_for_room(uint64_t head, uint32_t slots) {
    cuttle_control_page *control = client.control;
    for (unsigned turn = 0; head + slots - (known_tail = LOAD(control->ring_tail)) > CUTTLE_RING_SLOTS; turn++) {
        if (turn < 200) {
            os_pause();
            continue;
        }
        device_wake();
        STORE(control->client_waiting, 1);
        if (os_socket_wait(client.socket, 1) < 0) {
            client_lost();
            return false;
        }
    }
    return true;
}

void *ring_begin(uint32_t kind, uint32_t stream_slot, size_t bytes) {
    uint32_t slots = (uint32_t)((bytes + CUTTLE_SLOT_BYTES - 1) / CUTTLE_SLOT_BYTES);
    os_lock_take(&ring_lock);
    uint64_t head = client.control->ring_head;
    uint32_t place = (uint32_t)(head & SLOT_MASK);
    uint32_t filler = place + slots > CUTTLE_RING_SLOTS ? CUTTLE_RING_SLOTS - place : 0;
    if (UNLIKELY(head + filler + slots - known_tail > CUTTLE_RING_SLOTS) && !wait_for_room(head, filler + slots)) {
        os_lock_release(&ring_lock);
        return NULL;
    }
    if (UNLIKELY(filler != 0)) {
        cuttle_record *nop = (cuttle_record *)(client.ring + (size_t)place * CUTTLE_SLOT_BYTES);
        *nop = (cuttle_record){.kind = CUTTLE_RECORD_NOP, .slots = (uint16_t)filler};
        head += filler;
        STORE(client.control->ring_head, head);
        place = 0;
    }
    cuttle_record *record = (cuttle_record *)(client.ring + (size_t)place * CUTTLE_SLOT_BYTES);
    record->kind = (uint16_t)kind;
    record->slots = (uint16_t)slots;
    record->stream = stream_slot;
    record->sequence = 0;
    return record;
}

uint64_t ring_commit(void *begun, bool ordered) {
    cuttle_record *record = begun;
    uint64_t sequence = 0;
    if (ordered) {
        cuttle_stream_slot *slot = &client.streams[record->stream];
        sequence = slot->submitted + 1;
        record->sequence = sequence;
        STORE(slot->submitted, sequence);
    }
    STORE(client.control->ring_head, client.control->ring_head + record->slots);
    device_wake();
    os_lock_release(&ring_lock);
    return sequence;
}
