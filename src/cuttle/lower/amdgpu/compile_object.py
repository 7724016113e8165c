"""LLVM text to a relocatable AMDGPU object, through llvmlite's binding.

Only compile workers import this module: llvmlite holds one lock, and fatal LLVM errors abort the process (inline assembly does).
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from cuttle.lower.amdgpu.module_text import TRIPLE
from cuttle.lower.cpu.compile_object import CodeGenerationError, with_context

# Private arrays must not move to LDS behind our back: the layout of LDS is ours. LLVM 22's machine code sinking moves loads of LDS
# past fences and barriers into the next block (found by the emulator's serial schedule in a tiled matrix product).
LLVM_OPTIONS = ("--disable-promote-alloca-to-lds", "--disable-machine-sink")


@dataclass(frozen=True, slots=True)
class AmdgpuObject:
    """The relocatable object, and the texts asked for (else empty)."""

    object: bytes
    ir: str = ""
    assembly: str = ""


_initialised = False


def _initialise() -> None:
    global _initialised
    if not _initialised:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        for option in LLVM_OPTIONS:
            llvm.set_option("cuttle", option)
        _initialised = True


def compile_object(
    text: str, processor: str, optimization: int = 2, *, want_ir: bool = False, want_assembly: bool = False
) -> AmdgpuObject:
    """Parse, verify, optimise and emit for an LLVM processor name. Raises CodeGenerationError."""
    _initialise()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(with_context(str(error), text)) from error
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=processor, opt=2 if optimization else 0, reloc="pic")
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    tuning = llvm.PipelineTuningOptions(speed_level=2 if optimization else 0)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_interleaving = False
    builder = llvm.PassBuilder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    ir = str(module) if want_ir else ""
    # Emission leaves the module half lowered: a second one needs a copy.
    assembly = machine.emit_assembly(module.clone()) if want_assembly else ""
    return AmdgpuObject(machine.emit_object(module), ir, assembly)
