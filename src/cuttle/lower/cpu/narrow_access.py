"""Masked gathers and scatters that the processor has no instruction for, as small functions with a loop over the lanes.

LLVM unrolls each such access into a branch per lane, and the pass that does it starts again at the function's beginning
every time: hundreds of them take longer than all the rest of a compilation.
"""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value

NATIVE_WITH_AVX512 = ("i32", "i64")


def has_instruction(element: str, avx512: bool) -> bool:
    """Whether gathers and scatters of the element type are instructions."""
    return avx512 and element in NATIVE_WITH_AVX512


def masked_gather(e: Emitter, element: str, pointers: Value, mask: Value, note: str) -> Value:
    """Each active lane's element; 0 in the others."""
    lanes = pointers.lanes
    vector, bits = f"<{lanes} x {element}>", f"i{lanes}"
    name = f"@cuttle.gather.v{lanes}{element}"
    e.declare(f"@llvm.cttz.{bits}", f"declare {bits} @llvm.cttz.{bits}({bits}, i1)")
    e.declare(name, _function(f"{vector} {name}", "", element, lanes, is_load=True))
    active = e.emit(bits, 1, f"bitcast {mask.typed} to {bits}")
    return e.emit(element, lanes, f"call {vector} {name}({pointers.typed}, {active.typed}){note}")


def masked_scatter(e: Emitter, element: str, pointers: Value, mask: Value, value: Value, note: str) -> None:
    """Each active lane stores its element, in ascending order of lanes."""
    lanes = pointers.lanes
    vector, bits = f"<{lanes} x {element}>", f"i{lanes}"
    name = f"@cuttle.scatter.v{lanes}{element}"
    e.declare(f"@llvm.cttz.{bits}", f"declare {bits} @llvm.cttz.{bits}({bits}, i1)")
    e.declare(name, _function(f"void {name}", f"{vector} %values, ", element, lanes, is_load=False))
    active = e.emit(bits, 1, f"bitcast {mask.typed} to {bits}")
    e.line(f"call void {name}({value.typed}, {pointers.typed}, {active.typed}){note}")


def _function(head: str, values: str, element: str, lanes: int, *, is_load: bool) -> str:
    vector, bits = f"<{lanes} x {element}>", f"i{lanes}"
    size = max(int(element[1:]) // 8, 1)
    first = "zeroinitializer" if is_load else "%values"
    lane_address = ["  %element.at = getelementptr [0 x ELEMENT], ptr %elements, i64 0, i64 %place"]
    if is_load:
        work = [
            f"  %element = load ELEMENT, ptr %pointer, align {size}",
            *lane_address,
            f"  store ELEMENT %element, ptr %element.at, align {size}",
        ]
        end = [f"  %result = load {vector}, ptr %elements, align 64", f"  ret {vector} %result"]
    else:
        work = [
            *lane_address,
            f"  %element = load ELEMENT, ptr %element.at, align {size}",
            f"  store ELEMENT %element, ptr %pointer, align {size}",
        ]
        end = ["  ret void"]
    lines = [
        f"define internal {head}({values}<{lanes} x ptr> %pointers, {bits} %active) noinline #0 {{",
        "entry:",
        f"  %elements = alloca {vector}, align 64",
        f"  %addresses = alloca <{lanes} x ptr>, align 64",
        f"  store {vector} {first}, ptr %elements, align 64",
        f"  store <{lanes} x ptr> %pointers, ptr %addresses, align 64",
        "  br label %head",
        "head:",
        f"  %left = phi {bits} [ %active, %entry ], [ %rest, %work ]",
        f"  %none = icmp eq {bits} %left, 0",
        "  br i1 %none, label %done, label %work",
        "work:",
        f"  %lane = call {bits} @llvm.cttz.{bits}({bits} %left, i1 true)",
        f"  %lower = sub {bits} %left, 1",
        f"  %rest = and {bits} %left, %lower",
        f"  %place = zext {bits} %lane to i64",
        f"  %pointer.at = getelementptr [{lanes} x ptr], ptr %addresses, i64 0, i64 %place",
        "  %pointer = load ptr, ptr %pointer.at, align 8",
        *work,
        "  br label %head",
        "done:",
        *end,
        "}",
    ]
    return "\n".join(lines).replace("ELEMENT", element)
