"""One program's GPU: everything the device process keeps for it.

What is only needed by programs that use it (modules, graphs, textures) is made when first asked for: start-up time is
the first thing a user notices.
"""

from __future__ import annotations

from functools import cached_property

from cuttle.abi import wire_layout as wire
from cuttle.device.base import Device, Fault
from cuttle.device.shared import SharedMemory
from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.messages import say
from cuttle.runtime.pools import Pools
from cuttle.runtime.results import CudaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cuttle.runtime.captures import Captures
    from cuttle.runtime.graphs import GraphStore
    from cuttle.runtime.kernels import KernelStore
    from cuttle.runtime.linking import LinkStore
    from cuttle.runtime.modules import Module, ModuleStore
    from cuttle.runtime.streams import StreamOrder
    from cuttle.runtime.textures import TextureStore
    from cuttle.runtime.virtual_memory import VirtualMemory

DEFAULT_HEAP_BYTES = 8 << 20
DEFAULT_STACK_BYTES = 1024


class Session:
    """The state of one connection. `order` is set by the dispatcher."""

    order: StreamOrder

    def __init__(
        self,
        shared: SharedMemory,
        device: Device,
        budget: int,
        capability: tuple[int, int],
        workers: int,
        shared_optin: int = 48 << 10,
    ) -> None:
        self.shared = shared
        self.device = device
        self.budget = budget
        self.capability = capability
        self.worker_count = workers
        self.shared_optin = shared_optin  # bytes of shared memory that a block can have
        self.memory = DeviceMemory(shared, budget, device.finished, device.cover)
        self.pools = Pools(self.memory)
        self.sticky = 0
        # Of the request that is being served.
        self.context = 0
        self.thread = 0
        self.heap: Allocation | None = None
        self._old_heaps: list[Allocation] = []
        self.heap_bytes = DEFAULT_HEAP_BYTES
        self.stack_bytes = DEFAULT_STACK_BYTES
        self.limits: dict[int, int] = {}
        self._refusals: set[str] = set()  # said already

    @cached_property
    def modules(self) -> ModuleStore:
        from cuttle.runtime.modules import ModuleStore

        return ModuleStore(self.shared, self.memory, self.capability)

    @cached_property
    def kernels(self) -> KernelStore:
        from cuttle.runtime.kernels import KernelStore

        store = KernelStore(self.shared, self.device, self.memory)
        store.set_stack_limit(self.stack_bytes)
        return store

    @cached_property
    def graphs(self) -> GraphStore:
        from cuttle.runtime.graphs import GraphStore

        return GraphStore()

    @cached_property
    def captures(self) -> Captures:
        from cuttle.runtime.captures import Captures

        return Captures(self.graphs)

    @cached_property
    def textures(self) -> TextureStore:
        from cuttle.runtime.textures import TextureStore

        return TextureStore(self.shared, self.memory)

    @cached_property
    def links(self) -> LinkStore:
        from cuttle.runtime.linking import LinkStore

        return LinkStore(self.capability)

    @cached_property
    def virtual_memory(self) -> VirtualMemory:
        from cuttle.runtime.virtual_memory import VirtualMemory

        return VirtualMemory(self.memory)

    def has(self, name: str) -> bool:
        """Whether a part that is made late has been made."""
        return name in self.__dict__

    # The executor

    def start_device(self) -> None:
        """The executor with its heap; raises DeviceLost."""
        if self.heap is None:
            try:
                self.heap = self.memory.allocate(self.heap_bytes, memory_kinds.INTERNAL, alignment=4096)
            except CudaError:
                self.heap = None  # device malloc will answer null
        self.publish_limits()
        self.device.start()

    def publish_limits(self) -> None:
        heap = self.heap
        self.device.set_limits(heap.address if heap else 0, heap.reserved if heap else 0, self.stack_bytes)
        if self.has("kernels"):
            self.kernels.set_stack_limit(self.stack_bytes)

    def set_heap_bytes(self, size: int) -> None:
        """Takes effect for a heap that no kernel has used yet; raises OUT_OF_MEMORY.

        The executor opens the heap at the first device malloc and stays with it, so one that it may know is kept.
        """
        allocation = self.memory.allocate(size, memory_kinds.INTERNAL, alignment=4096)
        if self.heap is not None:
            if self.device.running:
                self._old_heaps.append(self.heap)
            else:
                self.memory.free(self.heap)
        self.heap = allocation
        self.heap_bytes = size
        self.publish_limits()

    def _free_heaps(self) -> None:
        """The executor is gone."""
        for heap in (*self._old_heaps, *((self.heap,) if self.heap is not None else ())):
            self.memory.free(heap)
        self._old_heaps.clear()
        self.heap = None

    # Errors that stay

    def poison(self, result: int, text: str) -> None:
        """The context is lost: nothing completes any more, every call answers this error."""
        if self.sticky:
            return
        self.sticky = result
        line = text.encode("utf-8", "replace")[:1000]
        at = wire.STATUS_ERROR_TEXT_AT
        self.shared.status.bytes[at : at + len(line) + 1] = line + b"\0"
        self.shared.status.u32[wire.STATUS_STICKY_ERROR_AT // 4] = result
        self.order.clear()
        say(text)
        self._wake_waiters()

    def refuse_launch(self, result: int, text: str) -> None:
        """One launch does not happen; the next call that waits answers why, and everything else goes on."""
        word = wire.STATUS_LAUNCH_ERROR_AT // 4
        if not self.shared.status.u32[word]:
            self.shared.status.u32[word] = result
        self.say_once(text)

    def say_once(self, text: str) -> None:
        """Tells the user why a kernel cannot run: once, however often it is launched."""
        if text not in self._refusals:
            self._refusals.add(text)
            say(text)

    def device_ended(self, fault: Fault) -> None:
        text, lines = fault.text, list(fault.more)
        if fault.address >= 0:
            from cuttle.runtime.whereabouts import whereabouts

            found = whereabouts(self.memory, fault.address)
            text += f" ({found.text})"
            lines.append(f"  hint: {found.hint}")
        self.poison(fault.result, "\n".join((text, *lines)))
        if self.has("kernels"):
            self.kernels.forget_executor()
        self.memory.settle_all()

    def _wake_waiters(self) -> None:
        """Waiting threads look at the sticky error on their own every 20 ms; this only saves them that time."""
        word = wire.STATUS_COMPLETION_WORD_AT // 4
        self.shared.status.u32[word] = (self.shared.status.u32[word] + 1) & 0xFFFF_FFFF

    def reset(self, context: int) -> None:
        """Destroys what belongs to a context. A lost context comes back to life with a fresh executor.

        Raises INVALID_CONTEXT for number 0, which is nobody's context: the heap and libraries' variables stand under it.
        """
        if not context:
            raise CudaError(results.INVALID_CONTEXT, "0 is no context")
        if self.sticky:
            self.device.reset()
            self.order.clear()
            if self.has("kernels"):
                self.kernels.forget_executor()
            self.memory.settle_all()
            self._free_heaps()
        if self.has("modules"):
            for module in list(self.modules.modules.values()):
                if module.context == context:
                    self.unload(module)
                elif module.context == 0:
                    self.modules.renew(module)
        if self.has("captures"):
            self.captures.clear()
        if self.has("textures"):
            self.textures.forget_context(context)
        self.pools.forget_context(context)
        for allocation in self.memory.of_context(context):
            self.memory.free_later(allocation, self.device.position)
        self.heap_bytes = DEFAULT_HEAP_BYTES
        self.stack_bytes = DEFAULT_STACK_BYTES
        self.limits.clear()
        self.shared.status.u32[wire.STATUS_LAUNCH_ERROR_AT // 4] = 0
        if self.sticky:
            self.memory.settle_all()
            self.sticky = 0
            self.shared.status.bytes[wire.STATUS_ERROR_TEXT_AT] = 0
            self.shared.status.u32[wire.STATUS_STICKY_ERROR_AT // 4] = 0

    def unload(self, module: Module) -> None:
        if self.has("kernels"):
            self.kernels.forget_module(module)
        self.modules.unload(module)

    def close(self) -> None:
        """The program is gone."""
        if self.has("kernels"):
            self.kernels.close()
        self.device.reset()


def require_healthy(session: Session) -> None:
    """Raises the sticky error, if there is one."""
    if session.sticky:
        raise CudaError(session.sticky)
