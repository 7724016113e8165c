"""The scheduler of the plain leg, as LLVM text: `step` and `blocks` of the image (abi/kernel_abi.py).

`step` runs one warp. Again and again it takes a step number, the lowest that a ready lane stands at (lanes in functions first),
and lets the lanes that stand there execute it one after the other: so lanes that parted meet again where the program's text joins. Once a warp has
had `PATIENCE` turns, it takes turns among the lanes instead in every other stretch of `STRETCH` turns, so that no lane waits
for ever for one that spins. Then:

* operations across the warp wait for the lanes they name (exited ones do not count), wherever in the program these are at such
  an operation; then the lanes at one step execute it together;
* if no lane is ready, those that wait in vain for others go on with whom they are (on hardware they would hang); if none waits,
  all that have not exited are at barriers: the warp stops there, once for all of them;
* after `TURNS` turns the warp yields, so that other warps and blocks get on.

Resume points: 0 the kernel's start, 1 behind a barrier, 2 after a yield.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.abi import wire_layout as wire
from cuttle.abi.kernel_abi import STEP_DONE, STOPS
from cuttle.lower.plain.lane_record import (
    AT_BARRIER,
    BASE_AT,
    EXITED,
    KIND_AT,
    LANE_RECORD_BYTES,
    NEED_AT,
    NUMBER_AT,
    PC_AT,
    PREDICATE_AT,
    READY,
    STATUS_AT,
    THREADS_AT,
    WAITING,
)
from cuttle.lower.plain.places import LANES
from cuttle.lower.plain.program import STACK_END_AT, Program
from cuttle.lower.plain.steps import ACROSS, BARRIER, BY_LANE, StepCode

PATIENCE = 16384
STRETCH = 256
TURNS = 8192
FRAME_BYTES = -(-(LANES * LANE_RECORD_BYTES + 64) // 64) * 64
TURN_AT = LANES * LANE_RECORD_BYTES  # u32: counts the turns of the warp, over all calls of `step`
ILLEGAL_INSTRUCTION_FAULT = 7
STOP_NUMBERS = {name: number for number, name in STOPS}
BEHIND_BARRIER, AFTER_YIELD = 1, 2


def dispatch_text(name: str, parameters: str, arguments: str, callees: Sequence[tuple[int, str]]) -> str:
    """A function that calls the function of step `%pc`."""
    cases = " ".join(f"i32 {number}, label %s{number}" for number, _ in callees)
    lines = [
        f"define internal void @{name}(i32 %pc, {parameters}) noinline #0 {{",
        "entry:",
        f"  switch i32 %pc, label %none [ {cases} ]",
    ]
    for number, callee in callees:
        lines += [f"s{number}:", f"  call void @{callee}({arguments})", "  ret void"]
    lines += ["none:", "  ret void", "}"]
    return "\n".join(lines)


def tables_text(codes: Sequence[StepCode]) -> str:
    kinds = ", ".join(f"i8 {code.kind}" for code in codes)
    orders = ", ".join(f"i8 {code.order}" for code in codes)
    return (
        f"@kinds = private unnamed_addr constant [{len(codes)} x i8] [{kinds}]\n"
        f"@orders = private unnamed_addr constant [{len(codes)} x i8] [{orders}]"
    )


def scheduler_text(program: Program, codes: Sequence[StepCode]) -> str:
    """All of it, for steps with these codes."""
    lane = ("ptr %block, i32 %warp, i32 %lane, ptr %state", "ptr %block, i32 %warp, i32 %lane, ptr %state")
    across = ("ptr %block, i32 %warp, i32 %lanes, ptr %states", "ptr %block, i32 %warp, i32 %lanes, ptr %states")
    numbered = list(enumerate(codes))
    parts = [
        tables_text(codes),
        dispatch_text("run.step", *lane, [(n, f"step{n}") for n, _ in numbered]),
        dispatch_text("run.behind", *lane, [(n, f"behind{n}") for n, code in numbered if code.kind == BARRIER]),
        dispatch_text("run.across", *across, [(n, f"across{n}") for n, code in numbered if code.kind == ACROSS]),
        fill(HELPERS, program),
        fill(STEP, program),
        fill(BLOCKS, program),
    ]
    return "\n".join(parts)


def fill(template: str, program: Program) -> str:
    """Puts numbers in for the `$NAME`s of a text."""
    activation = program.activations[program.kernel]
    numbers = {
        "LAUNCH_AT": wire.KERNEL_BLOCK_LAUNCH_AT, "LOCAL_AT": wire.KERNEL_BLOCK_LOCAL_AT,
        "FRAME_AT": wire.KERNEL_BLOCK_FRAME_AT, "WARPS_AT": wire.KERNEL_BLOCK_WARPS_AT,
        "CTAID_AT": wire.KERNEL_BLOCK_CTAID_AT, "INDEX_AT": wire.KERNEL_BLOCK_INDEX_AT,
        "GRID_AT": wire.KERNEL_LAUNCH_GRID_AT, "BLOCK_AT": wire.KERNEL_LAUNCH_BLOCK_AT,
        "SERVICES_AT": wire.KERNEL_LAUNCH_SERVICES_AT, "WARP_SIZE": wire.KERNEL_WARP_SIZE,
        "RESUME_AT": wire.KERNEL_WARP_RESUME_AT, "STOP_AT": wire.KERNEL_WARP_STOP_AT,
        "BARRIER_AT": wire.KERNEL_WARP_BARRIER_AT, "WARP_THREADS_AT": wire.KERNEL_WARP_THREADS_AT,
        "VALUE_AT": wire.KERNEL_WARP_VALUE_AT, "ACTIVE_AT": wire.KERNEL_WARP_ACTIVE_AT,
        "PC_AT": PC_AT, "BASE_AT": BASE_AT, "STATUS_AT": STATUS_AT, "NEED_AT": NEED_AT, "KIND_AT": KIND_AT,
        "NUMBER_AT": NUMBER_AT, "THREADS_AT": THREADS_AT, "PREDICATE_AT": PREDICATE_AT, "RECORD": LANE_RECORD_BYTES,
        "READY": READY, "WAITING": WAITING, "AT_BARRIER": AT_BARRIER, "EXITED": EXITED, "LANES": LANES,
        "ENTRY": program.entries[program.kernel], "LOCAL_BYTES": program.local_bytes,
        "STACK_END_AT": STACK_END_AT, "STACK_FROM": activation.bytes, "REGISTERS_FROM": activation.registers_at, "REGISTERS_BYTES": activation.bytes - activation.registers_at,
        "FRAME_BYTES": FRAME_BYTES, "TURN_AT": TURN_AT, "STRETCH": STRETCH, "PATIENCE": PATIENCE, "TURNS": TURNS,
        "STOP_YIELD": STOP_NUMBERS["yield"], "STOP_DONE": STOP_NUMBERS["done"], "DONE": STEP_DONE - (1 << 32),
        "BEHIND_BARRIER": BEHIND_BARRIER, "AFTER_YIELD": AFTER_YIELD, "ILLEGAL": ILLEGAL_INSTRUCTION_FAULT,
        "KIND_BY_LANE": BY_LANE, "KIND_ACROSS": ACROSS, "KIND_BARRIER": BARRIER,
    }  # fmt: skip
    for name in sorted(numbers, key=len, reverse=True):
        template = template.replace(f"${name}", str(numbers[name]))
    return template


HELPERS = """\
declare i32 @llvm.cttz.i32(i32, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The record of a lane.
define internal ptr @record(ptr %states, i32 %lane) noinline #0 {
  %wide = zext i32 %lane to i64
  %far = mul i64 %wide, $RECORD
  %state = getelementptr i8, ptr %states, i64 %far
  ret ptr %state
}

define internal i32 @word(ptr %states, i32 %lane, i64 %at) noinline #0 {
  %state = call ptr @record(ptr %states, i32 %lane)
  %place = getelementptr i8, ptr %state, i64 %at
  %value = load i32, ptr %place
  ret i32 %value
}

define internal void @set.word(ptr %states, i32 %lane, i64 %at, i32 %value) noinline #0 {
  %state = call ptr @record(ptr %states, i32 %lane)
  %place = getelementptr i8, ptr %state, i64 %at
  store i32 %value, ptr %place
  ret void
}

; The lanes among %among whose word at %at is %value.
define internal i32 @lanes.with(ptr %states, i32 %among, i64 %at, i32 %value) noinline #0 {
entry:
  br label %head
head:
  %lane = phi i32 [ 0, %entry ], [ %next, %head ]
  %found = phi i32 [ 0, %entry ], [ %more, %head ]
  %word = call i32 @word(ptr %states, i32 %lane, i64 %at)
  %same = icmp eq i32 %word, %value
  %bit = shl i32 1, %lane
  %mine = select i1 %same, i32 %bit, i32 0
  %more = or i32 %found, %mine
  %next = add i32 %lane, 1
  %again = icmp ult i32 %next, $LANES
  br i1 %again, label %head, label %done
done:
  %result = and i32 %more, %among
  ret i32 %result
}

define internal void @set.all(ptr %states, i32 %lanes, i64 %at, i32 %value) noinline #0 {
entry:
  br label %head
head:
  %left = phi i32 [ %lanes, %entry ], [ %rest, %work ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %work
work:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lower = sub i32 %left, 1
  %rest = and i32 %left, %lower
  call void @set.word(ptr %states, i32 %lane, i64 %at, i32 %value)
  br label %head
done:
  ret void
}

; The lowest step among these lanes; but lanes in a function come before those that have not called it, or have returned.
define internal i32 @lowest.step(ptr %states, i32 %lanes) noinline #0 {
entry:
  br label %head
head:
  %left = phi i32 [ %lanes, %entry ], [ %rest, %work ]
  %lowest = phi i64 [ -1, %entry ], [ %lower.key, %work ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %work
work:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lower = sub i32 %left, 1
  %rest = and i32 %left, %lower
  %pc = call i32 @word(ptr %states, i32 %lane, i64 $PC_AT)
  %base = call i32 @word(ptr %states, i32 %lane, i64 $BASE_AT)
  %deeper = xor i32 %base, -1
  %high = zext i32 %deeper to i64
  %shifted = shl i64 %high, 32
  %low = zext i32 %pc to i64
  %key = or i64 %shifted, %low
  %less = icmp ult i64 %key, %lowest
  %lower.key = select i1 %less, i64 %key, i64 %lowest
  br label %head
done:
  %result = trunc i64 %lowest to i32
  ret i32 %result
}

; Each of the lanes executes step %pc: upward, or in groups of %order lanes each from its highest lane down.
define internal void @run.lanes(ptr %block, i32 %warp, ptr %states, i32 %pc, i32 %lanes, i32 %order) noinline #0 {
entry:
  %group = icmp eq i32 %order, 0
  %last = sub i32 %order, 1
  %turn = select i1 %group, i32 0, i32 %last
  %following = add i32 %pc, 1
  br label %head
head:
  %index = phi i32 [ 0, %entry ], [ %next, %past ]
  %lane = xor i32 %index, %turn
  %shifted = lshr i32 %lanes, %lane
  %here = trunc i32 %shifted to i1
  br i1 %here, label %work, label %past
work:
  call void @set.word(ptr %states, i32 %lane, i64 $PC_AT, i32 %following)
  %state = call ptr @record(ptr %states, i32 %lane)
  call void @run.step(i32 %pc, ptr %block, i32 %warp, i32 %lane, ptr %state)
  br label %past
past:
  %next = add i32 %index, 1
  %again = icmp ult i32 %next, $LANES
  br i1 %again, label %head, label %done
done:
  ret void
}

; Lets the lanes among %lanes, which wait at operations across the warp, execute these: all at one step together.
define internal void @pass.across(ptr %block, i32 %warp, ptr %states, i32 %lanes) noinline #0 {
entry:
  br label %head
head:
  %left = phi i32 [ %lanes, %entry ], [ %rest, %work ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %work
work:
  %behind = call i32 @lowest.step(ptr %states, i32 %left)
  %group = call i32 @lanes.with(ptr %states, i32 %left, i64 $PC_AT, i32 %behind)
  %pc = sub i32 %behind, 1
  call void @run.across(i32 %pc, ptr %block, i32 %warp, i32 %group, ptr %states)
  call void @set.all(ptr %states, i32 %group, i64 $STATUS_AT, i32 $READY)
  %others = xor i32 %group, -1
  %rest = and i32 %left, %others
  br label %head
done:
  ret void
}

; Looks for lanes at operations across the warp that have waited for all they need.
define internal void @release(ptr %block, i32 %warp, ptr %states) noinline #0 {
entry:
  %exited = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $EXITED)
  %waiting = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $WAITING)
  br label %head
head:
  %left = phi i32 [ %waiting, %entry ], [ %rest, %next ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %work
work:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %need = call i32 @word(ptr %states, i32 %lane, i64 $NEED_AT)
  %alike = call i32 @lanes.with(ptr %states, i32 %left, i64 $NEED_AT, i32 %need)
  %others = xor i32 %alike, -1
  %rest = and i32 %left, %others
  %there = or i32 %alike, %exited
  %not.there = xor i32 %there, -1
  %missing = and i32 %need, %not.there
  %complete = icmp eq i32 %missing, 0
  br i1 %complete, label %pass, label %next
pass:
  call void @pass.across(ptr %block, i32 %warp, ptr %states, i32 %alike)
  br label %next
next:
  br label %head
done:
  ret void
}

define internal void @fault(ptr %block, i32 %warp, i64 %number) noinline #0 {
  %launch.at = getelementptr i8, ptr %block, i64 $LAUNCH_AT
  %launch = load ptr, ptr %launch.at
  %services.at = getelementptr i8, ptr %launch, i64 $SERVICES_AT
  %services = load ptr, ptr %services.at
  %trap = load ptr, ptr %services
  %thread = mul i32 %warp, $LANES
  %nothing = call i64 %trap(ptr %block, i32 %thread, i64 %number, i64 0, i64 0, i64 0)
  ret void
}

define internal i32 @threads.of(ptr %block) noinline #0 {
  %launch.at = getelementptr i8, ptr %block, i64 $LAUNCH_AT
  %launch = load ptr, ptr %launch.at
  %sizes = getelementptr i8, ptr %launch, i64 $BLOCK_AT
  %x = load i32, ptr %sizes
  %y.at = getelementptr i8, ptr %sizes, i64 4
  %y = load i32, ptr %y.at
  %z.at = getelementptr i8, ptr %sizes, i64 8
  %z = load i32, ptr %z.at
  %xy = mul i32 %x, %y
  %xyz = mul i32 %xy, %z
  ret i32 %xyz
}

; The kernel's start: every lane of the block stands at the first step, its registers are 0.
define internal void @begin(ptr %block, i32 %warp, ptr %states) noinline #0 {
entry:
  %threads = call i32 @threads.of(ptr %block)
  %first = mul i32 %warp, $LANES
  %local.at = getelementptr i8, ptr %block, i64 $LOCAL_AT
  %local = load ptr, ptr %local.at
  %turn.at = getelementptr i8, ptr %states, i64 $TURN_AT
  store i32 0, ptr %turn.at
  br label %head
head:
  %lane = phi i32 [ 0, %entry ], [ %next, %past ]
  %thread = add i32 %first, %lane
  %there = icmp ult i32 %thread, %threads
  %status = select i1 %there, i32 $READY, i32 $EXITED
  call void @set.word(ptr %states, i32 %lane, i64 $STATUS_AT, i32 %status)
  call void @set.word(ptr %states, i32 %lane, i64 $PC_AT, i32 $ENTRY)
  call void @set.word(ptr %states, i32 %lane, i64 $BASE_AT, i32 0)
  br i1 %there, label %clear, label %past
clear:
  %wide = zext i32 %thread to i64
  %far = mul i64 %wide, $LOCAL_BYTES
  %mine = getelementptr i8, ptr %local, i64 %far
  %stack.at = getelementptr i8, ptr %mine, i64 $STACK_END_AT
  store i64 $STACK_FROM, ptr %stack.at
  %registers = getelementptr i8, ptr %mine, i64 $REGISTERS_FROM
  call void @llvm.memset.p0.i64(ptr %registers, i8 0, i64 $REGISTERS_BYTES, i1 false)
  br label %past
past:
  %next = add i32 %lane, 1
  %again = icmp ult i32 %next, $LANES
  br i1 %again, label %head, label %done
done:
  ret void
}

; Behind a barrier: its lanes take the result and go on.
define internal void @go.behind(ptr %block, i32 %warp, ptr %states) noinline #0 {
entry:
  %lanes = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $AT_BARRIER)
  br label %head
head:
  %left = phi i32 [ %lanes, %entry ], [ %rest, %work ]
  %none = icmp eq i32 %left, 0
  br i1 %none, label %done, label %work
work:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %lower = sub i32 %left, 1
  %rest = and i32 %left, %lower
  %behind = call i32 @word(ptr %states, i32 %lane, i64 $PC_AT)
  %pc = sub i32 %behind, 1
  %state = call ptr @record(ptr %states, i32 %lane)
  call void @run.behind(i32 %pc, ptr %block, i32 %warp, i32 %lane, ptr %state)
  br label %head
done:
  call void @set.all(ptr %states, i32 %lanes, i64 $STATUS_AT, i32 $READY)
  ret void
}

; The warp arrives at a barrier, once for all of %lanes: they may stand at different places of the program, but not at barriers
; of different kinds or numbers (hardware calls that an illegal instruction).
define internal void @arrive(ptr %block, i32 %warp, ptr %states, i32 %lanes, ptr %record) noinline #0 {
entry:
  %one = call i32 @llvm.cttz.i32(i32 %lanes, i1 true)
  %kind = call i32 @word(ptr %states, i32 %one, i64 $KIND_AT)
  %number = call i32 @word(ptr %states, i32 %one, i64 $NUMBER_AT)
  %threads = call i32 @word(ptr %states, i32 %one, i64 $THREADS_AT)
  %same.kind = call i32 @lanes.with(ptr %states, i32 %lanes, i64 $KIND_AT, i32 %kind)
  %same = call i32 @lanes.with(ptr %states, i32 %same.kind, i64 $NUMBER_AT, i32 %number)
  %alike = icmp eq i32 %same, %lanes
  br i1 %alike, label %fine, label %illegal
illegal:
  call void @fault(ptr %block, i32 %warp, i64 $ILLEGAL)
  br label %fine
fine:
  %holding = call i32 @lanes.with(ptr %states, i32 %lanes, i64 $PREDICATE_AT, i32 1)
  %resume.at = getelementptr i8, ptr %record, i64 $RESUME_AT
  store i32 $BEHIND_BARRIER, ptr %resume.at
  %stop.at = getelementptr i8, ptr %record, i64 $STOP_AT
  store i32 %kind, ptr %stop.at
  %barrier.at = getelementptr i8, ptr %record, i64 $BARRIER_AT
  store i32 %number, ptr %barrier.at
  %threads.at = getelementptr i8, ptr %record, i64 $WARP_THREADS_AT
  store i32 %threads, ptr %threads.at
  %value.at = getelementptr i8, ptr %record, i64 $VALUE_AT
  store i32 %holding, ptr %value.at
  %active.at = getelementptr i8, ptr %record, i64 $ACTIVE_AT
  store i32 %lanes, ptr %active.at
  ret void
}
"""

STEP = """\
define i32 @step(ptr %block, i32 %warp, i32 %resume) #0 {
entry:
  %frame.at = getelementptr i8, ptr %block, i64 $FRAME_AT
  %frame = load ptr, ptr %frame.at
  %wide = zext i32 %warp to i64
  %far = mul i64 %wide, $FRAME_BYTES
  %states = getelementptr i8, ptr %frame, i64 %far
  %turn.at = getelementptr i8, ptr %states, i64 $TURN_AT
  %warps.at = getelementptr i8, ptr %block, i64 $WARPS_AT
  %warps = load ptr, ptr %warps.at
  %record.far = mul i64 %wide, $WARP_SIZE
  %record = getelementptr i8, ptr %warps, i64 %record.far
  %resume.at = getelementptr i8, ptr %record, i64 $RESUME_AT
  %stop.at = getelementptr i8, ptr %record, i64 $STOP_AT
  %left.at = alloca i32
  store i32 $TURNS, ptr %left.at
  switch i32 %resume, label %turn [ i32 0, label %start i32 $BEHIND_BARRIER, label %behind ]
start:
  call void @begin(ptr %block, i32 %warp, ptr %states)
  br label %turn
behind:
  call void @go.behind(ptr %block, i32 %warp, ptr %states)
  br label %turn

turn:
  %ready = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $READY)
  %none = icmp eq i32 %ready, 0
  br i1 %none, label %nobody, label %choose
choose:
  %left = load i32, ptr %left.at
  %spent = icmp eq i32 %left, 0
  br i1 %spent, label %yield, label %go
go:
  %less = sub i32 %left, 1
  store i32 %less, ptr %left.at
  %turn.number = load i32, ptr %turn.at
  %turn.next = add i32 %turn.number, 1
  store i32 %turn.next, ptr %turn.at
  %lowest = call i32 @lowest.step(ptr %states, i32 %ready)
  %stretch = udiv i32 %turn.number, $STRETCH
  %odd = trunc i32 %stretch to i1
  %half = lshr i32 %stretch, 1
  %favoured = and i32 %half, 31
  %favoured.bit = shl i32 1, %favoured
  %favoured.ready = and i32 %ready, %favoured.bit
  %can = icmp ne i32 %favoured.ready, 0
  %long = icmp uge i32 %turn.number, $PATIENCE
  %fair.now = and i1 %odd, %long
  %fair = and i1 %fair.now, %can
  %favoured.step = call i32 @word(ptr %states, i32 %favoured, i64 $PC_AT)
  %pc = select i1 %fair, i32 %favoured.step, i32 %lowest
  %lanes = call i32 @lanes.with(ptr %states, i32 %ready, i64 $PC_AT, i32 %pc)
  %pc.wide = zext i32 %pc to i64
  %order.at = getelementptr i8, ptr @orders, i64 %pc.wide
  %order.byte = load i8, ptr %order.at
  %order = zext i8 %order.byte to i32
  call void @run.lanes(ptr %block, i32 %warp, ptr %states, i32 %pc, i32 %lanes, i32 %order)
  %kind.at = getelementptr i8, ptr @kinds, i64 %pc.wide
  %kind = load i8, ptr %kind.at
  %gone = call i32 @lanes.with(ptr %states, i32 %lanes, i64 $STATUS_AT, i32 $EXITED)
  %any.gone = icmp ne i32 %gone, 0
  %is.across = icmp eq i8 %kind, $KIND_ACROSS
  %look = or i1 %any.gone, %is.across
  br i1 %look, label %releasing, label %turn
releasing:
  call void @release(ptr %block, i32 %warp, ptr %states)
  br label %turn

nobody:
  %waiting = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $WAITING)
  %any.waiting = icmp ne i32 %waiting, 0
  br i1 %any.waiting, label %in.vain, label %barriers
in.vain:
  call void @pass.across(ptr %block, i32 %warp, ptr %states, i32 %waiting)
  br label %turn
barriers:
  %stopped = call i32 @lanes.with(ptr %states, i32 -1, i64 $STATUS_AT, i32 $AT_BARRIER)
  %any.stopped = icmp ne i32 %stopped, 0
  br i1 %any.stopped, label %arriving, label %finished
arriving:
  call void @arrive(ptr %block, i32 %warp, ptr %states, i32 %stopped, ptr %record)
  ret i32 $BEHIND_BARRIER
yield:
  store i32 $AFTER_YIELD, ptr %resume.at
  store i32 $STOP_YIELD, ptr %stop.at
  ret i32 $AFTER_YIELD
finished:
  store i32 $DONE, ptr %resume.at
  store i32 $STOP_DONE, ptr %stop.at
  ret i32 $DONE
}
"""

BLOCKS = """\
; Begins block %first: its warps are about to start; `step` does all the rest.
define i64 @blocks(ptr %block, i64 %first, i64 %end) #0 {
entry:
  %launch.at = getelementptr i8, ptr %block, i64 $LAUNCH_AT
  %launch = load ptr, ptr %launch.at
  %grid = getelementptr i8, ptr %launch, i64 $GRID_AT
  %grid.x = load i32, ptr %grid
  %grid.y.at = getelementptr i8, ptr %grid, i64 4
  %grid.y = load i32, ptr %grid.y.at
  %index = trunc i64 %first to i32
  %x = urem i32 %index, %grid.x
  %rows = udiv i32 %index, %grid.x
  %y = urem i32 %rows, %grid.y
  %z = udiv i32 %rows, %grid.y
  %ctaid = getelementptr i8, ptr %block, i64 $CTAID_AT
  store i32 %x, ptr %ctaid
  %y.at = getelementptr i8, ptr %ctaid, i64 4
  store i32 %y, ptr %y.at
  %z.at = getelementptr i8, ptr %ctaid, i64 8
  store i32 %z, ptr %z.at
  %index.at = getelementptr i8, ptr %block, i64 $INDEX_AT
  store i32 %index, ptr %index.at
  %threads = call i32 @threads.of(ptr %block)
  %warps.at = getelementptr i8, ptr %block, i64 $WARPS_AT
  %warps = load ptr, ptr %warps.at
  br label %head
head:
  %warp = phi i32 [ 0, %entry ], [ %next, %work ]
  %before = mul i32 %warp, $LANES
  %more = icmp ult i32 %before, %threads
  br i1 %more, label %work, label %done
work:
  %wide = zext i32 %warp to i64
  %far = mul i64 %wide, $WARP_SIZE
  %record = getelementptr i8, ptr %warps, i64 %far
  %resume.at = getelementptr i8, ptr %record, i64 $RESUME_AT
  store i32 0, ptr %resume.at
  %stop.at = getelementptr i8, ptr %record, i64 $STOP_AT
  store i32 $STOP_YIELD, ptr %stop.at
  %next = add i32 %warp, 1
  br label %head
done:
  ret i64 %first
}
"""
