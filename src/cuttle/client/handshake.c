/* The runtime handshake: HMAC (RFC 2104) with the MD2 hash (RFC 1319) over facts that both sides can see. Written from
 * these RFCs and the public interface facts in docs/legal.md. Replace this file, or build with -DCUTTLE_HANDSHAKE=0, to
 * go without it (statically linked CUDA runtimes then refuse the driver).
 */
#include "handshake.h"

#ifndef CUTTLE_HANDSHAKE
#define CUTTLE_HANDSHAKE 1
#endif

#if CUTTLE_HANDSHAKE

#include "os.h"
#include <string.h>

/* ------------------------------------------------------------------------------------------------ MD2 */

#define PI_DIGITS 800

static uint8_t substitution[256];
static os_once substitution_once = OS_ONCE_INITIAL;

/* Decimal digits of pi, by the spigot algorithm of Rabinowitz and Wagon. */
static void pi_digits(uint8_t *digits, int count) {
    enum { TERMS = PI_DIGITS * 10 / 3 + 16 };
    static uint32_t terms[TERMS];
    int written = -1, nines = 0; /* the first digit produced is a leading zero */
    int predigit = 0;
    for (int i = 0; i < TERMS; i++) terms[i] = 2;
    while (written < count) {
        uint32_t carry = 0;
        for (int i = TERMS - 1; i > 0; i--) {
            uint32_t value = 10 * terms[i] + carry * (uint32_t)(i + 1);
            terms[i] = value % (uint32_t)(2 * i + 1);
            carry = value / (uint32_t)(2 * i + 1);
        }
        uint32_t value = 10 * terms[0] + carry;
        terms[0] = value % 10;
        int digit = (int)(value / 10);
        if (digit == 9) {
            nines++;
            continue;
        }
        int overflow = digit == 10;
        if (written >= 0 && written < count) digits[written] = (uint8_t)(predigit + overflow);
        written++;
        for (; nines > 0; nines--) {
            if (written < count) digits[written] = overflow ? 0 : 9;
            written++;
        }
        predigit = overflow ? 0 : digit;
    }
}

static const uint8_t *next_digit;

/* A number below `limit` from the digits, without bias. */
static int digits_below(int limit) {
    for (;;) {
        int range = limit <= 10 ? 10 : limit <= 100 ? 100 : 1000, number = 0;
        for (int reached = 1; reached < range; reached *= 10) number = number * 10 + *next_digit++;
        if (number < limit * (range / limit)) return number % limit;
    }
}

/* The RFC's table is the identity, shuffled by the digits of pi. */
static void make_substitution(void) {
    static uint8_t digits[PI_DIGITS + 16];
    pi_digits(digits, PI_DIGITS);
    next_digit = digits;
    for (int i = 0; i < 256; i++) substitution[i] = (uint8_t)i;
    for (int i = 2; i <= 256; i++) {
        int other = digits_below(i);
        uint8_t value = substitution[other];
        substitution[other] = substitution[i - 1];
        substitution[i - 1] = value;
    }
}

typedef struct md2_state {
    uint8_t mixed[48], checksum[16], block[16];
    uint8_t last;
    size_t filled;
} md2_state;

static void md2_mix(md2_state *state, const uint8_t block[16]) {
    uint8_t step = 0;
    for (int i = 0; i < 16; i++) {
        state->mixed[16 + i] = block[i];
        state->mixed[32 + i] = state->mixed[16 + i] ^ state->mixed[i];
    }
    for (int round = 0; round < 18; round++) {
        for (int i = 0; i < 48; i++) step = state->mixed[i] ^= substitution[step];
        step = (uint8_t)(step + round);
    }
}

static void md2_block(md2_state *state) {
    for (int i = 0; i < 16; i++) {
        state->last = state->checksum[i] ^= substitution[state->block[i] ^ state->last]; /* as the RFC's erratum has it */
    }
    md2_mix(state, state->block);
    state->filled = 0;
}

static void md2_add(md2_state *state, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        state->block[state->filled++] = bytes[i];
        if (state->filled == 16) md2_block(state);
    }
}

static void md2_end(md2_state *state, uint8_t digest[16]) {
    uint8_t padding = (uint8_t)(16 - state->filled), checksum[16];
    for (int left = padding; left > 0; left--) md2_add(state, &padding, 1);
    memcpy(checksum, state->checksum, 16);
    md2_mix(state, checksum);
    memcpy(digest, state->mixed, 16);
}

void handshake_md2(const uint8_t *bytes, size_t count, uint8_t digest[16]) {
    md2_state state = {0};
    os_once_run(&substitution_once, make_substitution);
    md2_add(&state, bytes, count);
    md2_end(&state, digest);
}

/* ------------------------------------------------------------------------------------------------ HMAC */

static void hmac_begin(md2_state *inner, const uint8_t key[16]) {
    uint8_t pad[16];
    os_once_run(&substitution_once, make_substitution);
    memset(inner, 0, sizeof *inner);
    for (int i = 0; i < 16; i++) pad[i] = key[i] ^ 0x36;
    md2_add(inner, pad, 16);
}

static void hmac_end(md2_state *inner, const uint8_t key[16], uint8_t digest[16]) {
    md2_state outer = {0};
    uint8_t pad[16];
    md2_end(inner, digest);
    for (int i = 0; i < 16; i++) pad[i] = key[i] ^ 0x5c;
    md2_add(&outer, pad, 16);
    md2_add(&outer, digest, 16);
    md2_end(&outer, digest);
}

void handshake_hmac_md2(const uint8_t key[16], const uint8_t *bytes, size_t count, uint8_t digest[16]) {
    md2_state inner;
    hmac_begin(&inner, key);
    md2_add(&inner, bytes, count);
    hmac_end(&inner, key, digest);
}

/* ------------------------------------------------------------------------------------------------ the answer */

static void add_u32(md2_state *state, uint32_t value) {
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    md2_add(state, bytes, 4);
}

static void add_u64(md2_state *state, uint64_t value) {
    add_u32(state, (uint32_t)value);
    add_u32(state, (uint32_t)(value >> 32));
}

int handshake_answer(const handshake_input *input, uint64_t result[2]) {
    static const uint8_t key[16] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
                                    0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
    uint32_t mode = input->asked_version % 10;
    if (mode < 2) {
        result[0] = mode == 0 ? 0x3341181C03CB675Cull : 0x1841181C03CB675Cull;
        result[1] = 0x8ED383AA1F4CD1E8ull;
        return 1;
    }
    md2_state state;
    uint8_t digest[16];
    hmac_begin(&state, key);
    add_u32(&state, input->driver_version);
    add_u32(&state, input->asked_version);
    add_u32(&state, input->process);
    add_u32(&state, input->thread);
    add_u64(&state, input->runtime_table);
    add_u64(&state, input->integrity_table);
    add_u64(&state, input->integrity_function);
    add_u64(&state, input->unix_seconds);
    for (uint32_t i = 0; i < input->device_count; i++) {
        md2_add(&state, input->devices[i].uuid, 16);
        add_u32(&state, input->devices[i].pci_domain);
        add_u32(&state, input->devices[i].pci_bus);
        add_u32(&state, input->devices[i].pci_device);
    }
    hmac_end(&state, key, digest);
    memcpy(result, digest, 16);
    return 1;
}

#else /* nothing of the above is in the library */

int handshake_answer(const handshake_input *input, uint64_t result[2]) {
    (void)input;
    (void)result;
    return 0;
}

#endif
