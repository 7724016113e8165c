/* The end: this library's ELF destructor runs after the CUDA runtime's own exit handlers, its atexit handler before them.
 * Calls that come still later answer DEINITIALIZED. */
#include "client.h"

#include <stdlib.h>

bool client_exits;

#if defined(_WIN32)

/* From the library's entry point, when all other threads are gone: the system closes the connection. */
void client_process_ends(void) {
    client_exits = true;
    if (client.state == CLIENT_READY) text_drain_last();
}

#else

static void note_exit(void) { client_exits = true; }

__attribute__((constructor)) static void watch_exit(void) { atexit(note_exit); }

__attribute__((destructor)) static void at_exit(void) {
    if (client.state != CLIENT_READY) return;
    text_drain();
    client_close();
}

#endif
