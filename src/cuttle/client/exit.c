/* The end: this library's ELF destructor runs after the CUDA runtime's own exit handlers, an atexit handler of ours
 * would run before them. Calls that come still later answer DEINITIALIZED. */
#include "client.h"

__attribute__((destructor)) static void at_exit(void) {
    if (client.state != CLIENT_READY) return;
    text_drain();
    client_close();
}
