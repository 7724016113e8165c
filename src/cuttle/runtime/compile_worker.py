"""A compile worker: `python -m cuttle.runtime.compile_worker IN OUT PARENT NICENESS` (IN, OUT: inherited pipe ends).

Messages in both directions: u32 bytes of a JSON header, u32 bytes of data, then both. A request's header names `number`,
`digest` (of the module), `kernel`, `options`; its data is the PTX text, or empty if this worker has seen the module. The
answer's data is the image file; or the header has `error`. A request without `kernel` only brings a module.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuttle.ptx.ir import Function, Module
    from cuttle.ptx.parser import ModuleIndex


def read_exactly(descriptor: int, size: int) -> bytes:
    """Raises EOFError when the other side is gone."""
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_message(descriptor: int, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    message = memoryview(pack("<II", len(text), len(data)) + text + data)
    while message:
        message = message[os.write(descriptor, message) :]


class Compiler:
    """Modules seen so far. Bodies are read when a kernel needs them: a library may hold thousands."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}
        self._indices: dict[str, ModuleIndex] = {}
        self._bodies: dict[str, dict[str, Function]] = {}
        self._whole: dict[str, Module] = {}

    def bring(self, digest: str, text: bytes) -> None:
        if text:
            self._texts[digest] = text

    def _module(self, digest: str, kernel: str) -> Module:
        """The module with the bodies that the kernel may reach; with all, if functions are called by address."""
        from cuttle.ptx.ir import Module
        from cuttle.ptx.parser import index_module, parse_function, parse_module

        if digest in self._whole:
            return self._whole[digest]
        index = self._indices.get(digest)
        if index is None:
            index = self._indices[digest] = index_module(self._texts[digest])
        bodies = self._bodies.setdefault(digest, {})
        wanted, seen = [index.aliases.get(kernel, kernel)], set()
        while wanted:
            name = wanted.pop()
            entry = index.functions.get(name)
            if name in seen or entry is None or not entry.is_defined:
                continue
            seen.add(name)
            if name not in bodies:
                bodies[name] = parse_function(index, name)
            called = called_by_name(bodies[name], index)
            if called is None:
                self._whole[digest] = parse_module(self._texts[digest])
                return self._whole[digest]
            wanted += called
        functions = {name: bodies[name] if name in seen else entry.header for name, entry in index.functions.items()}
        return Module(
            index.version, index.target, index.address_size, dict(index.variables), functions, dict(index.files),
            dict(index.aliases),
        )  # fmt: skip

    def compile(self, digest: str, kernel: str, options: dict[str, Any]) -> bytes:
        """The image file of a kernel. Raises CuttleError."""
        module = self._module(digest, kernel)
        refuse_stub(module, kernel)
        shape = options.pop("block_shape")
        options["block_shape"] = None if shape is None else tuple(shape)
        return compile_amdgpu(module, kernel, options) if "target" in options else compile_cpu(module, kernel, options)


def compile_cpu(module: Module, kernel: str, options: dict[str, Any]) -> bytes:
    from cuttle.lower.cpu.compile_kernel import compile_kernel
    from cuttle.lower.cpu.options import CompileOptions

    image: bytes = compile_kernel(module, kernel, CompileOptions(**options)).file_bytes
    return image


def compile_amdgpu(module: Module, kernel: str, options: dict[str, Any]) -> bytes:
    from cuttle.lower.amdgpu.compile_kernel import compile_kernel
    from cuttle.lower.amdgpu.options import AmdgpuOptions
    from cuttle.lower.cpu.image_file import pack_image

    compiled = compile_kernel(module, kernel, AmdgpuOptions(**options))
    return pack_image(compiled.metadata, compiled.code_object)


def called_by_name(function: Function, index: ModuleIndex) -> list[str] | None:
    """Functions that a body calls by name; None if it calls one by its address, or takes one's address."""
    from cuttle.ptx.address_taken import symbol_names
    from cuttle.ptx.ir import Instruction, Symbol

    called = []
    for statement in function.statements or ():
        if not isinstance(statement, Instruction):
            continue
        if statement.call is not None:
            if not isinstance(statement.call.callee, Symbol):
                return None
            name = statement.call.callee.name
            called.append(index.aliases.get(name, name))
            if any(index.aliases.get(name, name) in index.functions for name in symbol_names(statement.call.arguments)):
                return None
        elif any(index.aliases.get(name, name) in index.functions for name in symbol_names(statement.operands)):
            return None
    return called


def refuse_stub(module: Module, kernel: str) -> None:
    """Raises PtxError for a body that libraries compile for targets they do not support."""
    from cuttle.errors import PtxError, Where
    from cuttle.ptx.stubs import stub_reason

    function = module.functions.get(module.aliases.get(kernel, kernel))
    reason = stub_reason(function, module.variables) if function is not None else None
    if reason is not None:
        raise PtxError("PTX-0305", reason, Where(kernel=kernel))


def answer(compiler: Compiler, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    from cuttle.errors import CuttleError

    started = time.monotonic()
    reply: dict[str, Any] = {"number": request["number"]}
    image = b""
    compiler.bring(request["digest"], data)
    try:
        image = compiler.compile(request["digest"], request["kernel"], request["options"])
    except CuttleError as error:
        reply["error"] = error.render()
    except RecursionError:
        reply["error"] = "the kernel is nested too deeply for the compiler"
    except MemoryError:
        reply["error"] = "the compiler ran out of memory"
    except Exception as error:
        import traceback

        reply["error"] = f"the compiler failed: {type(error).__name__}: {error}\n{traceback.format_exc()}"
    reply["seconds"] = time.monotonic() - started
    return reply, image


def serve(incoming: int, outgoing: int) -> None:
    compiler = Compiler()
    while True:
        header_bytes, data_bytes = unpack("<II", read_exactly(incoming, 8))
        request = json.loads(read_exactly(incoming, header_bytes))
        data = read_exactly(incoming, data_bytes)
        if "kernel" not in request:
            compiler.bring(request["digest"], data)
            continue
        write_message(outgoing, *answer(compiler, request, data))


def _die_with_parent(parent: int) -> None:
    """A long compilation must not outlive the program it is for."""
    import ctypes

    PR_SET_PDEATHSIG = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    except (OSError, AttributeError):
        pass
    if parent and os.getppid() != parent:
        os._exit(0)  # it ended before it could be watched


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    if len(sys.argv) > 4:
        os.nice(int(sys.argv[4]))
    os.dup2(2, 1)  # nothing that a library prints may reach the program's stdout
    # Deep recursion in the compiler is bounded by this, not by luck.
    sys.setrecursionlimit(20000)
    try:
        # What every compilation needs, while the program goes on.
        import cuttle.ptx.parser  # noqa: F401
        from cuttle.lower.cpu.compile_kernel import warm_up

        warm_up()
    except ImportError as error:
        sys.stderr.write(f"cuttle: the compiler is not there: {error}\n")
    try:
        serve(int(sys.argv[1]), int(sys.argv[2]))
    except (EOFError, BrokenPipeError):
        return 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
