"""The LLVM module of a kernel and the functions it calls for real."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuttle.abi.amdgpu_abi import AMDGPU_LAUNCH
from cuttle.abi.targets import MAX_GROUP_THREADS
from cuttle.lower.amdgpu.function import FunctionWriter
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.amdgpu.plan import FunctionPlan
from cuttle.lower.amdgpu.scan import write_scan
from cuttle.lower.cpu.calls import BAD_TARGET_FAULT, function_symbol

TRIPLE = "amdgcn-amd-amdhsa"
# Compute-unit mode: waves of a group share a cache, so that fences in a group cost nothing.
FEATURES = '"target-features"="+cumode"'
# Arguments of LLVM's own that our kernels never ask for (LLVM assumes them where it sees calls).
NO_HIDDEN = " ".join(
    f'"amdgpu-no-{name}"'
    for name in (
        "implicitarg-ptr", "hostcall-ptr", "queue-ptr", "dispatch-ptr", "heap-ptr", "default-queue", "completion-action",
        "multigrid-sync-arg", "dispatch-id", "lds-kernel-id",
    )
)  # fmt: skip


@dataclass(slots=True)
class ModuleText:
    """Pieces of one LLVM module, joined by `text`."""

    options: AmdgpuOptions
    lds_bytes: int
    most_threads: int = MAX_GROUP_THREADS
    functions: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def take(self, writer: FunctionWriter) -> None:
        self.declarations.update(writer.emitter.declarations)
        self.constants.update(writer.emitter.constants)

    def text(self) -> str:
        threads = self.options.block_threads
        group = f"{threads},{threads}" if threads is not None else f"1,{self.most_threads}"
        size = f'"amdgpu-flat-work-group-size"="{group}"'
        kernel = f'"amdgpu-lds-size"="{self.lds_bytes}" "uniform-work-group-size"="true"'
        return "\n".join([
            f'target triple = "{TRIPLE}"',
            *self.constants.values(),
            *self.declarations.values(),
            *self.functions,
            f"attributes #0 = {{ nounwind {size} {kernel} {NO_HIDDEN} {FEATURES} }}",
            f"attributes #1 = {{ nounwind noinline convergent {size} {NO_HIDDEN} {FEATURES} }}",
            "!0 = !{}",
            "!llvm.module.flags = !{!1}",
            f'!1 = !{{i32 1, !"amdhsa_code_object_version", i32 {100 * self.options.code_object_version}}}',
            "",
        ])  # fmt: skip


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'


def launch_offset(parameter_bytes: int) -> int:
    """Where the launch record stands in the kernel arguments."""
    return -(-parameter_bytes // 8) * 8


def write_blocks(writer: FunctionWriter) -> None:
    if writer.plan.scan:
        write_scan(writer)
    else:
        writer.write_blocks()


def write_kernel(plan: FunctionPlan, name: str, module: ModuleText) -> None:
    writer = FunctionWriter(plan)
    writer.machine.barriers.clear_words()
    start, writer.emitter.lines = writer.emitter.lines, []
    writer.current_label = "entry"
    write_blocks(writer)
    module.take(writer)
    parameter_bytes = launch_offset(plan.graph.function.parameter_bytes)
    record_bytes = AMDGPU_LAUNCH.bytes + 8 * len(plan.layout.symbols)
    arguments = [f"ptr addrspace(4) byref([{record_bytes} x i8]) align 8 %record"]
    if parameter_bytes:
        arguments.insert(0, f"ptr addrspace(4) byref([{parameter_bytes} x i8]) align 16 %parameters")
    head = f"protected amdgpu_kernel void @{quoted(name)}({', '.join(arguments)})"
    module.functions.append(writer.text(head, "#0", start))


def write_function(plan: FunctionPlan, name: str, module: ModuleText) -> None:
    writer = FunctionWriter(plan)
    write_blocks(writer)
    module.take(writer)
    module.functions.append(writer.text(function_head(name), "#1", []))


def write_refusal(plan: FunctionPlan, name: str, module: ModuleText) -> None:
    """A function that cannot be translated: calling it is a fault."""
    writer = FunctionWriter(plan)
    writer.allocas = []
    writer.label("b0")
    writer.machine.services.trap(BAD_TARGET_FAULT, plan.graph.function.line)
    writer.emitter.line("unreachable")
    module.take(writer)
    lines = ["entry:", "  br label %b0", *writer.emitter.lines]
    module.functions.append("\n".join([f"define {function_head(name)} #1 {{", *lines, "}"]))


def function_head(name: str) -> str:
    return f"internal void @{function_symbol(name)}(ptr addrspace(4) %record, ptr addrspace(5) %formals)"
