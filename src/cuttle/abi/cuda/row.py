"""Shape of a driver function's row."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its C declaration and how it travels.

    `kind`: `in` (scalar or handle by value), `in struct`, `out` (scalar, handle or struct through a pointer), `string`,
    `void *` (raw memory: never marshalled by generated code).
    """

    name: str
    type: str
    kind: str


@dataclass(frozen=True, slots=True)
class Function:
    """One exported driver function.

    `name` is the exported symbol, `base` what cuGetProcAddress is asked for, `version` the CUDA version in which this
    prototype appeared; `per_thread` is the suffix of its variant for the per-thread default stream ("" if it has none).

    `route`: `local` answered in the client (hand-written C), `async` a ring record (hand-written C), `sync` a request that
    generated C marshals and `libs/cuda/<noun>.py` answers, `todo` not there yet (CUDA_ERROR_NOT_SUPPORTED, and
    cuGetProcAddress does not find it).
    """

    name: str
    base: str
    version: int
    per_thread: str
    per_thread_version: int
    route: str
    declaration: str

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        if self.declaration == "void":
            return ()
        return tuple(_parameter(text.strip()) for text in _split(self.declaration))

    @property
    def stream_parameter(self) -> str | None:
        """The parameter that names the stream, for the per-thread variants."""
        for parameter in self.parameters:
            if parameter.type == "CUstream":
                return parameter.name
        return None


def F(name: str, base: str, version: int, per_thread: str, per_thread_version: int, route: str, declaration: str) -> Function:
    return Function(name, base, version, per_thread, per_thread_version, route, declaration)


def _split(declaration: str) -> list[str]:
    parts, depth = [""], 0
    for character in declaration:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"(.*?)(\w+)(\[\d*\])?", text)
    assert match is not None, text
    type_text, name, array = match[1].strip(), match[2], match[3]
    if array:
        type_text += " *"
    if "*" not in type_text:
        kind = "in"
    elif re.fullmatch(r"(const )?void \*", type_text):
        kind = "void *"
    elif type_text == "const char *":
        kind = "string"
    elif type_text.startswith("const"):
        kind = "in struct"
    else:
        kind = "out"
    return Parameter(name, type_text, kind)
