"""cuLink: PTX texts gathered one after the other, linked to an image that MODULE_LOAD accepts."""

from __future__ import annotations

from cuttle.runtime import results
from cuttle.runtime.modules import link_texts, text_of
from cuttle.runtime.results import CudaError


class Link:
    """One link in the making."""

    def __init__(self, error_log_bytes: int) -> None:
        self.texts: list[tuple[str, bytes]] = []
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

        link = self._find(number)
        try:
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
            return pack_image(link_texts(link.texts).decode("utf-8", "replace"))
        except CuttleError as error:
            raise CudaError(results.INVALID_PTX, error.render()) from error

    def destroy(self, number: int) -> None:
        self._find(number)
        del self._links[number]
