"""The forms of mma, mma.sp, wmma.mma and wmma.load, the inputs of their calls, and the kernels that execute them.

One kernel per form; a warp is one call. Each reads its operand registers (wmma.mma: its matrices), whose values
`inputs_of` makes from the form, the number of the call and the seed, executes the one instruction and writes the
destination registers: for each call, for each register the 32 lanes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.matrix_forms import (
    ELEMENT_BITS,
    INTEGERS,
    MatrixForm,
    form_of,
    kinds_after_shape,
    operand_registers,
    selectors,
    shape_of,
    wmma_registers,
)
from cuttle.ptx.opcode_roots import split_opcode

# -- values ----------------------------------------------------------------------------------------------------------

# (exponent bits, mantissa bits, has infinities) of the float kinds; tf32 is stored as f32.
LAYOUT = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2),
}  # fmt: skip
MODES = ("near", "wide", "full", "sparse", "cancel", "tiny", "huge", "special", "floor")
# Exponents of products that reach the ends of f32, f64 or f16 accumulators.
EDGES = {"bf16": 64, "tf32": 64, "f64": 512}


def encode(kind: str, negative: bool, exponent: int, fraction: int) -> int:
    """(-1)**negative * (1 + fraction / 2**mantissa bits) * 2**exponent in the kind; clamped, or subnormal and cut."""
    exponent_bits, mantissa_bits = LAYOUT[kind]
    bias = (1 << (exponent_bits - 1)) - 1
    fraction &= (1 << mantissa_bits) - 1
    top = (1 << exponent_bits) - 1 - bias - (0 if kind == "e4m3" else 1)
    exponent = min(exponent, top)
    if exponent < 1 - bias:
        shift = 1 - bias - exponent
        magnitude = (fraction | 1 << mantissa_bits) >> shift
    else:
        magnitude = (exponent + bias) << mantissa_bits | fraction
    if kind == "e4m3" and magnitude == 0x7F:
        magnitude = 0x7E
    return int(negative) << (exponent_bits + mantissa_bits) | magnitude


def ranges(kind: str, mode: str, accumulator: str) -> tuple[int, int, int, int]:
    """Exponents of the elements and of the accumulator: least and largest of each."""
    edge = EDGES.get(kind, 0)
    low, high = {"f16": (-14, 15), "e4m3": (-6, 8), "e5m2": (-14, 15)}.get(kind, (-edge, edge - 1))
    if mode == "wide":
        return max(-7, low), min(7, high), -14, 14
    if mode == "full":
        return low, high, 2 * low, 2 * high
    if mode == "sparse":
        return max(-9, low), min(9, high), -20, 20
    if mode == "cancel":
        return 0, 0, 1, 4
    if mode == "tiny":
        bottom = {"f16": -24, "e4m3": -9, "e5m2": -16}.get(kind, -edge - 14)
        end = {"f16": -24, "f32": -149, "f64": -1074}[accumulator]
        return bottom, bottom + 14, max(2 * bottom, end), 2 * bottom + 30
    if mode == "floor":
        # Powers of two whose products are around the last bits of the accumulator.
        least = {"f16": (-24, -8, -48, -14), "e4m3": (-9, -1, -18, -8), "e5m2": (-16, -6, -32, -12)}
        if kind in least:
            return least[kind]
        return (-88, -64, -149, -127) if kind != "f64" else (-550, -500, -1074, -1020)
    if mode == "huge":
        if accumulator == "f16":
            return 4, 7, 12, 15
        return high - 3, high, 2 * high - 6, 2 * high + 1
    return -2, 2, -3, 5


@cache
def pool(kind: str, mode: str, role: str, partner: str, seed: int) -> tuple[bytes, ...]:
    """256 values, of which inputs are drawn. `role`: `ab` or `c`; `partner` the element kind for c, else c's."""
    bits = ELEMENT_BITS[kind]
    start = f"{kind}/{mode}/{role}/{partner}" + (f"/{seed}" if seed > 1 else "")
    stream = hashlib.shake_128(start.encode()).digest(256 * 16)
    values: list[int] = []
    for index in range(256):
        number = int.from_bytes(stream[16 * index : 16 * index + 16], "little")
        values.append(draw(kind, mode, role, partner, number, index))
    return tuple(value.to_bytes((bits + 7) // 8, "little") for value in values)


def draw(kind: str, mode: str, role: str, partner: str, number: int, index: int) -> int:
    if kind in INTEGERS or kind == "s32":
        value = number & (1 << ELEMENT_BITS[kind]) - 1
        if kind == "s32" and mode != "near":
            # Near the ends of the range, where sums wrap or saturate.
            value = (0x7FFFFFFF - value % 70000) if index & 1 else (0x80000000 + value % 70000)
        elif mode == "wide" and kind != "b1":
            value = (0, 1 << ELEMENT_BITS[kind] - 1, (1 << ELEMENT_BITS[kind]) - 1, (1 << ELEMENT_BITS[kind] - 1) - 1)[
                value & 3
            ]
        return value
    exponent_bits, mantissa_bits = LAYOUT[kind]
    if role == "ab":
        low, high, _, _ = ranges(kind, mode, partner)
    else:
        _, _, low, high = ranges(partner, mode, kind)
    negative, fraction = bool(number & 1), number >> 1 & (1 << mantissa_bits) - 1
    exponent = low + (number >> 64) % (high - low + 1)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if mode == "special" and index < 9:
        size = 1 << (exponent_bits + mantissa_bits)
        nan = infinity | 1 << (mantissa_bits - 1) | fraction
        if kind == "e4m3":
            return (0, size, 0x7F, 0xFF, 1, 0x7E, 0x81, 0xFE, 0x08)[index]
        return (
            0,
            size,
            infinity,
            infinity | size,
            nan,
            infinity | 1 | size,
            1,
            infinity - 1,
            size | 1 << mantissa_bits,
        )[index]
    if mode == "sparse":
        if index % 5 < 3:
            return int(negative) << (exponent_bits + mantissa_bits)
        fraction = (0, 0, (1 << mantissa_bits) - 1, 1, fraction)[(number >> 100) % 5]
    if mode == "floor":
        if index % 4 < (2 if role == "ab" else 3):
            return 0
        if kind == "f16" and role == "ab":
            # Half of the last place of a subnormal result, or less than that by far.
            exponent = (-13, -12, -13, -12, -24, -23, -22, -21)[(number >> 64) % 8]
        fraction = (0, 0, 1 << (mantissa_bits - 1), (1 << mantissa_bits) - 1)[(number >> 100) % 4]
    if mode == "cancel":
        fraction &= -1 << max(mantissa_bits - 3, 0) | int(index % 7 == 0)
    if mode == "full" and role == "ab" and kind in ("e4m3", "e5m2"):
        value = number & 0xFF
        return value if value & 0x7F < (0x7F if kind == "e4m3" else 0x7C) else value ^ 0x40
    if index == 255:
        return int(negative) << (exponent_bits + mantissa_bits)
    return encode(kind, negative, exponent, fraction)


def elements(kind: str, mode: str, role: str, partner: str, count: int, start: str, seed: int) -> bytes:
    """`count` elements as they lie in memory or in registers."""
    bits = ELEMENT_BITS[kind]
    if bits < 8:
        return hashlib.shake_128(start.encode()).digest(count * bits // 8)
    table = pool(kind, mode, role, partner, seed)
    return b"".join([table[index] for index in hashlib.shake_128(start.encode()).digest(count)])


def metadata(form: MatrixForm, seed: str, wild: bool) -> bytes:
    """32 lanes of sparsity metadata: pairs of indices in ascending order, or any at all if `wild` (not for tf32)."""
    random = hashlib.shake_128(seed.encode()).digest(256)
    if wild and form.a_kind != "tf32":
        return random[:128]
    table = (0b1110, 0b0100) if form.a_kind == "tf32" else (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
    return bytes(
        table[x % len(table)] | table[y % len(table)] << 4 for x, y in zip(random[::2], random[1::2], strict=True)
    )


# -- forms -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """One kernel: the spelling, and the sparsity selector of mma.sp (`name` is both)."""

    spelling: str
    form: MatrixForm
    selector: int | None = None

    @property
    def name(self) -> str:
        return self.spelling if self.selector is None else f"{self.spelling} {self.selector}"

    @property
    def width(self) -> int:
        return 64 if self.form.a_kind == "f64" else 32

    def groups(self) -> dict[int, int]:
        return operand_registers(self.form)

    @property
    def result_bytes(self) -> int:
        return self.groups()[0] * 32 * self.width // 8


def recorded_of(name: str) -> Recorded:
    """The kernel that a recorded name stands for: a spelling, and the selector behind it if there is one. Raises ValueError."""
    spelling, _, selector = name.partition(" ")
    parts = split_opcode(spelling)
    try:
        form = form_of(parts[0], parts[1]) if parts is not None else None
    except (LookupError, ValueError, StopIteration):
        form = None
    if form is None or not re.fullmatch(r"[0-3]?", selector):
        raise ValueError(f"{name} is no matrix form")
    return Recorded(spelling, form, int(selector) if selector else None)


def all_forms() -> list[Recorded]:
    forms: list[Recorded] = []
    for opcode in ("mma", "mma.sp", "mma.sp::ordered_metadata", "wmma.mma"):
        for spelling in expand_all(OPCODES[opcode].syntax):
            item = recorded_of(spelling)
            if item.form.sparse:
                forms.extend(Recorded(spelling, item.form, s) for s in range(selectors(item.form)))
            else:
                forms.append(item)
    return forms


def modes_of(item: Recorded) -> tuple[str, ...]:
    return MODES[:3] if item.form.a_kind in INTEGERS else MODES


def calls_of(item: Recorded, factor: int) -> int:
    """Calls recorded: `factor` rounds of the modes; three calls for forms that differ from another in a detail."""
    modifiers = item.spelling.split(".")
    twin = (
        "ordered_metadata" in item.spelling
        or (item.selector or 0) > 0
        or (item.form.opcode == "wmma.mma" and "row.col" not in item.spelling)
        or any(name in modifiers for name in ("rz", "rm", "rp", "rn"))
        or (item.form.volta and "row.col" not in item.spelling)
    )
    return max(3, factor // 3) if twin else len(modes_of(item)) * factor


def inputs_of(item: Recorded, call: int, seed: int = 1) -> bytes:
    """Operands a, b, c and the metadata of one call: registers of 32 lanes each; for wmma.mma the three matrices."""
    form = item.form
    mode = modes_of(item)[call % len(modes_of(item))]
    start = f"{item.spelling.removesuffix('.satfinite')}/{call}" + (f"/{seed}" if seed > 1 else "")
    groups = item.groups()
    parts: list[bytes] = []
    for index, (role, kind) in enumerate((("a", form.a_kind), ("b", form.b_kind), ("c", form.c_kind)), 1):
        if form.opcode == "wmma.mma":
            count = {"a": form.m * form.k, "b": form.k * form.n}.get(role, form.m * form.n)
        else:
            count = groups[index] * 32 * item.width // ELEMENT_BITS[kind]
        partner = form.a_kind if role == "c" else form.c_kind
        parts.append(elements(kind, mode, "c" if role == "c" else "ab", partner, count, f"{start}/{role}", seed))
    if form.sparse:
        parts.append(metadata(form, f"{start}/e", wild=call % 16 == 11))
    return b"".join(parts)


# -- wmma layouts ----------------------------------------------------------------------------------------------------


def load_forms() -> list[str]:
    """wmma.load forms whose register layout is recorded: without a state space, which changes nothing."""
    return [t for t in expand_all(OPCODES["wmma.load"].syntax) if ".global" not in t and ".shared" not in t]


def load_shape(spelling: str) -> tuple[str, int, int, int, str, int]:
    """(role, rows, columns, leading dimension, kind, registers) of a wmma.load."""
    names = spelling.split(".")
    shape, kind, role = shape_of(names), kinds_after_shape(names)[-1], names[2]
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    return role, rows, columns, columns if "row" in names else rows, kind, wmma_registers(role, shape, kind)


def planes(spelling: str) -> int:
    """Loads needed until every element has told its index in memory."""
    _, rows, columns, _, kind, _ = load_shape(spelling)
    return -(-(rows * columns - 1).bit_length() // ELEMENT_BITS[kind])


def plane(spelling: str, number: int) -> bytes:
    """A matrix in memory whose elements are digit `number` of their own indices."""
    _, rows, columns, _, kind, _ = load_shape(spelling)
    bits = ELEMENT_BITS[kind]
    total = 0
    mask = (1 << min(bits, 16)) - 1
    for index in range(rows * columns):
        total |= (index >> bits * number & mask) << bits * index
    return total.to_bytes(rows * columns * bits // 8, "little")


# -- PTX -------------------------------------------------------------------------------------------------------------


def kernel(item: Recorded, name: str) -> str:
    """`name(in, out, calls)`: one warp per call."""
    form, groups, width = item.form, item.groups(), item.width
    size = len(inputs_of(item, 0))
    lines = start(name, size, item.result_bytes)
    braces = []
    offset = 0
    for index, prefix in enumerate("dabc"):
        lines.append(f".reg .b{width} %{prefix}<{groups[index]}>;")
        braces.append("{" + ", ".join(f"%{prefix}{i}" for i in range(groups[index])) + "}")
    if form.opcode == "wmma.mma":
        names = item.spelling.split(".")
        shape = next(x for x in names if re.fullmatch(r"m\d+n\d+k\d+", x))
        layouts = [x for x in names if x in ("row", "col")]
        for index, (role, kind) in enumerate((("a", form.a_kind), ("b", form.b_kind), ("c", form.c_kind)), 1):
            rows, columns = {"a": (form.m, form.k), "b": (form.k, form.n)}.get(role, (form.m, form.n))
            layout = layouts[index - 1] if role != "c" else "row"
            leading = columns if layout == "row" else rows
            lines.append(
                f"wmma.load.{role}.sync.aligned.{layout}.{shape}.global.{kind} {braces[index]}, [%in+{offset}], {leading};"
            )
            offset += rows * columns * ELEMENT_BITS[kind] // 8
        lines.append(f"{item.spelling} {', '.join(braces)};")
    else:
        lines += [".reg .b32 %e;", f"mad.wide.u32 %in, %lane, {width // 8}, %in;"]
        for index, prefix in enumerate("abc", 1):
            for i in range(groups[index]):
                lines.append(f"ld.global.b{width} %{prefix}{i}, [%in+{offset}];")
                offset += 4 * width
        tail = ""
        if form.sparse:
            lines.append(f"ld.global.b32 %e, [%in+{offset}];")
            tail = f", %e, {item.selector}"
        lines.append(f"{item.spelling} {', '.join(braces)}{tail};")
    return "\n".join([*lines, *finish("d", groups[0], width)])


def load_kernel(spelling: str, name: str) -> str:
    """The registers of wmma.load for each plane."""
    _, _, _, leading, kind, count = load_shape(spelling)
    width = 64 if kind == "f64" else 32
    lines = start(name, len(plane(spelling, 0)), count * 4 * width)
    brace = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    lines += [f".reg .b{width} %d<{count}>;", f"{spelling} {brace}, [%in], {leading};"]
    return "\n".join([*lines, *finish("d", count, width)])


def start(name: str, in_bytes: int, out_bytes: int) -> list[str]:
    return [
        f".visible .entry {name}(.param .u64 pin, .param .u64 pout, .param .u32 pcalls)", "{",
        ".reg .pred %stop;", ".reg .b32 %lane, %warp, %size, %block, %calls;", ".reg .b64 %in, %out;",
        "ld.param.u64 %in, [pin];", "ld.param.u64 %out, [pout];", "ld.param.u32 %calls, [pcalls];",
        "mov.u32 %lane, %tid.x;", "mov.u32 %size, %ntid.x;", "mov.u32 %block, %ctaid.x;",
        "mad.lo.u32 %warp, %block, %size, %lane;", "shr.u32 %warp, %warp, 5;", "and.b32 %lane, %lane, 31;",
        "setp.ge.u32 %stop, %warp, %calls;", "@%stop ret;",
        f"mad.wide.u32 %in, %warp, {in_bytes}, %in;", f"mad.wide.u32 %out, %warp, {out_bytes}, %out;",
    ]  # fmt: skip


def finish(prefix: str, count: int, width: int) -> list[str]:
    lines = [f"mad.wide.u32 %out, %lane, {width // 8}, %out;"]
    lines += [f"st.global.b{width} [%out+{4 * width * i}], %{prefix}{i};" for i in range(count)]
    return [*lines, "ret;", "}"]
