"""Small functions with a loop over lanes: registers and memory of a warp as vectors."""

from __future__ import annotations

from cuttle.abi import wire_layout as wire
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.plain.lane_record import BASE_AT, LANE_RECORD_BYTES
from cuttle.lower.plain.places import LANES


def _loop(name: str, result: str, parameters: str, before: list[str], body: list[str], after: list[str]) -> str:
    """A function that runs `body` for each lane of `%lanes`, `%lane` (i64) ascending."""
    lines = [
        f"define internal {result} {name}({parameters}) noinline #0 {{",
        "entry:",
        *before,
        "  br label %head",
        "head:",
        "  %lane = phi i64 [ 0, %entry ], [ %next, %following ]",
        f"  %more = icmp ult i64 %lane, {LANES}",
        "  br i1 %more, label %look, label %done",
        "look:",
        "  %short = trunc i64 %lane to i32",
        "  %shifted = lshr i32 %lanes, %short",
        "  %here = trunc i32 %shifted to i1",
        "  br i1 %here, label %work, label %following",
        "work:",
        *body,
        "  br label %following",
        "following:",
        "  %next = add i64 %lane, 1",
        "  br label %head",
        "done:",
        *after,
        "}",
    ]
    return "\n".join(lines)


def _element(array: str, element: str, index: str, name: str) -> str:
    return f"  {name} = getelementptr [{LANES} x {element}], ptr {array}, i64 0, i64 {index}"


def _lane_place(local_bytes: int) -> list[str]:
    """`%mine`: the local memory of lane `%lane` of warp `%warp`; `%me`: its activation there."""
    return [
        f"  %local.at = getelementptr i8, ptr %block, i64 {wire.KERNEL_BLOCK_LOCAL_AT}",
        "  %local = load ptr, ptr %local.at",
        "  %wide = zext i32 %warp to i64",
        f"  %first = mul i64 %wide, {LANES}",
        "  %thread = add i64 %first, %lane",
        f"  %far = mul i64 %thread, {local_bytes}",
        "  %mine = getelementptr i8, ptr %local, i64 %far",
        f"  %record = mul i64 %lane, {LANE_RECORD_BYTES}",
        "  %state = getelementptr i8, ptr %states, i64 %record",
        f"  %base.at = getelementptr i8, ptr %state, i64 {BASE_AT}",
        "  %base = load i32, ptr %base.at",
        "  %base.wide = zext i32 %base to i64",
        "  %me = getelementptr i8, ptr %mine, i64 %base.wide",
    ]


def read_registers(e: Emitter, element: str, at: int, local_bytes: int) -> Value:
    """The register at `at` of each lane's activation, 0 for lanes that are not here; `at` -1: where it begins (i32)."""
    vector = f"<{LANES} x {element}>"
    name = f"@registers.read.{element}" if at >= 0 else "@registers.bases"
    source = (
        ["  %place = getelementptr i8, ptr %me, i64 %at", f"  %value = load {element}, ptr %place, align 1"]
        if at >= 0
        else ["  %value = add i32 %base, 0"]
    )
    e.declare(
        name,
        _loop(
            name,
            vector,
            "ptr %block, i32 %warp, i32 %lanes, ptr %states, i64 %at",
            [f"  %all = alloca {vector}, align 64", f"  store {vector} zeroinitializer, ptr %all, align 64"],
            [
                *_lane_place(local_bytes),
                *source,
                _element("%all", element, "%lane", "%mine.of.all"),
                f"  store {element} %value, ptr %mine.of.all, align 1",
            ],
            [f"  %result = load {vector}, ptr %all, align 64", f"  ret {vector} %result"],
        ),
    )
    return e.emit(element, LANES, f"call {vector} {name}(ptr %block, i32 %warp, i32 %lanes, ptr %states, i64 {at})")


def write_registers(e: Emitter, value: Value, at: int, local_bytes: int) -> None:
    """Each lane's element into the register at `at` of its activation."""
    element, vector = value.type, value.llvm_type
    name = f"@registers.write.{element}"
    e.declare(
        name,
        _loop(
            name,
            "void",
            f"ptr %block, i32 %warp, i32 %lanes, ptr %states, i64 %at, {vector} %values",
            [f"  %all = alloca {vector}, align 64", f"  store {vector} %values, ptr %all, align 64"],
            [
                *_lane_place(local_bytes),
                _element("%all", element, "%lane", "%mine.of.all"),
                f"  %value = load {element}, ptr %mine.of.all, align 1",
                "  %place = getelementptr i8, ptr %me, i64 %at",
                f"  store {element} %value, ptr %place, align 1",
            ],
            ["  ret void"],
        ),
    )
    e.line(f"call void {name}(ptr %block, i32 %warp, i32 %lanes, ptr %states, i64 {at}, {value.typed})")


def lane_local_bases(e: Emitter, local_bytes: int) -> Value:
    """The address of each lane's local memory (i64)."""
    local = e.emit("ptr", 1, f"getelementptr i8, ptr %block, i64 {wire.KERNEL_BLOCK_LOCAL_AT}")
    start = e.emit("i64", 1, f"load i64, {local.typed}")
    first = e.mul(e.cast("zext", Value("i32", "%warp"), "i64"), e.const("i64", LANES * local_bytes))
    return e.add(e.add(start, first), e.vector_constant("i64", [lane * local_bytes for lane in range(LANES)]))


def gather(e: Emitter, element: str, addresses: Value, active: Value) -> Value:
    """What lies at each active lane's address; 0 for the others."""
    vector = f"<{LANES} x {element}>"
    name = f"@memory.gather.{element}"
    e.declare(
        name,
        _loop(
            name,
            vector,
            f"<{LANES} x i64> %addresses, i32 %lanes",
            [
                f"  %all = alloca {vector}, align 64",
                f"  store {vector} zeroinitializer, ptr %all, align 64",
                f"  %places = alloca <{LANES} x i64>, align 64",
                f"  store <{LANES} x i64> %addresses, ptr %places, align 64",
            ],
            [
                _element("%places", "i64", "%lane", "%place.at"),
                "  %place = load ptr, ptr %place.at",
                f"  %value = load {element}, ptr %place, align 1",
                _element("%all", element, "%lane", "%mine.of.all"),
                f"  store {element} %value, ptr %mine.of.all, align 1",
            ],
            [f"  %result = load {vector}, ptr %all, align 64", f"  ret {vector} %result"],
        ),
    )
    return e.emit(element, LANES, f"call {vector} {name}({addresses.typed}, {active.typed})")


def scatter(e: Emitter, addresses: Value, value: Value, active: Value) -> None:
    """Each active lane's element to its address."""
    element, vector = value.type, value.llvm_type
    name = f"@memory.scatter.{element}"
    e.declare(
        name,
        _loop(
            name,
            "void",
            f"<{LANES} x i64> %addresses, {vector} %values, i32 %lanes",
            [
                f"  %all = alloca {vector}, align 64",
                f"  store {vector} %values, ptr %all, align 64",
                f"  %places = alloca <{LANES} x i64>, align 64",
                f"  store <{LANES} x i64> %addresses, ptr %places, align 64",
            ],
            [
                _element("%places", "i64", "%lane", "%place.at"),
                "  %place = load ptr, ptr %place.at",
                _element("%all", element, "%lane", "%mine.of.all"),
                f"  %value = load {element}, ptr %mine.of.all, align 1",
                f"  store {element} %value, ptr %place, align 1",
            ],
            ["  ret void"],
        ),
    )
    e.line(f"call void {name}({addresses.typed}, {value.typed}, {active.typed})")


def shuffle_lanes(e: Emitter, value: Value, source: Value) -> Value:
    """Lane i gets the element of lane `source[i]`, modulo 32."""
    element, vector = value.type, value.llvm_type
    name = f"@lanes.shuffle.{element}"
    e.declare(
        name,
        _loop(
            name,
            vector,
            f"{vector} %values, <{LANES} x i32> %sources, i32 %lanes",
            [
                f"  %all = alloca {vector}, align 64",
                f"  store {vector} %values, ptr %all, align 64",
                f"  %from = alloca <{LANES} x i32>, align 64",
                f"  store <{LANES} x i32> %sources, ptr %from, align 64",
                f"  %out = alloca {vector}, align 64",
            ],
            [
                _element("%from", "i32", "%lane", "%from.at"),
                "  %source = load i32, ptr %from.at",
                f"  %inside = and i32 %source, {LANES - 1}",
                "  %index = zext i32 %inside to i64",
                _element("%all", element, "%index", "%source.at"),
                f"  %value = load {element}, ptr %source.at, align 1",
                _element("%out", element, "%lane", "%out.at"),
                f"  store {element} %value, ptr %out.at, align 1",
            ],
            [f"  %result = load {vector}, ptr %out, align 64", f"  ret {vector} %result"],
        ),
    )
    return e.emit(element, LANES, f"call {vector} {name}({value.typed}, {source.typed}, i32 -1)")
