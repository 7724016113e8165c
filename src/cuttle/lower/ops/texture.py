"""Textures and surfaces (PTX ISA 9.0, 9.7.10, 9.7.11) on descriptors in device memory (`abi/texture.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuttle.abi.ptx_isa.refused_on_amdgpu import TEXTURE_FORMS
from cuttle.abi.texture import (
    FLAG_LINEAR,
    FLAG_NORMALISED_COORDINATES,
    FORM_CHANNEL_SHIFT,
    FORM_CUBE,
    FORM_GATHER,
    FORM_GRADIENTS,
    FORM_HALF,
    FORM_INTEGER,
    FORM_LAYERED,
    FORM_LEVEL,
    FORM_OFFSETS,
    KIND_SIGNED,
    LEVEL,
    LEVEL_OFFSETS,
    TEXTURE_OFFSETS,
)
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import approximate
from cuttle.lower.ops.element_types import pack, type_bits
from cuttle.lower.ops.texel_stores import store_texel
from cuttle.lower.ops.texels import CHANNELS, Descriptor, Sampler
from cuttle.ptx.ir import Address, Instruction, Symbol, TextureOperand, Vector

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}
CUBES = ("cube", "acube")


def _geometry(instruction: Instruction) -> tuple[int, bool]:
    """(dimensions, layered). A cube map has three coordinates."""
    for modifier in instruction.modifiers:
        if modifier in _DIMENSIONS:
            return _DIMENSIONS[modifier], modifier.startswith("a")
    raise ValueError("no texture geometry")


@dataclass(slots=True)
class Access:
    """The operands of `tex` and `tld4` told apart: handles, coordinates, level or gradients, texel offsets.

    A value to compare with (`depth`) may follow; no sampler that CUDA makes compares, and an H200 leaves it alone.
    """

    form: int
    texture: Value
    sampler: Value
    layer: Value | None
    coordinates: list[Value]
    level: Value | None
    gradients: list[Value]
    offsets: list[Value]


def _object(machine: Machine, operand: object, value: Value) -> Value:
    """The handle of an object; a variable (`.texref`, `.surfref`) holds it."""
    if not isinstance(operand, Symbol):
        return value
    return machine.load("generic", 64, 1, value)[0]


def _access(machine: Machine, instruction: Instruction, operands: Sequence[Value]) -> Access:
    place, operand = next((i, o) for i, o in enumerate(instruction.operands) if isinstance(o, TextureOperand))
    rest = list(operands)
    texture = _object(machine, operand.texture, rest.pop(0))
    sampler = _object(machine, operand.sampler, rest.pop(0)) if operand.sampler is not None else texture
    dimensions, layered = _geometry(instruction)
    form = dimensions | (FORM_LAYERED if layered else 0)
    coordinates, rest = rest[: len(operand.coordinates.elements)], rest[len(operand.coordinates.elements) :]
    layer = coordinates.pop(0) if layered else None
    form |= FORM_CUBE if any(instruction.has(cube) for cube in CUBES) else 0
    if instruction.type != "f32":
        form |= FORM_INTEGER
    behind = list(instruction.operands[place + 1 :])
    level = None
    gradients: list[Value] = []
    if instruction.has("level"):
        form |= FORM_LEVEL
        level = rest.pop(0)
        behind.pop(0)
    elif instruction.has("grad"):
        form |= FORM_GRADIENTS
        for _ in range(2):
            vector = behind.pop(0)
            count = len(vector.elements) if isinstance(vector, Vector) else 1
            gradients += rest[:dimensions]
            rest = rest[count:]
    offsets: list[Value] = []
    if behind and isinstance(behind[0], Vector):
        form |= FORM_OFFSETS
        offsets = rest[:dimensions]
    return Access(form, texture, sampler, layer, coordinates[:dimensions], level, gradients, offsets)


def _packed_offsets(machine: Machine, instruction: Instruction, offsets: Sequence[Value]) -> Value:
    """A byte for each axis, from 4 bits of `tex`'s operands and 6 of `tld4`'s, as compiled code packs them.

    That of a row goes to the hardware as it is, a row of an image: four more bits move it off the row.
    """
    emitter = machine.emitter
    bits = 6 if instruction.opcode == "tld4" else 4
    parts = [emitter.as_bits(offset) for offset in offsets]
    if instruction.has("1d"):
        parts.append(emitter.lshr(parts[0], emitter.const("i32", bits)))
    packed = emitter.const("i32", 0)
    for axis, part in enumerate(parts):
        top = emitter.const("i32", 32 - bits)
        extended = emitter.ashr(emitter.shl(part, top), top)
        byte = emitter.and_(extended, emitter.const("i32", 255))
        packed = emitter.or_(packed, emitter.shl(byte, emitter.const("i32", 8 * axis)))
    return packed


def _to_largest(emitter: Emitter, direction: Sequence[Value]) -> Value:
    """What a direction is multiplied by to have 1 as its largest component, as compiled code does before it asks a cube map."""
    sizes = [emitter.intrinsic("llvm.fabs", [value]) for value in direction]
    most = sizes[0]
    for size in sizes[1:]:
        most = emitter.intrinsic("llvm.maxnum", [most, size])
    return approximate.reciprocal(emitter, most, True)


def _words(machine: Machine, instruction: Instruction, access: Access) -> list[Value]:
    """The access as the words that `Machine.texture` takes."""
    emitter = machine.emitter
    words: list[Value] = []
    for handle in (access.texture, access.sampler):
        high = emitter.cast("trunc", emitter.lshr(handle, emitter.const("i64", 32)), "i32")
        words += [emitter.cast("trunc", handle, "i32"), high]
    if access.layer is not None:
        words.append(access.layer)
    coordinates, gradients = access.coordinates, access.gradients
    if access.form & FORM_CUBE:
        scale = _to_largest(emitter, coordinates)
        coordinates = [emitter.binary("fmul", value, scale) for value in coordinates]
        gradients = [emitter.binary("fmul", value, scale) for value in gradients]
    words += coordinates
    words += [access.level] if access.level is not None else gradients
    if access.offsets:
        words.append(_packed_offsets(machine, instruction, access.offsets))
    return [emitter.as_bits(word) for word in words]


def _sampler(machine: Machine, access: Access) -> Sampler:
    """The access where code is emitted for it; that code knows a single level, and no cube maps."""
    if access.form & (FORM_CUBE | FORM_LEVEL | FORM_GRADIENTS | FORM_OFFSETS):
        machine.refuse("a cube map, a level, gradients or texel offsets", TEXTURE_FORMS.code)
    texture = Descriptor(machine, access.texture)
    sampler = texture if access.sampler is access.texture else Descriptor(machine, access.sampler)
    result = Sampler(machine, texture, sampler)
    if access.layer is not None:
        emitter = machine.emitter
        last = emitter.sub(texture.get("depth"), emitter.const("i32", 1))
        # Layers out of range clamp; the number is unsigned.
        result.layer = emitter.intrinsic("llvm.umin", [emitter.as_bits(access.layer), last])
    return result


def _deliver(machine: Machine, instruction: Instruction, values: Sequence[Value]) -> tuple[Value, ...]:
    """Channels as the destination type; `.v2.f16x2` packs pairs, `.f16` narrows. What behind `|` says that all texels were
    there: no memory of Cuttle is sparse."""
    emitter = machine.emitter
    kind = instruction.types[0]
    resident = (emitter.const("i1", 1),)
    if kind not in ("f16", "f16x2"):
        return (*values, *resident)
    halves = [
        emitter.cast("fptrunc", value, "half") if value.type == "float" else emitter.cast("trunc", value, "i16")
        for value in values
    ]
    if kind == "f16":
        return (*halves, *resident)
    return pack(emitter, halves[0], halves[1]), pack(emitter, halves[2], halves[3]), *resident


def tex(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`tex`: a texel by integer numbers, or at float coordinates with filtering. 9.7.10.3."""
    access = _access(machine, instruction, operands)
    as_float = instruction.types[0] in ("f32", "f16", "f16x2")
    form = access.form | (FORM_HALF if instruction.types[0] in ("f16", "f16x2") else 0)
    results = machine.texture(form, _words(machine, instruction, access))
    if results is not None:
        return _deliver(machine, instruction, results)
    sampler = _sampler(machine, access)
    if instruction.type != "f32":
        return _deliver(machine, instruction, sampler.fetch_by_number(access.coordinates, as_float, range(CHANNELS)))
    texels = [sampler.to_texels(axis, coordinate) for axis, coordinate in enumerate(access.coordinates)]
    if as_float:
        return _deliver(machine, instruction, sampler.filtered(texels))
    nearest = [sampler.nearest(texel) for texel in texels]
    return _deliver(machine, instruction, sampler.fetch(nearest, False, range(CHANNELS)))


def tld4(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`tld4`: one channel of the four texels that bilinear filtering would use. 9.7.10.4."""
    access = _access(machine, instruction, operands)
    channel = next(number for number, name in enumerate("rgba") if instruction.has(name))
    form = access.form | FORM_GATHER | channel << FORM_CHANNEL_SHIFT
    results = machine.texture(form, _words(machine, instruction, access))
    if results is not None:
        return _deliver(machine, instruction, results)
    sampler = _sampler(machine, access)
    (x0, x1, _), (y0, y1, _) = (
        sampler.neighbours(sampler.to_texels(axis, coordinate)) for axis, coordinate in enumerate(access.coordinates)
    )
    corners = ((x0, y1), (x1, y1), (x1, y0), (x0, y0))
    as_float = instruction.types[0] == "f32"
    return _deliver(machine, instruction, [sampler.fetch(corner, as_float, [channel])[0] for corner in corners])


_QUERIES = {
    "width": "width", "height": "asked_height", "depth": "asked_depth", "array_size": "depth", "num_mipmap_levels": "levels",
    "num_samples": "samples", "channel_order": "channel_order", "channel_data_type": "data_type",
    "addr_mode_0": "address_modes", "addr_mode_1": "address_modes", "addr_mode_2": "address_modes",
}  # fmt: skip


def _query(machine: Machine, instruction: Instruction, address: Any) -> Value:
    emitter = machine.emitter
    if instruction.has("normalized_coords") or instruction.has("filter_mode"):
        place = machine.advance(address, TEXTURE_OFFSETS["flags"])
        flags = machine.load("generic", 32, 1, place, read_only=True)[0]
        bit = FLAG_NORMALISED_COORDINATES if instruction.has("normalized_coords") else FLAG_LINEAR
        some = emitter.icmp("ne", emitter.and_(flags, emitter.const("i32", bit)), emitter.const("i32", 0))
        return emitter.cast("zext", some, "i32")
    name = next((modifier for modifier in instruction.modifiers if modifier in _QUERIES), "")
    if not name:
        machine.refuse("this texture query")
    offset = TEXTURE_OFFSETS[_QUERIES[name]] + (4 * int(name[-1]) if name.startswith("addr_mode") else 0)
    return machine.load("generic", 32, 1, machine.advance(address, offset), read_only=True)[0]


def _asked(machine: Machine, instruction: Instruction, address: Any) -> Any:
    """The address of the descriptor that a query looks at."""
    operand = instruction.operands[1]
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        return machine.load("generic", 64, 1, address)[0]
    return address


def txq(machine: Machine, instruction: Instruction, address: Any, *level: Any) -> Value:
    """`txq`: a property of a texture or sampler, or the size of a level; 0 where there is no such level. 9.7.10.5."""
    address = _asked(machine, instruction, address)
    if not instruction.has("level"):
        return _query(machine, instruction, address)
    emitter = machine.emitter
    name = next(name for name in ("width", "height", "depth") if instruction.has(name))
    count = machine.load("generic", 32, 1, machine.advance(address, TEXTURE_OFFSETS["levels"]), read_only=True)[0]
    table = machine.load("generic", 64, 1, machine.advance(address, TEXTURE_OFFSETS["level_table"]), read_only=True)[0]
    there = emitter.icmp("ult", level[0], count)
    number = emitter.cast("zext", emitter.select(there, level[0], emitter.const("i32", 0)), "i64")
    place = emitter.add(table, emitter.mul(number, emitter.const("i64", LEVEL.bytes)))
    place = emitter.add(place, emitter.const("i64", LEVEL_OFFSETS[name]))
    size = machine.load("generic", 32, 1, place, read_only=True)[0]
    return emitter.select(there, size, emitter.const("i32", 0))


def suq(machine: Machine, instruction: Instruction, address: Any) -> Value:
    """`suq`: a property of a surface. 9.7.11.4."""
    return _query(machine, instruction, _asked(machine, instruction, address))


# -- surfaces --------------------------------------------------------------------------------------------------------


def _surface_place(
    machine: Machine, instruction: Instruction, handle: Value, coordinates: Sequence[Value], size: int
) -> tuple[Value, Value]:
    """The address of `size` bytes at surface coordinates, and whether they lie inside. x counts bytes, with `.p` texels.

    `.clamp` brings coordinates into range; `.trap` lets the access fault at address 0; `.zero` leaves it to the caller.
    """
    e = machine.emitter
    descriptor = Descriptor(machine, handle)
    dimensions, layered = _geometry(instruction)
    rest = list(coordinates)
    texel = e.mul(descriptor.get("component_bytes"), descriptor.get("channels"))
    formatted = instruction.has("p")
    row = e.sub(e.mul(descriptor.get("width"), texel), e.const("i32", size - 1))
    limits = [
        descriptor.get("width") if formatted else row,
        descriptor.get("height"),
        descriptor.get("depth"),
    ]
    indices: list[tuple[Value, Value]] = []
    if layered:
        indices.append((rest.pop(0), limits[2]))
    axes = list(zip(rest[:dimensions], limits, strict=False))
    clamp = instruction.has("clamp")
    inside = e.const("i1", 1)

    def bring(index: Value, limit: Value) -> Value:
        nonlocal inside
        if not clamp:
            inside = e.and_(inside, e.icmp("ult", index, limit))
            return index
        last = e.sub(limit, e.const("i32", 1))
        return e.intrinsic("llvm.smax", [e.intrinsic("llvm.smin", [index, last]), e.const("i32", 0)])

    placed = [bring(index, limit) for index, limit in axes]
    offset = e.cast("sext", e.mul(placed[0], texel) if formatted else placed[0], "i64")
    if dimensions > 1:
        pitch = e.cast("zext", descriptor.get("pitch_bytes"), "i64")
        offset = e.add(offset, e.mul(e.cast("sext", placed[1], "i64"), pitch))
    slices = [bring(index, limit) for index, limit in indices] or placed[2:]
    if slices:
        offset = e.add(offset, e.mul(e.cast("sext", slices[0], "i64"), descriptor.get("slice_bytes")))
    return e.add(descriptor.get("base"), offset), inside


def _access_bytes(instruction: Instruction) -> tuple[int, int]:
    """(bits of an element, number of elements)."""
    count = 4 if instruction.has("v4") else 2 if instruction.has("v2") else 1
    return type_bits(instruction.type), count


def _guarded(machine: Machine, instruction: Instruction, place: Value, inside: Value, otherwise: Value) -> Value:
    emitter = machine.emitter
    fallback = emitter.const("i64", 0) if instruction.has("trap") else otherwise
    return emitter.select(inside, place, fallback)


def suld(machine: Machine, instruction: Instruction, handle: Value, *coordinates: Value) -> tuple[Value, ...]:
    """`suld.b`: unformatted surface load; x counts bytes. 9.7.11.1."""
    emitter = machine.emitter
    operand = instruction.operands[1]
    assert isinstance(operand, TextureOperand)
    handle = _object(machine, operand.texture, handle)
    bits, count = _access_bytes(instruction)
    place, inside = _surface_place(machine, instruction, handle, coordinates, bits * count // 8)
    place = _guarded(machine, instruction, place, inside, handle)
    values = machine.load("generic", bits, count, place)
    if instruction.has("zero"):
        values = [emitter.select(inside, value, emitter.const(value.type, 0)) for value in values]
    return tuple(values)


def sust(machine: Machine, instruction: Instruction, handle: Value, *rest: Value) -> None:
    """`sust.b`: unformatted surface store; `sust.p`: converted to the surface's format. 9.7.11.2."""
    emitter = machine.emitter
    operand = instruction.operands[0]
    assert isinstance(operand, TextureOperand)
    handle = _object(machine, operand.texture, handle)
    split = len(operand.coordinates.elements)
    bits, count = _access_bytes(instruction)
    place, inside = _surface_place(machine, instruction, handle, rest[:split], bits * count // 8)
    sink = emitter.add(handle, emitter.const("i64", TEXTURE_OFFSETS["sink"]))
    place = _guarded(machine, instruction, place, inside, sink)
    values = [emitter.as_bits(value) for value in rest[split:]]
    if instruction.has("p"):
        store_texel(machine, Descriptor(machine, handle), place, sink, values)
    else:
        machine.store("generic", bits, place, values)


def sured(machine: Machine, instruction: Instruction, handle: Value, *rest: Value) -> None:
    """`sured`: an atomic without result on surface memory; with `.p` the surface says whether its numbers are signed. 9.7.11.3."""
    emitter = machine.emitter
    operand = instruction.operands[0]
    assert isinstance(operand, TextureOperand)
    handle = _object(machine, operand.texture, handle)
    split = len(operand.coordinates.elements)
    place, inside = _surface_place(machine, instruction, handle, rest[:split], type_bits(instruction.type) // 8)
    sink = emitter.add(handle, emitter.const("i64", TEXTURE_OFFSETS["sink"]))
    place = _guarded(machine, instruction, place, inside, sink)
    operation = next(name for name in ("add", "min", "max", "and", "or") if instruction.has(name))
    values = [emitter.as_bits(value) for value in rest[split:]]

    def apply(type_name: str, at: Value) -> None:
        machine.atomic(operation, type_name, "generic", at, values, want_result=False, ordering="relaxed", scope="gpu")

    if not instruction.has("p") or operation not in ("min", "max"):
        apply("u32" if instruction.has("p") else instruction.type, place)
        return
    signed = emitter.icmp("eq", Descriptor(machine, handle).get("kind"), emitter.const("i32", KIND_SIGNED))
    apply("s32", emitter.select(signed, place, sink))
    apply("u32", emitter.select(signed, sink, place))
