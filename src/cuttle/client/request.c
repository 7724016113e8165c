#include "request.h"

#include "ring.h"

#include <stdlib.h>
#include <string.h>

#define SPIN_NS 30000

static os_lock request_lock = OS_LOCK_INITIAL;

/* Publishes what stands in the Control page and waits for the reply. */
static bool exchange(void) {
    cuttle_control_page *control = client.control;
    uint64_t sequence = control->request_sequence + 1;
    STORE(control->request_sequence, sequence);
    device_wake();
    uint64_t spin_until = os_time_ns() + SPIN_NS;
    for (unsigned turn = 0; LOAD(control->reply_sequence) != sequence; turn++) {
        os_spin(turn);
        if ((turn & 63) == 63 && os_time_ns() > spin_until) break;
    }
    /* The device process cannot fence between its reply and its look at `client_waiting`: hence the short first sleeps. */
    for (unsigned milliseconds = 1; LOAD(control->reply_sequence) != sequence;) {
        __atomic_store_n(&control->client_waiting, 1, __ATOMIC_SEQ_CST);
        if (LOAD(control->reply_sequence) == sequence) break;
        int waited = os_socket_wait(client.socket, milliseconds);
        if (waited < 0) {
            client_lost();
            return false;
        }
        if (waited == 0 && milliseconds < 64) milliseconds *= 2;
        if (client.state != CLIENT_READY) return false;
    }
    STORE(control->client_waiting, 0);
    return true;
}

static CUresult fetch_rest(request *of) {
    cuttle_control_page *control = client.control;
    for (size_t have = CUTTLE_PAYLOAD_BYTES; have < of->reply_bytes;) {
        control->request_function = CUTTLE_REQUEST_REPLY_MORE;
        control->request_flags = 0;
        control->request_count = 1;
        control->request_payload_bytes = 0;
        control->request_arguments[0] = have;
        if (!exchange()) return CUDA_ERROR_SYSTEM_NOT_READY;
        size_t more = control->reply_payload_bytes;
        if (control->reply_result != 0 || more == 0 || more > CUTTLE_PAYLOAD_BYTES || more > of->reply_bytes - have) {
            return CUDA_ERROR_UNKNOWN;
        }
        memcpy(of->reply + have, client.payload, more);
        have += more;
    }
    return CUDA_SUCCESS;
}

static CUresult take_reply(request *of) {
    cuttle_control_page *control = client.control;
    CUresult result = (CUresult)control->reply_result;
    memcpy(of->values, control->request_arguments, sizeof of->values);
    of->reply_bytes = control->reply_payload_bytes;
    of->reply = NULL;
    if (of->reply_bytes == 0) return result;
    of->reply = malloc(of->reply_bytes + 1);
    if (of->reply == NULL) {
        of->reply_bytes = 0;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    of->reply[of->reply_bytes] = 0;
    memcpy(of->reply, client.payload, of->reply_bytes < CUTTLE_PAYLOAD_BYTES ? of->reply_bytes : CUTTLE_PAYLOAD_BYTES);
    CUresult fetched = fetch_rest(of);
    return result != CUDA_SUCCESS ? result : fetched;
}

/* Writes the payload; sends full chunks ahead of the last part. */
static bool send_payload(request *of, uint32_t number) {
    cuttle_control_page *control = client.control;
    size_t filled = 0;
    for (unsigned i = 0; i < of->pieces; i++) {
        const uint8_t *bytes = of->piece[i].bytes;
        for (size_t left = of->piece[i].count; left != 0;) {
            if (filled == CUTTLE_PAYLOAD_BYTES) {
                control->request_function = number;
                control->request_flags = 1;
                control->request_count = 0;
                control->request_payload_bytes = CUTTLE_PAYLOAD_BYTES;
                if (!exchange()) return false;
                filled = 0;
            }
            size_t part = left < CUTTLE_PAYLOAD_BYTES - filled ? left : CUTTLE_PAYLOAD_BYTES - filled;
            memcpy(client.payload + filled, bytes, part);
            filled += part;
            bytes += part;
            left -= part;
        }
    }
    control->request_payload_bytes = (uint32_t)filled;
    return true;
}

CUresult request_send(request *of, uint32_t number) {
    cuttle_control_page *control = client.control;
    thread_state *thread = thread_enter();
    context *now = current_context();
    CUresult result;
    if (client.state != CLIENT_READY) return client_not_ready();
    os_lock_take(&request_lock);
    control->request_thread = thread != NULL ? thread->number : 0;
    control->request_context = now != NULL ? now->id : 0;
    if (!send_payload(of, number)) {
        os_lock_release(&request_lock);
        return client_not_ready();
    }
    control->request_function = number;
    control->request_flags = 0;
    control->request_count = of->count;
    memcpy(control->request_arguments, of->values, sizeof of->values);
    result = exchange() ? take_reply(of) : client_not_ready();
    os_lock_release(&request_lock);
    return result;
}

void request_done(request *of) {
    free(of->reply);
    of->reply = NULL;
}

CUresult request_simple(uint32_t number, unsigned count, const uint64_t *arguments, uint64_t *value) {
    request call = {.count = count};
    memcpy(call.values, arguments, count * 8);
    CUresult result = request_send(&call, number);
    request_done(&call);
    if (result == CUDA_SUCCESS && value != NULL) *value = call.values[0];
    return result;
}

CUresult cuttle_call_end(cuttle_call *call) {
    CUresult result = request_send(&call->request, call->number);
    size_t at = 0;
    for (unsigned i = 0; i < call->outputs && result == CUDA_SUCCESS; i++) {
        if (at + call->output[i].bytes > call->request.reply_bytes) break;
        if (call->output[i].place != NULL) memcpy(call->output[i].place, call->request.reply + at, call->output[i].bytes);
        at += call->output[i].bytes;
    }
    request_done(&call->request);
    return result;
}
