/* Modules: what the program holds of code. The image goes to the device process as it is; names are asked for when the
 * program asks, and kept. */
#include "module.h"
#include "texture_reference.h"

#include "allocations.h"
#include "request.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243B1u
#define MAXIMUM_OBJECTS 4096

/* What the compiler puts before an embedded fat binary. */
typedef struct fatbin_wrapper {
    uint32_t magic, version;
    const void *data;
    const void *list; /* version 2: NULL-terminated array of the per-object fat binaries */
} fatbin_wrapper;

static os_lock modules_lock = OS_LOCK_INITIAL;
static module *modules;

/* ------------------------------------------------------------------------------------------------ options and logs */

CUresult jit_options_read(jit_options *options, unsigned count, const CUjit_option *names, void **values) {
    memset(options, 0, sizeof *options);
    options->arguments[4] = 4;
    if (count != 0 && (names == NULL || values == NULL)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        uint64_t value = (uint64_t)(uintptr_t)values[i];
        uint32_t word = (uint32_t)value;
        switch (names[i]) {
        case CU_JIT_MAX_REGISTERS: options->arguments[2] = word; break;
        case CU_JIT_THREADS_PER_BLOCK: options->arguments[3] = word; break;
        case CU_JIT_INFO_LOG_BUFFER: options->info_log = values[i]; break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            options->arguments[0] = word;
            options->info_size = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER: options->error_log = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            options->arguments[1] = word;
            options->error_size = &values[i];
            break;
        case CU_JIT_OPTIMIZATION_LEVEL: options->arguments[4] = word; break;
        case CU_JIT_GENERATE_DEBUG_INFO: options->arguments[5] |= word ? 1 : 0; break;
        case CU_JIT_GENERATE_LINE_INFO: options->arguments[5] |= word ? 2 : 0; break;
        case CU_JIT_LOG_VERBOSE: options->arguments[5] |= word ? 4 : 0; break;
        case CU_JIT_WALL_TIME: values[i] = NULL; break; /* 0.0f */
        default: break; /* hints for hardware that is not here */
        }
    }
    if (options->info_log == NULL) options->arguments[0] = 0;
    if (options->error_log == NULL) options->arguments[1] = 0;
    return CUDA_SUCCESS;
}

static void give_log(char *buffer, uint64_t room, void **size, const uint8_t *text, uint64_t bytes) {
    uint64_t written = 0;
    if (buffer != NULL && room != 0) {
        written = bytes < room - 1 ? bytes : room - 1;
        memcpy(buffer, text, written);
        buffer[written] = 0;
    }
    if (size != NULL) *size = (void *)(uintptr_t)written;
}

void jit_logs_give(const jit_options *options, const uint8_t *logs, size_t bytes, uint64_t info_bytes, uint64_t error_bytes) {
    if (info_bytes > bytes) info_bytes = bytes;
    if (error_bytes > bytes - info_bytes) error_bytes = bytes - info_bytes;
    give_log(options->info_log, options->arguments[0], options->info_size, logs, info_bytes);
    give_log(options->error_log, options->arguments[1], options->error_size, logs + info_bytes, error_bytes);
}

/* ------------------------------------------------------------------------------------------------ loading */

/* Finds the parts of an image. Returns their number, or 0 if there is nothing to load. */
static unsigned find_objects(const void *image, unsigned *kind, const void **objects, uint64_t *sizes, unsigned most) {
    fatbin_wrapper wrapper;
    unsigned count = 0;
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    *kind = 1;
    objects[count++] = image;
    if (magic == WRAPPER_MAGIC) {
        memcpy(&wrapper, image, sizeof wrapper);
        *kind = wrapper.version == 2 ? 3 : 2;
        objects[0] = wrapper.data;
        if (wrapper.data == NULL) return 0;
        if (wrapper.version == 2) {
            const void *const *list = wrapper.list;
            while (list != NULL && *list != NULL && count < most) objects[count++] = *list++;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        sizes[i] = image_bytes(objects[i]);
        if (sizes[i] == 0) return 0;
    }
    return count;
}

/* A request has few payload pieces: many objects are put together first. */
static CUresult send_objects(request *call, unsigned count, const void **objects, const uint64_t *sizes, uint8_t **joined) {
    request_payload(call, sizes, count * sizeof *sizes);
    if (count + 1 <= REQUEST_PIECES) {
        for (unsigned i = 0; i < count; i++) request_payload(call, objects[i], sizes[i]);
        return CUDA_SUCCESS;
    }
    size_t total = 0, at = 0;
    for (unsigned i = 0; i < count; i++) total += sizes[i];
    if ((*joined = malloc(total)) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++) {
        memcpy(*joined + at, objects[i], sizes[i]);
        at += sizes[i];
    }
    request_payload(call, *joined, total);
    return CUDA_SUCCESS;
}

CUresult module_load(module **loaded, const void *image, const jit_options *options, bool is_library) {
    static const void *objects[MAXIMUM_OBJECTS];
    static uint64_t sizes[MAXIMUM_OBJECTS];
    static os_lock load_lock = OS_LOCK_INITIAL;
    uint8_t *joined = NULL;
    unsigned kind, count;
    request call = {0};
    module *made = calloc(1, sizeof *made);
    if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    os_lock_take(&load_lock);
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    if ((count = find_objects(image, &kind, objects, sizes, MAXIMUM_OBJECTS)) != 0) {
        request_argument(&call, kind | (is_library ? 0x100u : 0)); /* libraries belong to no context */
        request_argument(&call, count);
        for (int i = 0; i < 6; i++) request_argument(&call, options->arguments[i]);
        result = send_objects(&call, count, objects, sizes, &joined);
        if (result == CUDA_SUCCESS) result = request_send(&call, CUTTLE_REQUEST_MODULE_LOAD);
    } else {
        client_log("a module is neither PTX text nor a fat binary nor a whole ELF file\n"
                   "  hint: `cuttle scan FILE` says what a file holds");
    }
    os_lock_release(&load_lock);
    free(joined);
    if (count != 0) {
        jit_logs_give(options, call.reply, call.reply_bytes, call.values[CUTTLE_REPLY_MODULE_LOAD_INFO_LOG_BYTES],
                      call.values[CUTTLE_REPLY_MODULE_LOAD_ERROR_LOG_BYTES]);
    }
    request_done(&call);
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *made = (module){.tag = TAG_MODULE, .is_library = is_library, .id = call.values[CUTTLE_REPLY_MODULE_LOAD_MODULE],
                     .owner = is_library ? NULL : current_context()};
    os_lock_take(&modules_lock);
    made->next = modules;
    modules = made;
    os_lock_release(&modules_lock);
    *loaded = made;
    return CUDA_SUCCESS;
}

CUresult module_load_file(const char *path, void **bytes, size_t *size) {
    void *memory = os_file_read(path, size); /* PTX text ends with a NUL: there are some behind the file */
    if (memory == NULL && *size == 0) {
        client_log("the module file %.300s cannot be read: %s", path, os_error_text());
        return CUDA_ERROR_FILE_NOT_FOUND;
    }
    if (memory == NULL) {
        client_log("the module file %.300s is empty, or no file", path);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *bytes = memory;
    return CUDA_SUCCESS;
}

/* The object stays in memory with a dead tag; so do its functions, which stale handles may name. */
static void bury(module *of) {
    of->tag = TAG_DEAD;
    for (function *each = of->functions; each != NULL; each = each->next) each->tag = TAG_DEAD;
    allocations_forget_module(of->id);
}

void module_unload(module *of) {
    if (client_exits) return;
    if (LOAD(client.status->sticky_error) == 0) wait_all_ended();
    texture_references_forget(of);
    os_lock_take(&modules_lock);
    for (module **link = &modules; *link != NULL; link = &(*link)->next) {
        if (*link == of) {
            *link = of->next;
            break;
        }
    }
    os_lock_release(&modules_lock);
    bury(of);
    REQUEST(CUTTLE_REQUEST_MODULE_UNLOAD, NULL, of->id);
}

/* Libraries live on: they belong to no context. The device process keeps their images, too. */
void modules_forget(context *of) {
    os_lock_take(&modules_lock);
    for (module **link = &modules; *link != NULL;) {
        module *each = *link;
        if (each->owner == of) {
            *link = each->next;
            bury(each);
        } else {
            link = &each->next;
        }
    }
    os_lock_release(&modules_lock);
}

/* ------------------------------------------------------------------------------------------------ kernels, variables */

function *function_of_id(uint32_t id) {
    function *found = NULL;
    os_lock_take(&modules_lock);
    for (module *each = modules; each != NULL && found == NULL; each = each->next) {
        found = each->functions;
        while (found != NULL && found->id != id) found = found->next;
    }
    os_lock_release(&modules_lock);
    return found;
}

static function *known_function(module *of, const char *name) {
    for (function *each = LOAD(of->functions); each != NULL; each = each->next) {
        if (strcmp(each->name, name) == 0) return each;
    }
    return NULL;
}

static function *make_function(module *of, const char *name, const request *reply) {
    const uint64_t *value = reply->values;
    uint64_t count = value[CUTTLE_REPLY_KERNEL_GET_PARAMETER_COUNT];
    size_t length = strlen(name);
    function *made = calloc(1, sizeof *made + length + 1);
    parameter_place *places = calloc(count + 1, sizeof *places);
    if (made == NULL || places == NULL || reply->reply_bytes < count * sizeof *places) {
        free(made);
        free(places);
        return NULL;
    }
    if (count != 0) memcpy(places, reply->reply, count * sizeof *places);
    made->tag = TAG_FUNCTION;
    made->id = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_KERNEL];
    made->parameter_count = (uint32_t)count;
    made->parameter_bytes = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_PARAMETER_BYTES];
    made->parameters = places;
    made->static_shared = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_STATIC_SHARED_BYTES];
    made->local = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_LOCAL_BYTES];
    made->constant = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_CONSTANT_BYTES];
    made->max_threads = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_MAX_THREADS_PER_BLOCK];
    made->registers = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_REGISTERS];
    made->ptx_version = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_PTX_VERSION];
    made->binary_version = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_BINARY_VERSION];
    made->max_dynamic_shared = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_MAX_DYNAMIC_SHARED_BYTES];
    made->cluster[0] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_CLUSTER_WIDTH];
    made->cluster[1] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_CLUSTER_HEIGHT];
    made->cluster[2] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_CLUSTER_DEPTH];
    made->cluster_is_fixed = made->cluster[0] != 0;
    made->most_cluster_blocks = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_MOST_CLUSTER_BLOCKS];
    made->cluster_must_be_set = value[CUTTLE_REPLY_KERNEL_GET_CLUSTER_MUST_BE_SET] != 0;
    made->blocks_are_clusters = made->cluster_is_fixed && value[CUTTLE_REPLY_KERNEL_GET_BLOCKS_ARE_CLUSTERS] != 0;
    made->required_block[0] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_REQUIRED_BLOCK_X];
    made->required_block[1] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_REQUIRED_BLOCK_Y];
    made->required_block[2] = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_REQUIRED_BLOCK_Z];
    made->refused = (uint32_t)value[CUTTLE_REPLY_KERNEL_GET_REFUSED];
    made->preferred_carveout = -1;
    made->owner = of;
    memcpy(made->name, name, length + 1);
    for (uint64_t i = 0; i < count; i++) {
        if ((uint64_t)places[i].offset + places[i].bytes > made->parameter_bytes) {
            made->parameter_bytes = places[i].offset + places[i].bytes;
        }
    }
    return made;
}

CUresult module_function(module *of, const char *name, function **found) {
    if ((*found = known_function(of, name)) != NULL) return CUDA_SUCCESS;
    request call = {0};
    request_argument(&call, of->id);
    request_payload(&call, name, strlen(name));
    CUresult result = request_send(&call, CUTTLE_REQUEST_KERNEL_GET);
    if (result == CUDA_SUCCESS) {
        function *made = make_function(of, name, &call);
        if (made == NULL) result = CUDA_ERROR_OUT_OF_MEMORY;
        os_lock_take(&modules_lock);
        function *other = known_function(of, name); /* another thread may have been faster */
        if (other == NULL && made != NULL) {
            made->next = of->functions;
            STORE(of->functions, made);
        } else if (made != NULL) {
            free(made->parameters);
            free(made);
            made = other;
        }
        os_lock_release(&modules_lock);
        *found = made;
    }
    request_done(&call);
    return result;
}

CUresult module_global(module *of, const char *name, CUdeviceptr *address, size_t *bytes, bool managed_only) {
    request call = {0};
    request_argument(&call, of->id);
    request_payload(&call, name, strlen(name));
    CUresult result = request_send(&call, CUTTLE_REQUEST_GLOBAL_GET);
    request_done(&call);
    if (result != CUDA_SUCCESS) return result;
    uint64_t found = call.values[CUTTLE_REPLY_GLOBAL_GET_ADDRESS], count = call.values[CUTTLE_REPLY_GLOBAL_GET_BYTES];
    bool managed = call.values[CUTTLE_REPLY_GLOBAL_GET_MANAGED] != 0;
    if (managed_only && !managed) return CUDA_ERROR_NOT_FOUND;
    allocations_add(&(allocation){.base = found, .bytes = count, .kind = managed ? ALLOCATION_MANAGED : ALLOCATION_VARIABLE,
                                  .module = of->id, .flags = managed ? CU_MEM_ATTACH_GLOBAL : 0});
    if (address != NULL) *address = found;
    if (bytes != NULL) *bytes = count;
    return CUDA_SUCCESS;
}
