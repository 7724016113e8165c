"""cuLink: PTX texts gathered one after the other, linked to an image that MODULE_LOAD accepts."""

from __future__ import annotations

from cuttle.runtime import results
from cuttle.runtime.device_runtime import provided_texts
from cuttle.runtime.modules import DEVICE_RUNTIME, link_texts, text_of
from cuttle.runtime.results import CudaError


class Link:
    """One link in the making."""

    def __init__(self, error_log_bytes: int) -> None:
        self.texts: list[tuple[str, bytes]] = []
        self.library: list[tuple[str, bytes]] = []  # members of archives: linked if something needs them
        self.error_log_bytes = error_log_bytes


class LinkStore:
    """Links by number."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._capability = capability
        self._links: dict[int, Link] = {}
        self._next = 1

    def create(self, info_log_bytes: int, error_log_bytes: int) -> int:
        number = self._next
        self._next += 1
        self._links[number] = Link(error_log_bytes)
        return number

    def _find(self, number: int) -> Link:
        link = self._links.get(number)
        if link is None:
            raise CudaError(results.INVALID_HANDLE, f"no link {number}")
        return link

    def error_log_bytes(self, number: int) -> int:
        return self._find(number).error_log_bytes

    def add(self, number: int, name: str, data: bytes) -> None:
        """Raises CudaError with the reason in its text."""
        from cuttle.errors import ContainerError
        from cuttle.ptx.containers.recognise import Kind, recognise

        link = self._find(number)
        try:
            if recognise(data) is Kind.ARCHIVE:
                link.library.extend(_library_texts(name, data, self._capability))
                return
            link.texts.append((name or f"input {len(link.texts) + 1}", text_of(data, self._capability)))
        except ContainerError as error:
            raise CudaError(results.INVALID_IMAGE, error.render()) from error

    def complete(self, number: int) -> bytes:
        from cuttle.errors import CuttleError
        from cuttle.ptx.containers.image import pack_image

        link = self._find(number)
        if not link.texts:
            raise CudaError(results.INVALID_VALUE, "nothing was added to the link")
        try:
            texts = link.texts + provided_texts(link.texts)
            texts += _needed(texts, link.library)
            return pack_image(link_texts(texts).decode("utf-8", "replace"))
        except CuttleError as error:
            raise CudaError(results.INVALID_PTX, error.render()) from error

    def destroy(self, number: int) -> None:
        self._find(number)
        del self._links[number]


def _library_texts(name: str, data: bytes, capability: tuple[int, int]) -> list[tuple[str, bytes]]:
    """PTX of the members that have any; without NVIDIA's device runtime, whose place `device_runtime.py` takes."""
    from cuttle.errors import ContainerError
    from cuttle.ptx.containers.archive import members

    texts = []
    for member in members(data):
        try:
            text = text_of(bytes(member.data), capability)
        except ContainerError:
            continue
        if DEVICE_RUNTIME not in text:
            texts.append((f"{name or 'library'}({member.name})", text))
    return texts


def _needed(texts: list[tuple[str, bytes]], library: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The library members that define what is missing, and what is missing then, in the library's order."""
    from cuttle.ptx.ir import Module
    from cuttle.ptx.link import unresolved_symbols
    from cuttle.ptx.parser import parse_module

    if not library:
        return []

    def defined(module: Module) -> set[str]:
        names = {name for name, function in module.functions.items() if function.statements is not None}
        names.update(name for name, variable in module.variables.items() if variable.linkage not in ("", "extern"))
        return names | set(module.aliases)

    modules = [parse_module(text, name) for name, text in texts]
    known = set[str]().union(*map(defined, modules))
    missing = set[str]().union(*map(unresolved_symbols, modules)) - known
    candidates = {number: parse_module(text, name) for number, (name, text) in enumerate(library)}
    taken: list[int] = []
    while found := [number for number, module in candidates.items() if missing & defined(module)]:
        module = candidates.pop(found[0])
        taken.append(found[0])
        known |= defined(module)
        missing = (missing | set(unresolved_symbols(module))) - known
    return [library[number] for number in sorted(taken)]
