"""Modules, kernels, variables, occupancy, linking."""

from __future__ import annotations

from struct import pack, unpack_from

from cuttle.runtime import results
from cuttle.runtime.kernels import Kernel
from cuttle.runtime.messages import say
from cuttle.runtime.modules import constant_bytes, declared_bytes
from cuttle.runtime.results import CudaError, Reply
from cuttle.runtime.session import Session

LIBRARY = 0x100  # in the kind of MODULE_LOAD: belongs to no context
STATIC_SHARED_LIMIT = 48 << 10
# CUfunction_attribute numbers that can be set.
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
_SETTABLE = range(8, 17)
MAX_THREADS_PER_MULTIPROCESSOR = 2048
MAX_BLOCKS_PER_MULTIPROCESSOR = 32


def _cut(text: str, limit: int) -> bytes:
    return text.encode("utf-8", "replace")[: max(limit - 1, 0)] if limit else b""


def module_load(
    session: Session,
    kind: int,
    objects: int,
    info_log_bytes: int,
    error_log_bytes: int,
    max_registers: int,
    threads_per_block: int,
    optimization_level: int,
    jit_flags: int,
    payload: bytes,
) -> Reply:
    if objects == 0 or len(payload) < 8 * objects:
        raise CudaError(results.INVALID_VALUE)
    sizes = unpack_from(f"<{objects}Q", payload)
    at = 8 * objects
    pieces = []
    for size in sizes:
        pieces.append(payload[at : at + size])
        at += size
    try:
        context = 0 if kind & LIBRARY else session.context
        module = session.modules.load(kind & ~LIBRARY, pieces, context)
    except CudaError as error:
        log = _cut(error.text, error_log_bytes)
        if not error_log_bytes and error.text:
            say(f"a module cannot be loaded:\n{error.text}")
        raise CudaError(error.result, error.text, (0, 0, len(log)), log) from None
    session.kernels.prewarm(module)
    return Reply((module.number, 0, 0))


def module_unload(session: Session, module: int) -> None:
    session.unload(session.modules.find(module))


def kernel_get(session: Session, module: int, payload: bytes) -> Reply:
    kernel = session.kernels.get(session.modules.find(module), payload.decode("utf-8", "replace"))
    shared, local = declared_bytes(kernel.module, kernel.name)
    target = _target_number(kernel)
    layout = b"".join(pack("<II", offset, size) for offset, size in kernel.parameters)
    values = (
        kernel.number,
        len(kernel.parameters),
        kernel.parameter_bytes,
        shared,
        local,
        constant_bytes(kernel.module),
        kernel.maximum_threads,
        _registers(kernel),
        target,
        session.capability[0] * 10 + session.capability[1],
        max(STATIC_SHARED_LIMIT - shared, 0),
        *_cluster(kernel),
        *_required_block(kernel),
        results.INVALID_PTX if kernel.refusal else 0,
    )
    return Reply(values, layout)


def _cluster(kernel: Kernel) -> tuple[int, ...]:
    """Cluster dimensions that the kernel requires (zeros: none), most blocks of a cluster, whether dimensions must be set,
    whether blocks of a launch's grid are clusters (PTX ISA 9.0, 11.7, 11.8)."""
    directives = kernel.directives
    required = directives.get("reqnctapercluster", (0,))
    width, height, depth = (*required, 1, 1)[:3] if required[0] else (0, 0, 0)
    most = directives.get("maxclusterrank", (0,))[0]
    return width, height, depth, most, "explicitcluster" in directives, "blocksareclusters" in directives


def _required_block(kernel: Kernel) -> tuple[int, ...]:
    required = kernel.directives.get("reqntid")
    return (*required, 1, 1)[:3] if required else (0, 0, 0)


def _target_number(kernel: Kernel) -> int:
    for name in kernel.module.index.target:
        digits = "".join(character for character in name if character.isdigit())
        if name.startswith("sm_") and digits:
            return int(digits)
    return 0


def _registers(kernel: Kernel) -> int:
    """There are no registers to count on a processor; programs divide by this number and expect a likely one."""
    limit = kernel.directives.get("maxnreg")
    return limit[0] if limit else 32


def kernel_names(session: Session, module: int) -> Reply:
    names = session.modules.find(module).index.entries
    return Reply((len(names),), b"".join(name.encode() + b"\0" for name in names))


def global_get(session: Session, module: int, payload: bytes) -> tuple[int, int, int]:
    name = payload.decode("utf-8", "replace")
    found = session.modules.find(module).variables.get(name)
    if found is None:
        raise CudaError(results.NOT_FOUND, f"the module has no variable {name}")
    address, size, managed = found
    return address, size, int(managed)


def kernel_prepare(session: Session, kernel: int) -> None:
    """Compiling waits for the first launch, whose block shape it needs. Known failures are told."""
    found = session.kernels.find(kernel)
    errors = [found.refusal, *(image.error for image in found.images.values())]
    error = next((each for each in errors if each), "")
    if not error:
        return
    session.say_once(f"kernel {found.name} cannot run: {error}")
    raise CudaError(results.INVALID_PTX, error)


def function_attribute_set(session: Session, kernel: int, attribute: int, value: int) -> None:
    found = session.kernels.find(kernel)
    if attribute not in _SETTABLE:
        raise CudaError(results.INVALID_VALUE, f"function attribute {attribute} cannot be set")
    if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if value > session.shared_optin:
            raise CudaError(results.INVALID_VALUE, f"{value} bytes of shared memory are more than a block can have")
        found.dynamic_shared_limit = value


def occupancy(session: Session, kernel: int, block_threads: int, dynamic_shared_bytes: int, flags: int) -> int:
    """Blocks of this kernel that a multiprocessor (a worker thread) is said to hold."""
    found = session.kernels.find(kernel)
    if block_threads == 0 or block_threads > 0xFFFF_FFFF:
        raise CudaError(results.INVALID_VALUE)
    if block_threads > found.maximum_threads:
        return 0
    shared = declared_bytes(found.module, found.name)[0] + dynamic_shared_bytes
    rounded = -(-block_threads // 32) * 32
    blocks = min(MAX_THREADS_PER_MULTIPROCESSOR // rounded, MAX_BLOCKS_PER_MULTIPROCESSOR)
    if shared > session.shared_optin:
        return 0
    if shared:
        blocks = min(blocks, (session.shared_optin + 1024) // (shared + 1024))
    return blocks


def link_create(
    session: Session,
    info_log_bytes: int,
    error_log_bytes: int,
    max_registers: int,
    threads_per_block: int,
    optimization_level: int,
    jit_flags: int,
) -> int:
    return session.links.create(info_log_bytes, error_log_bytes)


def link_add(session: Session, link: int, input_type: int, name_bytes: int, payload: bytes) -> Reply:
    name = payload[:name_bytes].decode("utf-8", "replace")
    try:
        session.links.add(link, name, payload[name_bytes:])
    except CudaError as error:
        log = _cut(error.text, session.links.error_log_bytes(link))
        raise CudaError(error.result, error.text, (0, len(log)), log) from None
    return Reply((0, 0))


def link_complete(session: Session, link: int) -> Reply:
    try:
        image = session.links.complete(link)
    except CudaError as error:
        log = _cut(error.text, session.links.error_log_bytes(link))
        raise CudaError(error.result, error.text, (0, len(log), 0), log) from None
    return Reply((0, 0, len(image)), image)


def link_destroy(session: Session, link: int) -> None:
    session.links.destroy(link)
