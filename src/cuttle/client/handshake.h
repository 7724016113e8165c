/* The value by which a CUDA runtime recognises a driver of its interface. See docs/legal.md: what it is and why. */
#ifndef CUTTLE_HANDSHAKE_H
#define CUTTLE_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

typedef struct handshake_device {
    uint8_t uuid[16];
    uint32_t pci_domain, pci_bus, pci_device;
} handshake_device;

typedef struct handshake_input {
    uint32_t driver_version, asked_version, process, thread;
    uint64_t runtime_table, integrity_table, integrity_function, unix_seconds;
    uint32_t device_count;
    const handshake_device *devices;
} handshake_input;

/* Fills `result`; 0 when built without it (CUTTLE_HANDSHAKE=0). */
int handshake_answer(const handshake_input *input, uint64_t result[2]);

/* The published algorithms it is made of (also called by tests); not there without the handshake. */
void handshake_md2(const uint8_t *bytes, size_t count, uint8_t digest[16]);
void handshake_hmac_md2(const uint8_t key[16], const uint8_t *bytes, size_t count, uint8_t digest[16]);

#endif
