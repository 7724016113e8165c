"""LLVM text to an x86-64 object, through llvmlite's binding.

Only compile workers import this module: llvmlite holds one lock, and some LLVM errors abort the process.
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

TRIPLE = "x86_64-unknown-linux-gnu"


class CodeGenerationError(RuntimeError):
    """LLVM refused its input; the message is LLVM's, followed by the text around the place."""


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """How to compile.

    `opt_level` 0: no passes and the fast instruction selector; 1 and 2: LLVM's pipelines O1 and O2. Never with loop
    vectoriser, SLP or unroller. `passes` replaces the pass list (llvmlite names) if not None. `cpu` is an LLVM CPU
    name or `host`; `features` an LLVM feature string (`+avx2,-avx512f`), for `host` added to what the machine has.
    """

    opt_level: int = 2
    cpu: str = "host"
    features: str = ""
    passes: tuple[str, ...] | None = None
    codegen_level: int | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """The object file, and the texts asked for (else empty): optimised LLVM IR and assembly."""

    object: bytes
    ir: str = ""
    assembly: str = ""


_initialised = False


def _initialise() -> None:
    global _initialised
    if not _initialised:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        _initialised = True


def resolve_cpu(options: CodeOptions) -> tuple[str, str]:
    """The CPU name and feature string that LLVM gets."""
    if options.cpu != "host":
        return options.cpu, options.features
    features = llvm.get_host_cpu_features().flatten()
    return llvm.get_host_cpu_name(), ",".join(text for text in (features, options.features) if text)


def has_avx512(options: CodeOptions) -> bool:
    """Whether code for this CPU may use 512-bit registers with byte and word operations."""
    cpu, features = resolve_cpu(options)
    if "-avx512f" in features.split(","):
        return False
    return "+avx512bw" in features.split(",") or cpu in ("x86-64-v4", "skylake-avx512", "znver4", "znver5")


def has_avx512_bytes(options: CodeOptions) -> bool:
    """Whether code for this CPU may use AVX512-VBMI and AVX512-VNNI too."""
    cpu, features = resolve_cpu(options)
    named = features.split(",")
    known = cpu in ("znver4", "znver5", "icelake-server", "sapphirerapids")
    return has_avx512(options) and (known or "+avx512vbmi" in named) and (known or "+avx512vnni" in named)


def function_attributes(options: CodeOptions) -> str:
    """Attributes for the text of every generated function: `attributes #0 = { ... }` without the braces."""
    width = 512 if has_avx512(options) else 256
    return f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="0" "no-trapping-math"="true"'


def target_machine(options: CodeOptions) -> llvm.TargetMachine:
    """Position-independent code, small code model."""
    _initialise()
    cpu, features = resolve_cpu(options)
    level = options.codegen_level
    if level is None:
        level = 0 if options.opt_level == 0 else 2
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small", jit=False
    )


def compile_object(
    text: str, options: CodeOptions | None = None, *, want_ir: bool = False, want_assembly: bool = False
) -> Compiled:
    """Parse, verify, optimise and emit. Raises CodeGenerationError."""
    options = options or CodeOptions()
    machine = target_machine(options)
    module = parse(text)
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    optimise(module, machine, options)
    return emit(module, machine, want_ir=want_ir, want_assembly=want_assembly)


def emit(module: llvm.ModuleRef, machine: llvm.TargetMachine, *, want_ir: bool, want_assembly: bool) -> Compiled:
    """Code of an optimised module, of any target."""
    ir = str(module) if want_ir else ""
    # Emission leaves the module half lowered: a second one needs a copy, or gives other code, or ends the process.
    assembly = machine.emit_assembly(module.clone()) if want_assembly else ""
    return Compiled(machine.emit_object(module), ir, assembly)


def parse(text: str) -> llvm.ModuleRef:
    """A verified module."""
    _initialise()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(with_context(str(error), text)) from error
    return module


def optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, options: CodeOptions) -> None:
    """Run the passes of the options on a module, in place."""
    tuning = llvm.PipelineTuningOptions(speed_level=min(options.opt_level, 2))
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_interleaving = False
    tuning.loop_unrolling = False
    builder = llvm.PassBuilder(machine, tuning)
    passes = options.passes
    if passes is None:
        # Level 0 still runs the always-inliner: helpers are written as `alwaysinline` functions.
        builder.getModulePassManager().run(module, builder)
        return
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def with_context(message: str, text: str) -> str:
    """LLVM's message; where it names a line, with the lines around it."""
    for part in message.split(":"):
        if part.strip().isdigit():
            lines = text.splitlines()
            line = int(part)
            if 0 < line <= len(lines):
                first = max(0, line - 3)
                shown = "\n".join(f"{n + 1}: {lines[n]}" for n in range(first, min(len(lines), line + 1)))
                return f"{message.strip()}\n{shown}"
            break
    return message.strip()
