/* Device output: taken from the FIFO into the program's own stdout and stderr, so that the order of lines is kept. */
#include "client.h"

static os_lock text_lock = OS_LOCK_INITIAL;

static void take(uint64_t at, void *to, size_t count) {
    uint8_t *bytes = to;
    for (size_t i = 0; i < count; i++) bytes[i] = client.text[(at + i) % CUTTLE_TEXT_FIFO_BYTES];
}

/* Writes `count` bytes from the FIFO, in two parts where it wraps. */
static void write_out(bool to_stderr, uint64_t at, uint32_t count) {
    uint64_t place = at % CUTTLE_TEXT_FIFO_BYTES;
    uint64_t first = CUTTLE_TEXT_FIFO_BYTES - place < count ? CUTTLE_TEXT_FIFO_BYTES - place : count;
    os_text_write(to_stderr, client.text + place, first);
    if (count != first) os_text_write(to_stderr, client.text, count - first);
}

static void drain(cuttle_status_page *status) {
    uint64_t tail = status->text_tail;
    for (uint64_t head; (head = LOAD(status->text_head)) != tail;) {
        uint32_t entry[2]; /* length, channel */
        take(tail, entry, sizeof entry);
        if (entry[0] > head - tail - sizeof entry) break; /* torn by a dead executor: nothing sensible follows */
        write_out(entry[1] == 2, tail + sizeof entry, entry[0]);
        tail += sizeof entry + entry[0];
        STORE(status->text_tail, tail);
    }
}

void text_drain(void) {
    cuttle_status_page *status = client.status;
    if (status == NULL || LOAD(status->text_head) == LOAD(status->text_tail)) return;
    os_lock_take(&text_lock);
    drain(status);
    os_lock_release(&text_lock);
}

void text_drain_last(void) {
    if (client.status != NULL && os_lock_try(&text_lock)) drain(client.status);
}
