"""Reading texels through a descriptor (`abi/texture.py`): addressing, formats, filtering.

Nothing about a texture is known when its kernel is compiled, so every property is a value loaded from the descriptor
(a uniform one, if the handle is) and every choice a select.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuttle.abi.texture import (
    ADDRESS_BORDER,
    ADDRESS_MIRROR,
    ADDRESS_WRAP,
    FLAG_LINEAR,
    FLAG_NORMALISED_COORDINATES,
    FLAG_NORMALISED_READ,
    KIND_FLOAT,
    KIND_SIGNED,
    TEXTURE_OFFSETS,
)
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine

CHANNELS = 4


def f32(emitter: Emitter, value: float) -> Value:
    """The float constant nearest to a number."""
    return emitter.const("float", int.from_bytes(struct.pack("<f", value), "little"))


@dataclass(slots=True)
class Descriptor:
    """Fields of a descriptor, loaded when first asked for."""

    machine: Machine
    handle: Value
    loaded: dict[str, Value] = field(default_factory=dict)

    def get(self, name: str, index: int = 0) -> Value:
        key = f"{name}{index}"
        if key not in self.loaded:
            emitter = self.machine.emitter
            bits = 64 if name in ("base", "slice_bytes") else 32
            place = emitter.add(self.handle, emitter.const("i64", TEXTURE_OFFSETS[name] + index * bits // 8))
            self.loaded[key] = self.machine.load("generic", bits, 1, place, read_only=True)[0]
        return self.loaded[key]

    def flag(self, bit: int) -> Value:
        key = f"flag{bit}"
        if key not in self.loaded:
            emitter = self.machine.emitter
            masked = emitter.and_(self.get("flags"), emitter.const("i32", bit))
            self.loaded[key] = emitter.icmp("ne", masked, emitter.const("i32", 0))
        return self.loaded[key]

    def is_mode(self, axis: int, mode: int) -> Value:
        emitter = self.machine.emitter
        return emitter.icmp("eq", self.get("address_modes", axis), emitter.const("i32", mode))


SIZES = ("width", "height", "depth")


@dataclass(slots=True)
class Sampler:
    """One texture access: the texture's descriptor, the sampler's (often the same one), and the machine."""

    machine: Machine
    texture: Descriptor
    sampler: Descriptor
    layer: Value | None = None

    @property
    def emitter(self) -> Emitter:
        return self.machine.emitter

    def size(self, axis: int) -> Value:
        return self.texture.get(SIZES[axis])

    # -- coordinates -------------------------------------------------------------------------------------------------

    def to_texels(self, axis: int, coordinate: Value) -> Value:
        """A float coordinate in texels: normalised ones are wrapped or mirrored and scaled by the size."""
        e = self.emitter
        whole = e.intrinsic("llvm.floor", [coordinate])
        fraction = e.binary("fsub", coordinate, whole)
        half = e.intrinsic("llvm.floor", [e.binary("fmul", whole, f32(e, 0.5))])
        odd = e.fcmp("one", e.binary("fadd", half, half), whole)
        mirrored = e.select(odd, e.binary("fsub", f32(e, 1.0), fraction), fraction)
        wrapped = e.select(self.sampler.is_mode(axis, ADDRESS_WRAP), fraction, coordinate)
        wrapped = e.select(self.sampler.is_mode(axis, ADDRESS_MIRROR), mirrored, wrapped)
        scaled = e.binary("fmul", wrapped, e.cast("uitofp", self.size(axis), "float"))
        return e.select(self.sampler.flag(FLAG_NORMALISED_COORDINATES), scaled, coordinate)

    def bounded(self, value: Value) -> Value:
        """A float within +-2**22 (NaN to the lower end), safe to convert in steps of 1/256."""
        e = self.emitter
        low, high = f32(e, -4194304.0), f32(e, 4194304.0)
        value = e.select(e.fcmp("ogt", value, low), value, low)
        return e.select(e.fcmp("olt", value, high), value, high)

    def nearest(self, texels: Value) -> Value:
        e = self.emitter
        return e.cast("fptosi", e.intrinsic("llvm.floor", [self.bounded(texels)]), "i32")

    def neighbours(self, texels: Value) -> tuple[Value, Value, Value]:
        """The two texels around a coordinate and the weight of the second, a multiple of 1/256 (9-bit fixed point)."""
        e = self.emitter
        shifted = self.bounded(e.binary("fsub", texels, f32(e, 0.5)))
        fixed = e.cast("fptosi", e.intrinsic("llvm.rint", [e.binary("fmul", shifted, f32(e, 256.0))]), "i32")
        first = e.ashr(fixed, e.const("i32", 8))
        weight = e.cast("uitofp", e.and_(fixed, e.const("i32", 255)), "float")
        return first, e.add(first, e.const("i32", 1)), e.binary("fmul", weight, f32(e, 1 / 256))

    def place(self, axis: int, index: Value) -> tuple[Value, Value]:
        """A texel number brought into range by the address mode, and whether it is the border instead."""
        e = self.emitter
        size, zero = self.size(axis), e.const("i32", 0)
        last = e.sub(size, e.const("i32", 1))
        low, high = e.icmp("slt", index, zero), e.icmp("sgt", index, last)
        around = e.select(low, e.add(index, size), e.select(high, e.sub(index, size), index))
        wraps = e.and_(self.sampler.is_mode(axis, ADDRESS_WRAP), self.sampler.flag(FLAG_NORMALISED_COORDINATES))
        index = e.select(wraps, around, index)
        clamped = e.intrinsic("llvm.smax", [e.intrinsic("llvm.smin", [index, last]), zero])
        border = e.and_(e.or_(low, high), self.sampler.is_mode(axis, ADDRESS_BORDER))
        return clamped, border

    # -- texels ------------------------------------------------------------------------------------------------------

    def address(self, indices: Sequence[Value]) -> Value:
        """The address of a texel by its numbers in range."""
        e = self.emitter
        texel_bytes = e.mul(self.texture.get("component_bytes"), self.texture.get("channels"))
        offset = e.mul(e.cast("zext", indices[0], "i64"), e.cast("zext", texel_bytes, "i64"))
        if len(indices) > 1:
            pitch = e.cast("zext", self.texture.get("pitch_bytes"), "i64")
            offset = e.add(offset, e.mul(e.cast("zext", indices[1], "i64"), pitch))
        slice_index = indices[2] if len(indices) > 2 else self.layer
        if slice_index is not None:
            offset = e.add(offset, e.mul(e.cast("zext", slice_index, "i64"), self.texture.get("slice_bytes")))
        return e.add(self.texture.get("base"), offset)

    def read(self, address: Value, outside: Value, channel: int) -> Value:
        """The raw bits (i32) of one channel of a texel, the border's where `outside`, 0 beyond the last channel.

        The aligned word around the component is read: it never leaves the allocation. Absent ones read the descriptor.
        """
        e = self.emitter
        size = self.texture.get("component_bytes")
        present = e.icmp("ugt", self.texture.get("channels"), e.const("i32", channel))
        place = e.add(address, e.cast("zext", e.mul(size, e.const("i32", channel)), "i64"))
        place = e.select(present, place, self.texture.handle)
        word_place = e.and_(place, e.const("i64", -4))
        word = self.machine.load("generic", 32, 1, word_place, read_only=False)[0]
        shift = e.shl(e.and_(e.cast("trunc", place, "i32"), e.const("i32", 3)), e.const("i32", 3))
        unused = e.sub(e.const("i32", 32), e.shl(size, e.const("i32", 3)))
        top = e.shl(e.lshr(word, shift), unused)
        signed = e.icmp("eq", self.texture.get("kind"), e.const("i32", KIND_SIGNED))
        raw = e.select(signed, e.ashr(top, unused), e.lshr(top, unused))
        raw = e.select(present, raw, e.const("i32", 0))
        return e.select(outside, self.border(channel), raw)

    def border(self, channel: int) -> Value:
        return self.sampler.get("border", channel)

    def as_float(self, raw: Value) -> Value:
        """A channel's bits as float: floats and halves as they are, integers scaled to [0, 1] or [-1, 1]."""
        e = self.emitter
        half = e.cast("fpext", e.bitcast(e.cast("trunc", raw, "i16"), "half"), "float")
        two_bytes = e.icmp("eq", self.texture.get("component_bytes"), e.const("i32", 2))
        direct = e.select(two_bytes, half, e.bitcast(raw, "float"))
        signed = e.icmp("eq", self.texture.get("kind"), e.const("i32", KIND_SIGNED))
        number = e.select(signed, e.cast("sitofp", raw, "float"), e.cast("uitofp", raw, "float"))
        bits = e.shl(self.texture.get("component_bytes"), e.const("i32", 3))
        bits = e.sub(bits, e.cast("zext", signed, "i32"))
        most = e.sub(e.shl(e.const("i32", 1), e.and_(bits, e.const("i32", 31))), e.const("i32", 1))
        scaled = e.binary("fdiv", number, e.cast("uitofp", most, "float"))
        low = f32(e, -1.0)
        scaled = e.select(e.fcmp("ogt", scaled, low), scaled, low)
        is_float = e.icmp("eq", self.texture.get("kind"), e.const("i32", KIND_FLOAT))
        normalised = e.and_(e.not_(is_float), self.sampler.flag(FLAG_NORMALISED_READ))
        return e.select(normalised, scaled, direct)

    # -- fetches -----------------------------------------------------------------------------------------------------

    def fetch(self, indices: Sequence[Value], as_float: bool, channels: Sequence[int]) -> list[Value]:
        """The channels of the texel at (unbounded) numbers."""
        e = self.emitter
        placed = [self.place(axis, index) for axis, index in enumerate(indices)]
        outside = e.const("i1", 0)
        for _, border in placed:
            outside = e.or_(outside, border)
        address = self.address([index for index, _ in placed])
        result = []
        for channel in channels:
            raw = self.read(address, outside, channel)
            result.append(self.as_float(raw) if as_float else raw)
        return result

    def fetch_by_number(self, indices: Sequence[Value], as_float: bool, channels: Sequence[int]) -> list[Value]:
        """Integer coordinates: 0 outside, where clamping was asked for as well (recorded, selftest/files/texture/tex.ptx)."""
        e = self.emitter
        outside: Value = e.const("i1", 0)
        bounded: list[Value] = []
        for axis, index in enumerate(indices):
            there = e.icmp("ult", index, self.size(axis))
            outside = e.or_(outside, e.not_(there))
            bounded.append(e.select(there, index, e.const("i32", 0)))
        address = self.address(bounded)
        inside = e.const("i1", 0)
        result = []
        for channel in channels:
            raw = self.read(address, inside, channel)
            value = self.as_float(raw) if as_float else raw
            result.append(e.select(outside, e.const(value.type, 0), value))
        return result

    def filtered(self, texels: Sequence[Value]) -> list[Value]:
        """Linear interpolation where the sampler asks for it, else the nearest texel, as float."""
        e = self.emitter
        linear = self.sampler.flag(FLAG_LINEAR)
        corners: list[tuple[Value, Value]] = []
        weights: list[Value] = []
        for coordinate in texels:
            first, second, weight = self.neighbours(coordinate)
            nearest = self.nearest(coordinate)
            corners.append((e.select(linear, first, nearest), e.select(linear, second, nearest)))
            weights.append(weight)
        total: list[Value] | None = None
        plain: list[Value] | None = None
        for corner in range(1 << len(texels)):
            picks = [corner >> axis & 1 for axis in range(len(texels))]
            values = self.fetch([corners[axis][pick] for axis, pick in enumerate(picks)], True, range(CHANNELS))
            plain = plain or values
            share: Value | None = None
            for axis, pick in enumerate(picks):
                part = weights[axis] if pick else e.binary("fsub", f32(e, 1.0), weights[axis])
                share = part if share is None else e.binary("fmul", share, part)
            assert share is not None
            terms = [e.binary("fmul", share, value) for value in values]
            total = terms if total is None else [e.binary("fadd", x, y) for x, y in zip(total, terms, strict=True)]
        assert total is not None and plain is not None
        if len(texels) == 1:
            total = self.half_a_row(total)
        return [e.select(linear, blend, near) for blend, near in zip(total, plain, strict=True)]

    def half_a_row(self, row: list[Value]) -> list[Value]:
        """A 1-D texture is the row 0 of a 2-D one, read at y = 0: halfway to the border if y has border addressing.

        Seen on an H200 (tests/programs/textures.cu, "border in every dimension"); clamped and wrapped rows blend with
        themselves.
        """
        e = self.emitter
        half = f32(e, 0.5)
        bordered = self.sampler.is_mode(1, ADDRESS_BORDER)
        result = []
        for channel, value in enumerate(row):
            border = self.as_float(self.border(channel))
            blend = e.binary("fadd", e.binary("fmul", value, half), e.binary("fmul", border, half))
            result.append(e.select(bordered, blend, value))
        return result
