/* How long a module image is: programs pass a bare pointer. */
#include "module.h"

#include <elf.h>
#include <string.h>

#define FATBIN_MAGIC 0xBA55ED50u
#define FATBIN_OLD_MAGIC 0x1EE55A01u
/* What cuLinkComplete gives (ptx/containers/image.py). */
#define LINKED_MAGIC "\x8b" "CUTTLE\n"
#define LINKED_HEADER_BYTES 24

static size_t elf_bytes(const uint8_t *image) {
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
    uint64_t end = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    uint64_t segments = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
    if (segments > end) end = segments;
    if (header.e_shentsize != sizeof(Elf64_Shdr) && header.e_shnum != 0) return 0;
    if (!os_is_mapped(image + header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr))) return 0;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, image + header.e_shoff + (uint64_t)i * header.e_shentsize, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end) end = section.sh_offset + section.sh_size;
    }
    return end;
}

static size_t stated_bytes(const void *image) {
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == FATBIN_MAGIC || magic == FATBIN_OLD_MAGIC) {
        uint16_t header;
        uint64_t files;
        memcpy(&header, (const uint8_t *)image + 6, sizeof header);
        memcpy(&files, (const uint8_t *)image + 8, sizeof files);
        return header + files;
    }
    if (memcmp(image, ELFMAG, SELFMAG) == 0) return elf_bytes(image);
    if (strncmp(image, LINKED_MAGIC, sizeof LINKED_MAGIC - 1) == 0) {
        uint64_t payload;
        memcpy(&payload, (const uint8_t *)image + 16, sizeof payload);
        return LINKED_HEADER_BYTES + payload;
    }
    return strlen(image);
}

/* 0: this is no image, or it is cut off: less memory is there than it says. */
size_t image_bytes(const void *image) {
    size_t bytes = stated_bytes(image);
    return bytes != 0 && os_is_mapped(image, bytes) ? bytes : 0;
}
