"""Modules: from the bytes a program hands over to PTX text, its index, and its variables in device memory.

Loading indexes only; bodies are read and compiled when a kernel is first launched (`runtime/kernels.py`). Everything that
imports the parser is imported late: a program that loads no module must not pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from cuttle.abi.kernel_abi_constants import FUNCTION_HANDLE_BASE
from cuttle.device.shared import SharedMemory
from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.device_runtime import provided_texts
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.results import CudaError

if TYPE_CHECKING:
    from cuttle.ptx.ir import Relocation, Variable
    from cuttle.ptx.parser import ModuleIndex

PAGE = 4096
WHOLE_CHECK_BYTES = 256 << 10
# Kinds of MODULE_LOAD requests.
ONE_IMAGE, FATBIN, LINKED_FATBIN = 1, 2, 3

# In the names of NVIDIA's device runtime library, which every `-rdc=true` program is linked with. It serves launches from
# kernels, which are not supported, by calls into the driver; and its functions would be taken for targets of indirect calls.
DEVICE_RUNTIME = b"_cuda_device_runtime_cu_"

_SHARED = re.compile(r"\.shared\s+(?:\.align\s+(\d+)\s+)?(?:\.v[24]\s+)?\.(\w+)\s+([\w$%]+)((?:\s*\[\d*\])*)")
_LOCAL = re.compile(r"\.local\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%]+)((?:\s*\[\d*\])*)")


class Module:
    """A loaded module. `variables` maps names to (address, bytes, managed)."""

    def __init__(self, number: int, context: int, text: bytes, index: ModuleIndex) -> None:
        self.number = number
        self.context = context
        self.text = text
        self.index = index
        self.digest = blake2b(text, digest_size=16).hexdigest()
        self.variables: dict[str, tuple[int, int, bool]] = {}
        self.allocations: list[Allocation] = []
        self.kernels: dict[str, int] = {}  # name → kernel number, of those that were asked for
        self._handles: dict[str, int] | None = None

    def function_handles(self) -> dict[str, int]:
        """Handles of all functions whose address is taken; reads all bodies when first asked."""
        if self._handles is None:
            from cuttle.ptx.address_taken import address_taken
            from cuttle.ptx.parser import parse_module

            names = address_taken(parse_module(self.text))
            self._handles = {name: FUNCTION_HANDLE_BASE | number for number, name in enumerate(names)}
        return self._handles

    def address_of(self, name: str) -> int:
        """Address of a variable or handle of a function, by its name in the PTX text."""
        found = self.variables.get(name)
        if found is not None:
            return found[0]
        resolved = self.index.aliases.get(name, name)
        if resolved in self.index.functions:
            return self.function_handles()[resolved]
        raise KeyError(name)


def texts_of(kind: int, objects: Sequence[bytes], capability: tuple[int, int]) -> list[tuple[str, bytes]]:
    """The PTX texts in what a program loads, each with a name for messages. Raises CuttleError."""
    from cuttle.errors import ContainerError

    if kind != LINKED_FATBIN:
        return [("module", text_of(objects[0], capability))]
    # The linked fat binary of `-rdc=true` holds machine code only; the PTX is in the per-object ones.
    texts = []
    for number, data in enumerate(objects[1:], 1):
        text = text_of(data, capability)
        if DEVICE_RUNTIME not in text:
            texts.append((f"object {number}", text))
    if not texts:
        raise ContainerError("CON-0201", "the linked fat binary names no objects with PTX")
    return texts + provided_texts(texts)


def text_of(data: bytes, capability: tuple[int, int]) -> bytes:
    """The PTX text in one image: PTX, fat binary, linked image of ours. Raises ContainerError."""
    from cuttle.errors import ContainerError
    from cuttle.ptx.containers.choose import choose_ptx
    from cuttle.ptx.containers.elf import elf_bytes, fatbin_sections, read_elf
    from cuttle.ptx.containers.fatbin import read_fatbin
    from cuttle.ptx.containers.image import unpack_image
    from cuttle.ptx.containers.recognise import Kind, recognise

    kind = recognise(data)
    if kind is Kind.FATBIN:
        return choose_ptx(read_fatbin(data).entries, capability).entry.payload()
    if kind is Kind.IMAGE:
        return unpack_image(data)
    if kind is Kind.PTX:
        return data.rstrip(b"\0")
    if kind is Kind.CUBIN:
        raise ContainerError("CON-0201", f"the module is a cubin ({elf_bytes(data)} bytes) without PTX")
    if kind is Kind.HOST_ELF:
        for section in fatbin_sections(data, read_elf(data)):
            return choose_ptx(read_fatbin(section).entries, capability).entry.payload()
    raise ContainerError("CON-0101", f"the module is {kind.value}")


def is_written_text(data: bytes) -> bool:
    """Whether this is plain PTX text of a size that can be read in a moment."""
    from cuttle.ptx.containers.recognise import Kind, recognise

    return len(data) <= WHOLE_CHECK_BYTES and recognise(data) is Kind.PTX


def link_texts(texts: list[tuple[str, bytes]], allow_unresolved: bool = False) -> bytes:
    """One PTX text out of several. Raises PtxError, for unresolved symbols only if they are not allowed."""
    # A lone text declares as `.extern` dynamic shared memory and what every driver provides: linking would only check it.
    if len(texts) == 1 and (allow_unresolved or b".extern" not in texts[0][1]):
        return texts[0][1]
    from cuttle.ptx.link import link_texts as link
    from cuttle.ptx.printer import print_module

    return print_module(link(texts, allow_unresolved=allow_unresolved)).encode()


class ModuleStore:
    """Loads and unloads modules."""

    def __init__(self, shared: SharedMemory, device_memory: DeviceMemory, capability: tuple[int, int]) -> None:
        self.modules: dict[int, Module] = {}
        self._shared = shared
        self._memory = device_memory
        self._capability = capability
        self._next = 1

    def load(self, kind: int, objects: Sequence[bytes], context: int) -> Module:
        """Raises CudaError, with the reason in its text."""
        from cuttle.errors import ContainerError, CuttleError
        from cuttle.ptx.parser import index_module, parse_module

        try:
            # Only kernels that use what is missing fail.
            text = link_texts(texts_of(kind, objects, self._capability), allow_unresolved=True)
            index = index_module(text)
            if kind == ONE_IMAGE and is_written_text(objects[0]):
                # A program that hands over PTX text wants to be told what is wrong with it now, with a log.
                parse_module(text)
        except ContainerError as error:
            result = results.NO_BINARY_FOR_GPU if error.code == "CON-0201" else results.INVALID_IMAGE
            raise CudaError(result, error.render()) from error
        except CuttleError as error:
            raise CudaError(results.INVALID_PTX, error.render()) from error
        module = Module(self._next, context, text, index)
        self._place_variables(module)
        try:
            self._initialise(module)
        except CuttleError as error:
            self._free(module)
            raise CudaError(results.INVALID_PTX, error.render()) from error
        self._next += 1
        self.modules[module.number] = module
        return module

    def unload(self, module: Module) -> None:
        del self.modules[module.number]
        self._free(module)

    def renew(self, module: Module) -> None:
        """Variables as they were after loading."""
        for allocation in module.allocations:
            self._clear(allocation)
        self._initialise(module)

    def find(self, number: int) -> Module:
        module = self.modules.get(number)
        if module is None:
            raise CudaError(results.INVALID_HANDLE, f"no module {number}")
        return module

    def _free(self, module: Module) -> None:
        for allocation in module.allocations:
            self._memory.free(allocation)
        module.allocations.clear()

    def _place_variables(self, module: Module) -> None:
        for managed in (False, True):
            placed: list[tuple[Variable, int]] = []
            size = 0
            for variable in module.index.variables.values():
                if variable.space not in ("global", "const") or variable.managed != managed or not variable.size_bytes:
                    continue
                alignment = max(variable.align, 256 if variable.size_bytes >= 256 else 16)
                at = -(-size // alignment) * alignment
                placed.append((variable, at))
                size = at + variable.size_bytes
            if not placed:
                continue
            kind = memory_kinds.MANAGED if managed else memory_kinds.MODULE
            # Vector code may touch a few bytes behind a variable's end: keep them inside.
            allocation = self._memory.allocate(size + 64, kind, module.context)
            module.allocations.append(allocation)
            self._clear(allocation)
            for variable, at in placed:
                module.variables[variable.name] = (allocation.address + at, variable.size_bytes, managed)

    def _clear(self, allocation: Allocation) -> None:
        """Variables without initialiser are zero; large areas become so without being touched."""
        begin, end = allocation.address, allocation.address + allocation.reserved
        whole_begin, whole_end = -(-begin // PAGE) * PAGE, end // PAGE * PAGE
        if whole_end - whole_begin < 64 * PAGE:
            self._shared.write(begin, bytes(end - begin))
            return
        self._shared.forget(whole_begin, whole_end - whole_begin)
        self._shared.write(begin, bytes(whole_begin - begin))
        self._shared.write(whole_end, bytes(end - whole_end))

    def _initialise(self, module: Module) -> None:
        for name, (address, _, _) in module.variables.items():
            variable = module.index.variables[name]
            if variable.initial is None and not variable.relocations:
                continue
            data = bytearray(variable.initial or bytes(variable.size_bytes))
            for relocation in variable.relocations:
                _relocate(data, relocation, module)
            self._shared.write(address, bytes(data))


def _relocate(data: bytearray, relocation: Relocation, module: Module) -> None:
    from cuttle.errors import PtxError

    try:
        value = module.address_of(relocation.symbol) + relocation.addend
    except KeyError:
        raise PtxError("PTX-0401", f"an initialiser names `{relocation.symbol}`, which is not defined") from None
    if relocation.mask:
        shift = (relocation.mask & -relocation.mask).bit_length() - 1
        value = (value & relocation.mask) >> shift
    value &= (1 << 8 * relocation.size) - 1
    data[relocation.offset : relocation.offset + relocation.size] = value.to_bytes(relocation.size, "little")


def declared_bytes(module: Module, name: str) -> tuple[int, int]:
    """(static shared, local) bytes that a kernel declares, read off its text without parsing it."""
    from cuttle.ptx.ir import TYPE_BITS

    function = module.index.functions[module.index.aliases.get(name, name)]
    body = module.index.source.text[function.body_start : function.body_end]

    def total(pattern: re.Pattern[str]) -> int:
        size = 0
        for alignment, type_name, _, dimensions in pattern.findall(body):
            element = TYPE_BITS.get(type_name, 8) // 8
            count = 1
            for dimension in re.findall(r"\d+", dimensions):
                count *= int(dimension)
            if "[]" in dimensions.replace(" ", ""):
                count = 0
            step = int(alignment or element)
            size = -(-size // step) * step + element * count
        return size

    shared = total(_SHARED)
    for variable in module.index.variables.values():
        if variable.space == "shared" and variable.size_bytes and re.search(re.escape(variable.name) + r"\b", body):
            shared = -(-shared // variable.align) * variable.align + variable.size_bytes
    return shared, total(_LOCAL)


def constant_bytes(module: Module) -> int:
    """Bytes of the constant variables of a module: every one of its kernels is given them all."""
    size = 0
    for variable in module.index.variables.values():
        if variable.space == "const":
            size = -(-size // variable.align) * variable.align + variable.size_bytes
    return size
