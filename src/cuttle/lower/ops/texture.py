"""Textures and surfaces (PTX ISA 9.0, 9.7.10, 9.7.11) on descriptors in device memory (`abi/texture.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuttle.abi.texture import FLAG_LINEAR, FLAG_NORMALISED_COORDINATES, TEXTURE_OFFSETS
from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.common import pack, type_bits
from cuttle.lower.ops.texels import CHANNELS, Descriptor, Sampler
from cuttle.ptx.ir import Instruction, TextureOperand

_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}


def _geometry(machine: Machine, instruction: Instruction) -> tuple[int, bool]:
    """(dimensions, layered)."""
    for modifier in instruction.modifiers:
        if modifier in _DIMENSIONS:
            return _DIMENSIONS[modifier], modifier.startswith("a")
    raise ValueError("no texture geometry")


def _sampler(machine: Machine, instruction: Instruction, operands: Sequence[Value]) -> tuple[Sampler, list[Value]]:
    """The access and its coordinates in order x, y, z, the layer taken off and brought into range."""
    place, operand = next((i, o) for i, o in enumerate(instruction.operands) if isinstance(o, TextureOperand))
    rest = list(operands)
    # A level of detail or two gradients may follow the coordinates: every texture has one level, to which the hardware
    # clamps whatever they choose. Texel offsets and comparison values follow those.
    choices = 1 if instruction.has("level") else 2 if instruction.has("grad") else 0
    if len(instruction.operands) > place + 1 + choices:
        machine.refuse("texel offsets and depth comparison", "PTX-0514")
    texture = Descriptor(machine, rest.pop(0))
    sampler = Descriptor(machine, rest.pop(0)) if operand.sampler is not None else texture
    dimensions, layered = _geometry(machine, instruction)
    access = Sampler(machine, texture, sampler)
    if layered:
        emitter = machine.emitter
        layer = emitter.as_bits(rest.pop(0))
        last = emitter.sub(texture.get("depth"), emitter.const("i32", 1))
        # Layers out of range clamp; the number is unsigned.
        access.layer = emitter.intrinsic("llvm.umin", [layer, last])
    return access, rest[:dimensions]


def _deliver(machine: Machine, instruction: Instruction, values: list[Value]) -> tuple[Value, ...]:
    """Channels as the destination type; `.v2.f16x2` packs pairs, `.f16` narrows."""
    emitter = machine.emitter
    kind = instruction.types[0]
    if kind == "f16x2":
        halves = [emitter.cast("fptrunc", value, "half") for value in values]
        return pack(emitter, halves[0], halves[1]), pack(emitter, halves[2], halves[3])
    if kind == "f16":
        return tuple(emitter.cast("fptrunc", value, "half") for value in values)
    return tuple(values)


def tex(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`tex`: a texel by integer numbers, or at float coordinates with filtering. 9.7.10.3."""
    access, coordinates = _sampler(machine, instruction, operands)
    as_float = instruction.types[0] in ("f32", "f16", "f16x2")
    if instruction.type != "f32":
        return _deliver(machine, instruction, access.fetch_by_number(coordinates, as_float, range(CHANNELS)))
    texels = [access.to_texels(axis, coordinate) for axis, coordinate in enumerate(coordinates)]
    if as_float:
        return _deliver(machine, instruction, access.filtered(texels))
    return tuple(access.fetch([access.nearest(texel) for texel in texels], False, range(CHANNELS)))


def tld4(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`tld4`: one channel of the four texels that bilinear filtering would use. 9.7.10.4."""
    access, coordinates = _sampler(machine, instruction, operands)
    channel = next(number for number, name in enumerate("rgba") if instruction.has(name))
    as_float = instruction.types[0] in ("f32", "f16", "f16x2")
    (x0, x1, _), (y0, y1, _) = (
        access.neighbours(access.to_texels(axis, coordinate)) for axis, coordinate in enumerate(coordinates)
    )
    corners = ((x0, y1), (x1, y1), (x1, y0), (x0, y0))
    values = [access.fetch(corner, as_float, [channel])[0] for corner in corners]
    return _deliver(machine, instruction, values)


_QUERIES = {
    "width": "width", "height": "height", "depth": "depth", "array_size": "depth", "num_mipmap_levels": "levels",
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


def txq(machine: Machine, instruction: Instruction, address: Any, *level: Any) -> Value:
    """`txq`: a property of a texture or sampler. 9.7.10.5."""
    return _query(machine, instruction, address)


def suq(machine: Machine, instruction: Instruction, address: Any) -> Value:
    """`suq`: a property of a surface. 9.7.11.4."""
    return _query(machine, instruction, address)


# -- surfaces --------------------------------------------------------------------------------------------------------


def _surface_place(
    machine: Machine, instruction: Instruction, handle: Value, coordinates: Sequence[Value], size: int
) -> tuple[Value, Value]:
    """The address of `size` bytes at surface coordinates (x in bytes), and whether they lie inside.

    `.clamp` brings coordinates into range; `.trap` lets the access fault at address 0; `.zero` leaves it to the caller.
    """
    e = machine.emitter
    descriptor = Descriptor(machine, handle)
    dimensions, layered = _geometry(machine, instruction)
    rest = list(coordinates)
    texel = e.mul(descriptor.get("component_bytes"), descriptor.get("channels"))
    limits = [
        e.sub(e.mul(descriptor.get("width"), texel), e.const("i32", size - 1)),
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
    offset = e.cast("sext", placed[0], "i64")
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
    bits, count = _access_bytes(instruction)
    place, inside = _surface_place(machine, instruction, handle, coordinates, bits * count // 8)
    place = _guarded(machine, instruction, place, inside, handle)
    values = machine.load("generic", bits, count, place)
    if instruction.has("zero"):
        values = [emitter.select(inside, value, emitter.const(value.type, 0)) for value in values]
    return tuple(values)


def sust(machine: Machine, instruction: Instruction, handle: Value, *rest: Value) -> None:
    """`sust.b`: unformatted surface store. `.p` is refused. 9.7.11.2."""
    emitter = machine.emitter
    operand = instruction.operands[0]
    assert isinstance(operand, TextureOperand)
    split = len(operand.coordinates.elements)
    bits, count = _access_bytes(instruction)
    place, inside = _surface_place(machine, instruction, handle, rest[:split], bits * count // 8)
    sink = emitter.add(handle, emitter.const("i64", TEXTURE_OFFSETS["sink"]))
    place = _guarded(machine, instruction, place, inside, sink)
    machine.store("generic", bits, place, [emitter.as_bits(value) for value in rest[split:]])


def sured(machine: Machine, instruction: Instruction, handle: Value, *rest: Value) -> None:
    """`sured.b`: an atomic without result on surface memory. 9.7.11.3."""
    emitter = machine.emitter
    operand = instruction.operands[0]
    assert isinstance(operand, TextureOperand)
    split = len(operand.coordinates.elements)
    place, inside = _surface_place(machine, instruction, handle, rest[:split], type_bits(instruction.type) // 8)
    sink = emitter.add(handle, emitter.const("i64", TEXTURE_OFFSETS["sink"]))
    place = _guarded(machine, instruction, place, inside, sink)
    operation = next(name for name in ("add", "min", "max", "and", "or") if instruction.has(name))
    machine.atomic(
        operation, instruction.type, "generic", place, [emitter.as_bits(value) for value in rest[split:]],
        want_result=False, ordering="relaxed", scope="gpu"
    )  # fmt: skip
