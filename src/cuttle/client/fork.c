/* A forked child has no device: its calls answer NOT_INITIALIZED, and nothing it does reaches its parent's device.
 * (The shared mappings are not inherited, MADV_DONTFORK; the socket is closed here, so that the parent's end of it
 * still means the end of the device process.) */
#include "client.h"

static void in_child(void) {
    if (client.state == CLIENT_NEW) return;
    client.state = CLIENT_FORKED;
    client.arena_bytes = 0;
    client.status = NULL;
    if (client.socket >= 0) os_socket_close(client.socket);
    if (client.arena_memory >= 0) os_memory_close(client.arena_memory);
    client.socket = client.arena_memory = -1;
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(NULL, NULL, in_child); }
