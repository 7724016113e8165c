"""The LLVM module of a kernel: its regions, and the two functions that the executor calls (`abi/kernel_abi.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuttle.abi.kernel_abi import BLOCK, LAUNCH, STEP_DONE
from cuttle.lower.cpu.blocks import BlockWriter
from cuttle.lower.cpu.calls import BAD_TARGET_FAULT
from cuttle.lower.cpu.line_table import FIRST_SCOPE, NO_LINE, SCOPE, debug_metadata
from cuttle.lower.cpu.lockstep import write_lockstep
from cuttle.lower.cpu.plan import KernelPlan, Stop
from cuttle.lower.cpu.region import NONE_YET, RegionEmitter, field_offset
from cuttle.lower.emit import Value
from cuttle.lower.passes.shape import LANES

STACK_FAULT = 5

# Invariant loads (!0); alias scopes: !1 domain, !2 global, !3 shared, !11 private (frames, block and warp records);
# !4 !5 !6 the scope lists of each, !7 !8 !9 what each does not alias; !10 branch weights of a cold path.
METADATA = """\
!0 = !{}
!1 = distinct !{!1, !"cuttle"}
!2 = distinct !{!2, !1, !"global"}
!3 = distinct !{!3, !1, !"shared"}
!11 = distinct !{!11, !1, !"private"}
!4 = !{!2}
!5 = !{!3}
!6 = !{!11}
!7 = !{!3, !11}
!8 = !{!2, !11}
!9 = !{!2, !3}
!10 = !{!"branch_weights", i32 1000000, i32 1}
"""


@dataclass(slots=True)
class ModuleText:
    """Pieces of one LLVM module, joined by `text`."""

    attributes: str
    functions: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    scopes: int = 0

    def add(self, function: str) -> None:
        """Adds a function; if lines of it have debug locations, it becomes their scope."""
        if SCOPE in function:
            scope = f"!{FIRST_SCOPE + self.scopes}"
            self.scopes += 1
            head, _, body = function.replace(SCOPE, scope).partition(" #0 {")
            function = f"{head} #0 !dbg {scope} {{{body}"
        self.functions.append(function)

    def take(self, region: RegionEmitter) -> None:
        """Adds what a finished region declares."""
        for emitter in (region.emitter, region.prelude):
            self.declarations.update(emitter.declarations)
            self.constants.update(emitter.constants)

    def text(self) -> str:
        parts = [
            *self.constants.values(),
            *self.declarations.values(),
            *self.functions,
            f"attributes #0 = {{ {self.attributes} }}",
            METADATA,
            *(debug_metadata(self.scopes) if self.scopes else ()),
        ]
        return "\n".join(parts) + "\n"


def write_kernel(plan: KernelPlan, module: ModuleText) -> None:
    """All regions of a kernel and its `blocks` and `step`."""
    starts: list[Stop | None] = [None, *plan.stops]
    plain: list[int] = []
    groups = [starts] if plan.unified else [[start] for start in starts]
    for group in groups:
        region = RegionEmitter(plan, group)
        BlockWriter(region).write()
        module.take(region)
        module.add(region_function(region, group[0]))
        plain.extend(region.plain_stops)
    lockstep = write_lockstep(plan)
    plan.lockstep = lockstep is not None
    if lockstep is not None:
        module.take(lockstep)
        module.add(lockstep_function(lockstep))
    module.add(blocks_function(plan, sorted(set(plain)), lockstep=plan.lockstep))
    module.add(step_function(plan))


def region_call(plan: KernelPlan, number: int, first: str, last: str) -> str:
    """A call of the function that runs resume point `number`."""
    name = 0 if plan.unified else number
    return f"call i32 @region{name}(ptr %block, i32 {first}, i32 {last}, i32 {number}){NO_LINE}"


def write_function(plan: KernelPlan, name: str, module: ModuleText, formal_bytes: int) -> None:
    """A real device function: `void name(block, warp, lanes, i64 start of its local memory)`; see `calls.py`.

    It looks whether there is room for itself, and for the parameters (`formal_bytes`) of what it calls.
    """
    region = RegionEmitter(plan, [None])
    BlockWriter(region).write()
    region.emitter.declare("@llvm.cttz.i32", "declare i32 @llvm.cttz.i32(i32, i1)")
    module.take(region)
    limit = plan.layout_local_bytes - plan.own_local_bytes - formal_bytes
    line = plan.graph.function.line
    lines = [
        f"define internal void @{name}(ptr noalias %block, i32 %warp, i32 %mask, i64 %local) #0 {{",
        "entry:",
        *region.allocas,
        *region.zeroed,
        *region.prelude.lines,
        f"  %stack.left = icmp ule i64 %local, {max(limit, 0)}",
        "  br i1 %stack.left, label %begin, label %overflow, !prof !10",
        "overflow:",
        "  %overflow.launch = load ptr, ptr %block",
        f"  %overflow.services.at = getelementptr i8, ptr %overflow.launch, i64 {field_offset(LAUNCH.fields, 'services')}",
        "  %overflow.services = load ptr, ptr %overflow.services.at",
        "  %overflow.trap = load ptr, ptr %overflow.services",
        "  %overflow.lane = call i32 @llvm.cttz.i32(i32 %mask, i1 false)",
        f"  %overflow.first = mul i32 %warp, {LANES}",
        "  %overflow.thread = add i32 %overflow.first, %overflow.lane",
        f"  call i64 %overflow.trap(ptr %block, i32 %overflow.thread, i64 {STACK_FAULT}, i64 {line}, i64 0, i64 0)",
        "  unreachable",
        "begin:",
        *region.emitter.lines,
        "}",
    ]
    module.add("\n".join(lines))


def write_refusal(plan: KernelPlan, name: str, module: ModuleText) -> None:
    """A device function that cannot be translated: calling it is a fault."""
    region = RegionEmitter(plan, [None])
    region.warp = Value("i32", "%warp")
    region.trap(BAD_TARGET_FAULT, plan.graph.function.line)
    module.take(region)
    lines = [
        f"define internal void @{name}(ptr noalias %block, i32 %warp, i32 %mask, i64 %local) #0 {{",
        "entry:",
        *region.prelude.lines,
        *region.emitter.lines,
        "}",
    ]
    module.add("\n".join(lines))


def region_function(region: RegionEmitter, start: Stop | None) -> str:
    number = start.identifier if start is not None else 0
    lines = [
        f"define internal i32 @region{number}(ptr noalias %block, i32 %first, i32 %last, i32 %resume) #0 {{",
        "entry:",
        "  %common = alloca i32, align 4",
        *region.allocas,
        f"  store i32 {NONE_YET - (1 << 32)}, ptr %common",
        *region.prelude.lines,
        "  br label %warp.head",
        "warp.head:",
        "  %warp = phi i32 [ %first, %entry ], [ %warp.following, %warp.next ]",
        *region.zeroed,
        *region.emitter.lines,
        "warp.next:",
        "  %warp.following = add nuw i32 %warp, 1",
        "  %warp.more = icmp ult i32 %warp.following, %last",
        "  br i1 %warp.more, label %warp.head, label %warp.done",
        "warp.done:",
        "  %result = load i32, ptr %common",
        "  ret i32 %result",
        "}",
    ]
    return "\n".join(lines)


def lockstep_function(region: RegionEmitter) -> str:
    """`i32 @lockstep(ptr block)`: the whole block (`lockstep.py`); the result is that of region 0."""
    lines = [
        "define internal i32 @lockstep(ptr noalias %block) #0 {",
        "entry:",
        *region.allocas,
        *region.prelude.lines,
        "  br label %G0",
        *region.emitter.lines,
        "}",
    ]
    return "\n".join(lines)


def blocks_function(plan: KernelPlan, plain: list[int], *, lockstep: bool = False) -> str:
    """Runs whole blocks; barriers at which all warps stopped alike are passed here, all else is the executor's."""
    grid = field_offset(LAUNCH.fields, "grid")
    block = field_offset(LAUNCH.fields, "block")
    ctaid = field_offset(BLOCK.fields, "ctaid")
    index = field_offset(BLOCK.fields, "index")
    threads = plan.options.block_threads
    warps = str(-(-threads // LANES)) if threads is not None else "%warps"
    lines = [
        "define i64 @blocks(ptr %block, i64 %begin, i64 %end) #0 {",
        "entry:",
        "  %launch = load ptr, ptr %block",
    ]
    for axis, name in enumerate("xyz"):
        lines.append(f"  %grid.{name}.at = getelementptr i8, ptr %launch, i64 {grid + 4 * axis}")
        lines.append(f"  %grid.{name} = load i32, ptr %grid.{name}.at")
        lines.append(f"  %ctaid.{name}.at = getelementptr i8, ptr %block, i64 {ctaid + 4 * axis}")
        if threads is None:
            lines.append(f"  %size.{name}.at = getelementptr i8, ptr %launch, i64 {block + 4 * axis}")
            lines.append(f"  %size.{name} = load i32, ptr %size.{name}.at")
    if threads is None:
        lines += [
            "  %size.xy = mul i32 %size.x, %size.y",
            "  %threads = mul i32 %size.xy, %size.z",
            f"  %rounded = add i32 %threads, {LANES - 1}",
            f"  %warps = udiv i32 %rounded, {LANES}",
        ]
    lines += [
        f"  %index.at = getelementptr i8, ptr %block, i64 {index}",
        "  %wide.x = zext i32 %grid.x to i64",
        "  %wide.y = zext i32 %grid.y to i64",
        "  %first.x = urem i64 %begin, %wide.x",
        "  %first.rows = udiv i64 %begin, %wide.x",
        "  %first.y = urem i64 %first.rows, %wide.y",
        "  %first.z = udiv i64 %first.rows, %wide.y",
        "  %start.x = trunc i64 %first.x to i32",
        "  %start.y = trunc i64 %first.y to i32",
        "  %start.z = trunc i64 %first.z to i32",
        "  br label %head",
        "head:",
        "  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]",
        "  %x = phi i32 [ %start.x, %entry ], [ %x.next, %next ]",
        "  %y = phi i32 [ %start.y, %entry ], [ %y.next, %next ]",
        "  %z = phi i32 [ %start.z, %entry ], [ %z.next, %next ]",
        "  %more = icmp ult i64 %i, %end",
        "  br i1 %more, label %body, label %done",
        "body:",
        "  store i32 %x, ptr %ctaid.x.at",
        "  store i32 %y, ptr %ctaid.y.at",
        "  store i32 %z, ptr %ctaid.z.at",
        "  %i.low = trunc i64 %i to i32",
        "  store i32 %i.low, ptr %index.at",
        f"  %r0 = call i32 @lockstep(ptr %block){NO_LINE}"
        if lockstep
        else f"  %r0 = {region_call(plan, 0, '0', warps)}",
        "  br label %route",
        "route:",
    ]
    incoming = ", ".join(["[ %r0, %body ]", *(f"[ %r{number}, %run{number} ]" for number in plain)])
    cases = " ".join([f"i32 {STEP_DONE - (1 << 32)}, label %next", *(f"i32 {k}, label %run{k}" for k in plain)])
    lines += [f"  %r = phi i32 {incoming}", f"  switch i32 %r, label %give.up [ {cases} ]"]
    for number in plain:
        lines += [
            f"run{number}:",
            f"  %r{number} = {region_call(plan, number, '0', warps)}",
            "  br label %route",
        ]
    lines += [
        "next:",
        "  %i.next = add nuw i64 %i, 1",
        "  %x.up = add i32 %x, 1",
        "  %x.wraps = icmp eq i32 %x.up, %grid.x",
        "  %x.next = select i1 %x.wraps, i32 0, i32 %x.up",
        "  %y.up = add i32 %y, 1",
        "  %y.over = icmp eq i32 %y.up, %grid.y",
        "  %y.wraps = and i1 %x.wraps, %y.over",
        "  %y.stepped = select i1 %x.wraps, i32 %y.up, i32 %y",
        "  %y.next = select i1 %y.wraps, i32 0, i32 %y.stepped",
        "  %z.up = add i32 %z, 1",
        "  %z.next = select i1 %y.wraps, i32 %z.up, i32 %z",
        "  br label %head",
        "give.up:",
        "  ret i64 %i",
        "done:",
        "  ret i64 %end",
        "}",
    ]
    return "\n".join(lines)


def step_function(plan: KernelPlan) -> str:
    """One warp from a resume point to its next stop."""
    lines = [
        "define i32 @step(ptr %block, i32 %warp, i32 %resume) #0 {",
        "entry:",
        "  %last = add i32 %warp, 1",
    ]
    cases = " ".join(f"i32 {stop.identifier}, label %run{stop.identifier}" for stop in plan.stops)
    lines.append(f"  switch i32 %resume, label %run0 [ {cases} ]")
    for number in range(len(plan.stops) + 1):
        lines += [
            f"run{number}:",
            f"  %r{number} = {region_call(plan, number, '%warp', '%last')}",
            f"  ret i32 %r{number}",
        ]
    lines.append("}")
    return "\n".join(lines)
