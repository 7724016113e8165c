/* Modules, libraries and kernels. A CUlibrary is a module object too, a CUkernel is a function object. */
#ifndef CUTTLE_MODULE_H
#define CUTTLE_MODULE_H

#include "client.h"

typedef struct parameter_place {
    uint32_t offset, bytes;
} parameter_place;

typedef struct launch_state launch_state; /* launch_state.c */

typedef struct function {
    uint32_t tag;
    uint32_t id; /* kernel number, as LAUNCH records name it */
    uint32_t parameter_count, parameter_bytes;
    parameter_place *parameters;
    uint32_t max_threads, max_dynamic_shared;
    uint32_t required_block[3]; /* .reqntid; zeros: any */
    uint32_t static_shared, local, constant, registers, ptx_version, binary_version;
    uint32_t cluster[3]; /* required dimensions; zeros: none */
    uint32_t most_cluster_blocks; /* .maxclusterrank; 0: none */
    bool cluster_is_fixed; /* the kernel was compiled with its dimensions */
    bool cluster_must_be_set, blocks_are_clusters, non_portable_cluster;
    int cluster_policy, preferred_carveout;
    uint32_t refused; /* CUresult of launches if the kernel cannot be translated */
    struct module *owner;
    launch_state *state; /* NULL until something is set */
    struct function *next;
    char name[];
} function;

typedef struct module {
    uint32_t tag;
    bool is_library;
    uint64_t id;
    context *owner; /* NULL: of no context (libraries) */
    function *functions;
    struct module *next;
} module;

/* What the program passes as options of the just-in-time compiler. */
typedef struct jit_options {
    uint64_t arguments[6]; /* JIT_ARGUMENTS of abi/requests.py */
    char *info_log, *error_log;
    void **info_size, **error_size; /* where the sizes written are given back */
} jit_options;

CUresult jit_options_read(jit_options *options, unsigned count, const CUjit_option *names, void **values);
void jit_logs_give(const jit_options *options, const uint8_t *logs, size_t bytes, uint64_t info_bytes, uint64_t error_bytes);

/* Bytes of an image by its own headers (fat binary, ELF, PTX text); 0 if it is none of them. */
size_t image_bytes(const void *image);
CUresult module_load(module **loaded, const void *image, const jit_options *options, bool is_library);
CUresult module_load_file(const char *path, void **bytes, size_t *count); /* free the bytes */
CUresult function_of(CUfunction handle, function **found);
CUresult function_attribute(const function *of, CUfunction_attribute attribute, int *value);
CUresult function_attribute_set(function *of, CUfunction_attribute attribute, int value);
CUresult module_function(module *of, const char *name, function **found);
CUresult module_global(module *of, const char *name, CUdeviceptr *address, size_t *bytes, bool managed_only);
void module_unload(module *of);
function *function_of_id(uint32_t id); /* by kernel number */

#endif
