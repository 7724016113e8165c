/* A stand-in for libamd_comgr that only has a version (-DMAJOR, -DMINOR) and writes down which action it is asked for. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int last_action = -1;

EXPORT void amd_comgr_get_version(size_t *major, size_t *minor) { *major = MAJOR; *minor = MINOR; }
EXPORT int amd_comgr_do_action(int action, uint64_t info, uint64_t in, uint64_t out) { last_action = action; return info && in && out ? 0 : 2; }
EXPORT int fake_last_action(void) { return last_action; }

static int handle(uint64_t *out) { *out = 7; return 0; }
EXPORT int amd_comgr_create_data(int kind, uint64_t *out) { return kind >= 1 && kind <= 0x15 ? handle(out) : 2; }
EXPORT int amd_comgr_create_data_set(uint64_t *out) { return handle(out); }
EXPORT int amd_comgr_create_action_info(uint64_t *out) { return handle(out); }
EXPORT int amd_comgr_get_data_metadata(uint64_t data, uint64_t *out) { return data == 7 ? handle(out) : 2; }
EXPORT int amd_comgr_symbol_lookup(uint64_t data, const char *name, uint64_t *out) { return data == 7 && name ? handle(out) : 2; }
EXPORT int amd_comgr_action_data_get_data(uint64_t set, int kind, size_t index, uint64_t *out) {
    return set == 7 && kind == 8 && index == 0 ? handle(out) : 2;
}
static int text(size_t *size, char *out, const char *content) {
    size_t length = strlen(content) + 1;
    if (out && *size >= length) memcpy(out, content, length);
    *size = length;
    return 0;
}
EXPORT int amd_comgr_get_data(uint64_t data, size_t *size, char *out) { return data == 7 ? text(size, out, "linked") : 2; }
EXPORT int amd_comgr_get_data_isa_name(uint64_t data, size_t *size, char *out) {
    return data == 7 ? text(size, out, "amdgcn-amd-amdhsa--gfx1100") : 2;
}
EXPORT int amd_comgr_get_isa_count(size_t *count) { *count = 1; return 0; }
EXPORT int amd_comgr_get_isa_name(size_t index, const char **name) { *name = "amdgcn-amd-amdhsa--gfx1100"; return index ? 2 : 0; }
#define GOOD(name) EXPORT int amd_comgr_##name(uint64_t data) { return data == 7 ? 0 : 2; }
GOOD(release_data) GOOD(set_data) GOOD(set_data_name) GOOD(destroy_metadata) GOOD(destroy_data_set) GOOD(data_set_add)
GOOD(destroy_action_info) GOOD(action_info_set_isa_name)
