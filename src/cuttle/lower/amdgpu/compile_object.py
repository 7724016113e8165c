"""LLVM text to a relocatable AMDGPU object, through llvmlite's binding.

Only compile workers import this module: llvmlite holds one lock, and fatal LLVM errors abort the process (inline assembly does).
"""

from __future__ import annotations

import llvmlite.binding as llvm

from cuttle.lower.amdgpu.module_text import TRIPLE
from cuttle.lower.cpu.compile_object import Compiled, emit, parse

# Private arrays must not move to LDS behind our back: the layout of LDS is ours. LLVM 22's machine code sinking moves loads of LDS
# past fences and barriers into the next block (found by the emulator's serial schedule in a tiled matrix product).
LLVM_OPTIONS = ("--disable-promote-alloca-to-lds", "--disable-machine-sink")

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
) -> Compiled:
    """Parse, verify, optimise and emit for an LLVM processor name. Raises CodeGenerationError."""
    _initialise()
    module = parse(text)
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
    return emit(module, machine, want_ir=want_ir, want_assembly=want_assembly)
