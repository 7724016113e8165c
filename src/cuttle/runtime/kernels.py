"""Kernels: what a program launches, and the images compiled for it.

An image is specialised on the block shape; a kernel that is launched with many shapes gets one image for any shape. A
launch whose image is not there yet is held back by its stream until the compilation is over.

An image has two tiers. The fast one is compiled first, with hardly any of LLVM's optimisation, and launches begin with it;
a while later a compiler in the background makes the optimised one, which later launches get. Both give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from json import loads
from struct import pack, unpack_from
from time import monotonic
from typing import TYPE_CHECKING, Any

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.device.base import Device
from cuttle.device.shared import SharedMemory, allow_large_files
from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.cache import KernelCache, compiler_fingerprint, open_default
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.modules import Module
from cuttle.runtime.results import CudaError

if TYPE_CHECKING:
    from cuttle.runtime.workers import CompileWorkers

Shape = tuple[int, int, int]

MAXIMUM_SHAPES = 6
PARAMETERS_AT = wire.RECORD_LAUNCH_BYTES  # in a LAUNCH record
SMALL_INDEX = 2**31 - 1  # bound on grid * block that index proofs may assume

USUAL_STACK_BYTES = 16 << 10  # as lower/cpu/options.py: what images have without being asked

WANTED, COMPILING, READY, FAILED = range(4)

FAST, OPTIMISED = 0, 2  # LLVM's level in each tier
# Programs that end before get no optimised code, and no background work either.
OPTIMISE_AFTER_SECONDS = 0.15
BACKGROUND_NICENESS = 10


class Image:
    """A kernel compiled for a block shape. `index` is its number in the executor of `epoch`, `retired` its earlier ones
    there: launches that were queued before a better tier came still use them."""

    __slots__ = (
        "aligned_bits", "checked", "dropped", "error", "epoch", "file", "index", "local_bytes", "retired", "shape", "small",
        "stack_bytes", "state", "symbol_names", "symbols",
    )  # fmt: skip

    def __init__(self, shape: Shape | None, small: bool, stack_bytes: int = 0, checked: bool = False) -> None:
        self.shape = shape
        self.checked = checked  # it looks at all addresses, whatever the parameters are
        self.aligned_bits = 0  # of a launch's parameters, as one little-endian number: must be 0 for the image
        self.stack_bytes = stack_bytes  # asked for by a stack limit; 0 for the usual room
        self.small = small  # whether index proofs hold: grid * block fits 31 bits
        self.dropped = False  # its module is gone
        self.retired: list[int] = []
        self.state = WANTED
        self.error = ""
        self.file = -1  # descriptor of the image file: it outlives an eviction from the cache
        self.index = -1
        self.epoch = -1
        self.local_bytes = 0
        self.symbol_names: list[str] = []
        self.symbols: Allocation | None = None


class Kernel:
    """An entry of a module."""

    def __init__(self, number: int, module: Module, name: str) -> None:
        self.number = number
        self.module = module
        self.name = name
        self.images: dict[tuple[Shape | None, bool, int, bool], Image] = {}
        self.dynamic_shared_limit = 0
        header = module.index.functions[module.index.aliases.get(name, name)].header
        self.parameters = [(parameter.offset, parameter.size_bytes) for parameter in header.parameters]
        self.parameter_bytes = header.parameter_bytes
        self.directives = header.directives
        self._refusal: str | None = None

    @property
    def refusal(self) -> str:
        """Why no launch can succeed, as far as a look at the kernel's text tells; else empty."""
        if self._refusal is None:
            from cuttle.ptx.refusals import refusal_of

            error = refusal_of(self.module.index, self.name)
            self._refusal = error.render() if error is not None else ""
        return self._refusal

    @property
    def maximum_threads(self) -> int:
        """Threads per block that the kernel's directives allow."""
        for directive in ("reqntid", "maxntid"):
            sizes = self.directives.get(directive)
            if sizes:
                product = 1
                for size in sizes:
                    product *= size
                return min(product, 1024)
        return 1024


class KernelStore:
    """Kernels by number, their images, the cache and the compile workers."""

    def __init__(self, shared: SharedMemory, device: Device, device_memory: DeviceMemory) -> None:
        self.kernels: dict[int, Kernel] = {}
        self.epoch = 0
        # LAUNCH records seen before, by their bytes from target to flags: image index in the executor, the end of the
        # parameters that count in the record, and their bits that must be 0 (`Image.aligned_bits`).
        self.ready_launches: dict[bytes, tuple[int, int, int]] = {}
        self.stack_bytes = 0  # of images for a stack limit beyond the usual room; 0 for all others
        self.on_change: Callable[[], None] = lambda: None
        self._shared = shared
        self._device = device
        self._memory = device_memory
        self._next = 1
        self._cache: KernelCache | None = None
        self._workers: CompileWorkers | None = None
        self._optimisers: CompileWorkers | None = None
        self._to_optimise: list[tuple[float, Kernel, Image]] = []  # in order of time
        self._specialise = knobs.SPECIALISE.switch()
        _allow_many_files()
        self._options: dict[str, Any] = {
            "affine": knobs.AFFINE.switch(),
            "plain": knobs.PLAIN.switch(),
            "exact_nan": knobs.EXACT_NAN.switch(),
            "fast_math": knobs.FAST_MATH.switch(),
        }
        self._tiers = knobs.TIERS.choice()
        if self._options["plain"]:
            # One image for any block shape and size, and nothing to optimise.
            self._tiers, self._specialise = "fast", False
        if device.code_options:
            # One tier, and no choices of the CPU's code.
            self._options = {**device.code_options, "exact_nan": knobs.EXACT_NAN.switch()}
            self._tiers = "optimised"

    # Kernels

    def get(self, module: Module, name: str) -> Kernel:
        number = module.kernels.get(name)
        if number is not None:
            return self.kernels[number]
        index = module.index
        entry = index.functions.get(index.aliases.get(name, name))
        if entry is None or not entry.is_defined or not entry.header.is_entry:
            raise CudaError(results.NOT_FOUND, f"the module has no kernel {name}")
        kernel = Kernel(self._next, module, name)
        self._next += 1
        self.kernels[kernel.number] = kernel
        module.kernels[name] = kernel.number
        return kernel

    def find(self, number: int) -> Kernel:
        kernel = self.kernels.get(number)
        if kernel is None:
            raise CudaError(results.INVALID_HANDLE, f"no kernel {number}")
        return kernel

    def forget_module(self, module: Module) -> None:
        """Its kernels are gone, their images leave the executor."""
        for number in module.kernels.values():
            kernel = self.kernels.pop(number)
            for image in kernel.images.values():
                image.dropped = True
                if image.epoch == self.epoch and image.index >= 0:
                    for index in (*image.retired, image.index):
                        self._device.unload(index)
                if image.symbols is not None:
                    self._memory.free_later(image.symbols, self._device.position)
                if image.file >= 0:
                    os.close(image.file)
                image.file = -1
        self.ready_launches.clear()

    def set_stack_limit(self, limit_bytes: int) -> None:
        """Launches from now on take images with stacks of that size: one image for each power of two."""
        wanted = 0 if limit_bytes <= USUAL_STACK_BYTES else 1 << (limit_bytes - 1).bit_length()
        if wanted != self.stack_bytes:
            self.stack_bytes = wanted
            self.ready_launches.clear()

    def forget_executor(self) -> None:
        """A fresh executor has no images."""
        self.epoch += 1
        self.ready_launches.clear()
        for kernel in self.kernels.values():
            for image in kernel.images.values():
                image.retired.clear()

    # Launches

    def prepare(self, record: bytes) -> tuple[Image | None, str]:
        """The image a LAUNCH record needs, loaded; or None and an error, or None and "" while it is being compiled."""
        number, *sizes = unpack_from("<I3I3I", record, wire.RECORD_LAUNCH_TARGET_AT)
        kernel = self.kernels.get(number)
        if kernel is None:
            return None, f"a launch names kernel {number}, which is not there"
        grid, block = tuple(sizes[:3]), (sizes[3], sizes[4], sizes[5])
        small = all(blocks * threads <= SMALL_INDEX for blocks, threads in zip(grid, block, strict=True))
        image = self._image_for(kernel, block, small, checked=False)
        error = self._make_ready(kernel, image)
        if error is not None:
            return None, error
        end = PARAMETERS_AT + (image.aligned_bits.bit_length() + 7) // 8
        if int.from_bytes(record[PARAMETERS_AT:end], "little") & image.aligned_bits:
            # Seldom, and mostly about to fail: the image that looks at every access says where.
            image = self._image_for(kernel, block, small, checked=True)
            error = self._make_ready(kernel, image)
            return (image, "") if error is None else (None, error)
        key = record[wire.RECORD_LAUNCH_TARGET_AT : wire.RECORD_LAUNCH_CLUSTER_AT]
        self.ready_launches[key] = image.index, end, image.aligned_bits
        if len(self.ready_launches) > 4096:
            self.ready_launches.clear()
        return image, ""

    def _make_ready(self, kernel: Kernel, image: Image) -> str | None:
        """None when the image is loaded; an error, or "" while it is being compiled."""
        if image.state == WANTED:
            self._want(kernel, image)
        if image.state == FAILED:
            return f"kernel {kernel.name} cannot run: {image.error}"
        if image.state != READY:
            return ""
        if image.epoch != self.epoch:
            error = self._load(kernel, image)
            if error:
                image.state, image.error = FAILED, error
                return f"kernel {kernel.name} cannot run: {error}"
        return None

    def _image_for(self, kernel: Kernel, block: Shape, small: bool, *, checked: bool) -> Image:
        shape: Shape | None = block if self._specialise else None
        key = (shape, small, self.stack_bytes, checked)
        image = kernel.images.get(key)
        if image is None:
            if shape is not None and len(kernel.images) >= MAXIMUM_SHAPES:
                shape = None
                key = (shape, small, self.stack_bytes, checked)
                image = kernel.images.get(key)
            if image is None:
                image = kernel.images[key] = Image(shape, small, self.stack_bytes, checked)
        return image

    # Compilation

    @property
    def cache(self) -> KernelCache:
        if self._cache is None:
            self._cache = open_default(compiler_fingerprint())
        return self._cache

    @property
    def workers(self) -> CompileWorkers:
        if self._workers is None:
            from cuttle.runtime.workers import CompileWorkers

            limit = knobs.COMPILE_WORKERS.whole() or min(4, max(1, len(os.sched_getaffinity(0)) - 1))
            self._workers = CompileWorkers(limit, knobs.COMPILE_TIMEOUT.seconds())
        return self._workers

    def prewarm(self, module: Module) -> None:
        """Called when a module was loaded: nothing of it in the cache means that compiling is near."""
        if not self.cache.knows(module.digest):
            self.workers.prewarm(module.digest, module.text)

    def _want(self, kernel: Kernel, image: Image) -> None:
        """Finds an image in the cache, the best tier first, or has it compiled."""
        if self._tiers != "fast" and self._find(kernel, image, OPTIMISED):
            return
        tier = OPTIMISED if self._tiers == "optimised" else FAST
        if tier == FAST and self._find(kernel, image, FAST):
            self._optimise_later(kernel, image)
            return
        image.state = COMPILING
        self._compile(self.workers, kernel, image, tier)

    def _compile_options(self, image: Image, tier: int) -> dict[str, Any]:
        options = {**self._options, "optimization": tier, "block_shape": image.shape}
        if not image.small and "affine" in options:
            # No proof holds when an index may pass 2^31: such launches are rare and take the slow way.
            options["affine"] = False
        if image.stack_bytes:
            options["stack_bytes"] = image.stack_bytes
        if image.checked:
            options["check_alignment"] = True
        return options

    def _key(self, kernel: Kernel, image: Image, tier: int) -> str:
        options = self._compile_options(image, tier)
        return self.cache.key(kernel.module.digest, kernel.name, repr(sorted(options.items())))

    def _find(self, kernel: Kernel, image: Image, tier: int) -> bool:
        """Takes a tier from the cache, if it is there."""
        path = self.cache.find(kernel.module.digest, self._key(kernel, image, tier))
        if path is not None:
            try:
                self._finish(image, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                return True
            except (OSError, ValueError):
                pass  # gone or unreadable by now: compile
        return False

    def _compile(self, workers: CompileWorkers, kernel: Kernel, image: Image, tier: int) -> None:
        module = kernel.module

        def finished(data: bytes, error: str, seconds: float) -> None:
            if image.dropped:
                return
            if error or not data:
                error = error or "the compiler gave no image"
            else:
                try:
                    stored = self.cache.store(module.digest, self._key(kernel, image, tier), data)
                    self._finish(image, _open_image(stored, data))
                    if tier == FAST:
                        self._optimise_later(kernel, image)
                    return
                except (OSError, ValueError) as problem:
                    error = f"its image cannot be used: {problem}"
            if image.state != READY:  # without its optimised tier a kernel runs on as it is
                image.state, image.error = FAILED, error  # the launch that waits for it says so

        workers.compile(module.digest, module.text, kernel.name, self._compile_options(image, tier), finished)

    # The second tier

    def _optimise_later(self, kernel: Kernel, image: Image) -> None:
        if self._tiers == "both":
            self._to_optimise.append((monotonic() + OPTIMISE_AFTER_SECONDS, kernel, image))

    def _optimise(self) -> None:
        """Has those compiled again whose time has come."""
        now = monotonic()
        while self._to_optimise and self._to_optimise[0][0] <= now:
            _, kernel, image = self._to_optimise.pop(0)
            if image.dropped:
                continue
            if self._optimisers is None:
                from cuttle.runtime.workers import CompileWorkers

                self._optimisers = CompileWorkers(1, knobs.COMPILE_TIMEOUT.seconds(), BACKGROUND_NICENESS)
            self._compile(self._optimisers, kernel, image, OPTIMISED)

    def _finish(self, image: Image, file: int) -> None:
        """Makes a compiled file what the next launches run."""
        metadata = _read_metadata(file)
        if image.file >= 0:
            os.close(image.file)
        if image.epoch == self.epoch:
            # Launches that are queued use it: it stays until the module goes.
            image.retired.append(image.index)
            image.epoch = -1
            self.ready_launches.clear()
        image.file = file
        image.symbol_names = list(metadata.get("symbols", []))
        image.local_bytes = int(metadata.get("local_bytes", 0))
        image.aligned_bits = sum(int(bits) << 8 * int(place) for place, bits in metadata.get("aligned", []))
        image.state = READY

    def _load(self, kernel: Kernel, image: Image) -> str:
        """Loads an image into the executor; returns an error text or ""."""
        if image.symbols is None and image.symbol_names:
            try:
                addresses = [kernel.module.address_of(name) for name in image.symbol_names]
            except KeyError as missing:
                return f"it uses {missing}, which has no address"
            allocation = self._memory.allocate(8 * len(addresses), memory_kinds.INTERNAL, kernel.module.context)
            self._shared.write(allocation.address, pack(f"<{len(addresses)}Q", *addresses))
            image.symbols = allocation
        symbols = image.symbols.address if image.symbols is not None else 0
        # By way of our own descriptor: the file may be evicted from the cache, or never have had a name.
        # /proc may count processes otherwise than we do: in a PID namespace without a /proc of its own.
        image.index = self._device.load(f"/proc/{os.readlink('/proc/self')}/fd/{image.file}", symbols)
        image.epoch = self.epoch
        return ""

    # The device process's loop

    @property
    def _pools(self) -> list[CompileWorkers]:
        return [pool for pool in (self._workers, self._optimisers) if pool is not None]

    def descriptors(self) -> list[int]:
        return [descriptor for pool in self._pools for descriptor in pool.descriptors()]

    def poll_within_ms(self) -> int:
        """Milliseconds after which `poll` must be called even if no descriptor is readable; -1 is for ever."""
        if any(pool.sending for pool in self._pools):
            return 5
        busy = any(pool.busy for pool in self._pools)
        if not self._to_optimise:
            return 100 if busy else -1
        left = max(1, int((self._to_optimise[0][0] - monotonic()) * 1000) + 1)
        return min(left, 100) if busy else left

    def poll(self) -> bool:
        """Takes finished compilations; returns whether there were any."""
        if self._to_optimise:
            self._optimise()
        return any([pool.poll() for pool in self._pools])

    def close(self) -> None:
        for pool in self._pools:
            pool.close()
        self._workers = self._optimisers = None


def _allow_many_files() -> None:
    """Every image is an open file, and the usual limit is 1024 of them."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 1 << 16)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            pass


def _open_image(stored: str | None, data: bytes) -> int:
    if stored is not None:
        try:
            return os.open(stored, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass
    descriptor = os.memfd_create("cuttle-image")
    before = allow_large_files()
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    allow_large_files(before)
    return descriptor


def _read_metadata(descriptor: int) -> dict[str, Any]:
    """Metadata of an image file. Raises ValueError if it is none."""
    head = os.pread(descriptor, 16, 0)
    if len(head) < 16 or head[:8] != b"CUTTLEI1":
        raise ValueError("not an image")
    (size,) = unpack_from("<Q", head, 8)
    if size > 64 << 20:
        raise ValueError("damaged metadata")
    metadata = loads(os.pread(descriptor, size, 48))
    if not isinstance(metadata, dict):
        raise ValueError("damaged metadata")
    return metadata
