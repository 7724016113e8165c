"""Vector memory: global, flat, scratch and LDS instructions, and scalar loads.

An access of active lanes is flattened, wave after wave. Flat addresses in the apertures reach LDS and scratch. AMD, RDNA3 Instruction Set Architecture,
chapters "Data Share Operations" and "Flat Memory Instructions"; the section of each mnemonic: `semantics.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.abi.rdna.opcodes import OPCODES
from cuttle.device.rdna.atomics import ATOMICS, Atomic, perform
from cuttle.device.rdna.decode import M0, NULL, VECTOR, Instruction
from cuttle.device.rdna.errors import IllegalAddress, IllegalInstruction
from cuttle.device.rdna.memory import load_at, store_at
from cuttle.device.rdna.operands import scalar_reader
from cuttle.device.rdna.semantics import Run, special
from cuttle.device.rdna.waves import LANES, PRIVATE_APERTURE, SHARED_APERTURE, LocalBytes, View

Array = NDArray[Any]
U32, U64 = np.uint32, np.uint64
Address = Callable[[View], Array]

# -- places: what an address means -------------------------------------------------------------------------------------


def _owner(w: View, scratch: bool) -> Array:
    """For each active lane the number of its piece of scratch (or of its group's LDS)."""
    if scratch:
        return w.active(w.indices[:, None] * LANES + np.arange(LANES))
    return w.active(w.group[:, None])


def _local_offsets(w: View, store: LocalBytes, addresses: Array, size: int, scratch: bool, owner: Array) -> Array:
    if len(addresses) and int(addresses.max()) + size > store.size:
        position = int(np.argmax(addresses))
        what = f"scratch of {store.size} bytes a lane" if scratch else f"LDS of {store.size} bytes"
        raise IllegalAddress(f"{size} bytes at {int(addresses[position]):#x} are outside the {what}", position)
    return owner * store.stride + addresses.astype(np.int64)


@contextmanager
def among(which: Any) -> Iterator[None]:
    """Faults of a part of the active lanes, by their place among all."""
    try:
        yield
    except IllegalAddress as fault:
        if which is not None and fault.position >= 0:
            fault.position = int(np.flatnonzero(which)[fault.position])
        raise


class Place:
    """Where an instruction's accesses go: to global memory, LDS or scratch, or (flat) to each lane's choice of them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def parts(self, w: View, addresses: Array) -> list[tuple[str, Any, Array]]:
        """(kind, which of the active lanes, addresses inside the kind); `which` None is all of them."""
        if self.kind != "FLAT":
            return [(self.kind, None, addresses)]
        upper = addresses >> U64(32)
        shared, private = upper == U64(SHARED_APERTURE >> 32), upper == U64(PRIVATE_APERTURE >> 32)
        if not (shared.any() or private.any()):
            return [("GLOBAL", None, addresses)]
        low = addresses & U64(0xFFFFFFFF)
        found: list[tuple[str, Any, Array]] = []
        for kind, which, values in (
            ("DS", shared, low),
            ("SCRATCH", private, low),
            ("GLOBAL", ~(shared | private), addresses),
        ):
            if which.any():
                found.append((kind, which, values[which]))
        return found

    def load(self, w: View, addresses: Array, size: int) -> list[Array]:
        parts = self.parts(w, addresses)
        if len(parts) == 1 and parts[0][1] is None:
            return self._load_part(w, *parts[0], size)
        words = [np.zeros(len(addresses), np.uint32) for _ in range(max(1, size // 4))]
        for kind, which, values in parts:
            with among(which):
                for word, part in zip(words, self._load_part(w, kind, which, values, size), strict=True):
                    word[which] = part
        return words

    def _load_part(self, w: View, kind: str, which: Any, addresses: Array, size: int) -> list[Array]:
        if kind == "GLOBAL":
            return w.waves.memory.load(addresses, size)
        store, offsets = self._local(w, kind, which, addresses, size)
        return load_at(store, offsets, size)

    def _local(self, w: View, kind: str, which: Any, addresses: Array, size: int) -> tuple[LocalBytes, Array]:
        scratch = kind == "SCRATCH"
        store = w.waves.scratch if scratch else w.waves.lds
        owner = _owner(w, scratch)
        return store, _local_offsets(w, store, addresses, size, scratch, owner if which is None else owner[which])

    def store(self, w: View, addresses: Array, size: int, words: list[Array]) -> None:
        for kind, which, values in self.parts(w, addresses):
            part = words if which is None else [word[which] for word in words]
            with among(which):
                if kind == "GLOBAL":
                    w.waves.memory.store(values, size, part)
                else:
                    store_at(*self._local(w, kind, which, values, size), size, part)

    def atomic(self, w: View, operation: Atomic, addresses: Array, data: Array, compare: Array | None) -> Array:
        old = np.zeros(len(addresses), operation.dtype)
        for kind, which, values in self.parts(w, addresses):
            chosen = slice(None) if which is None else which
            if len(values):
                with among(which):
                    old[chosen] = self._atomic_part(
                        w, operation, kind, which, values, data[chosen], None if compare is None else compare[chosen]
                    )
        return old

    def _atomic_part(
        self, w: View, operation: Atomic, kind: str, which: Any, addresses: Array, data: Array, compare: Array | None
    ) -> Array:  # fmt: skip
        size = operation.dtype.itemsize
        if kind != "GLOBAL":
            local, offsets = self._local(w, kind, which, addresses, size)
            return perform(operation, local.bytes[: len(local.bytes) // size * size], offsets, data, compare)
        result = np.zeros(len(addresses), operation.dtype)
        for region, inside, offsets in w.waves.memory.find(addresses, size):
            cells = region.bytes[: len(region.bytes) // size * size]
            result[inside] = perform(
                operation, cells, offsets, data[inside], None if compare is None else compare[inside]
            )
        return result


# -- addresses ---------------------------------------------------------------------------------------------------------


def flat_address(instruction: Instruction) -> Address:
    """Addresses of the active lanes: 64 bits for flat and global, 32 for scratch (an offset in the lane's scratch)."""
    vector, scalar, offset = instruction.sources[0] - VECTOR, instruction.scalar_address, instruction.offset
    if instruction.encoding == "SCRATCH":
        read = None if scalar == NULL else scalar_reader(scalar, "u32")
        uses_vector = instruction.has_vector_address

        def scratch(w: View) -> Array:
            total: Any = np.full((w.count, 1), offset, np.int64)
            if read is not None:
                total = total + read(w)[:, None].astype(np.int64)
            if uses_vector:
                total = total + w.vector(vector)
            return w.active(np.asarray(total)) & 0xFFFFFFFF

        return scratch
    step = U64(offset & 0xFFFFFFFFFFFFFFFF)
    if scalar == NULL:
        return lambda w: w.active(w.vector64(vector)) + step
    base = scalar_reader(scalar, "u64")
    return lambda w: w.active(w.vector(vector) + (base(w)[:, None] + step))


def share_address(instruction: Instruction, offset: int) -> Address:
    vector = instruction.sources[0] - VECTOR
    return lambda w: (w.active(w.vector(vector)).astype(np.int64) + offset) & 0xFFFFFFFF


# -- data --------------------------------------------------------------------------------------------------------------


def _extend(word: Array, kind: str) -> Array:
    """A loaded byte or half to 32 bits."""
    if kind == "i8":
        return word.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
    if kind == "i16":
        return word.astype(np.uint16).view(np.int16).astype(np.int32).view(np.uint32)
    return word


def _write_loaded(w: View, register: int, words: list[Array], kind: str, half: str) -> None:
    if half:
        old = w.active(w.vector(register))
        new = _extend(words[0], kind) & U32(0xFFFF)
        words = [(old & U32(0xFFFF)) | new << U32(16) if half == "hi" else (old & U32(0xFFFF0000)) | new]
    elif len(words) == 1:
        words = [_extend(words[0], kind)]
    for n, word in enumerate(words):
        w.set_active(register + n, word)


def _words(w: View, register: int, count: int) -> list[Array]:
    return [w.active(w.vector(register + n)) for n in range(count)]


def _typed(w: View, register: int, dtype: Any) -> Array:
    """The data operand of an atomic: one or two registers as the operation's type."""
    if dtype.itemsize == 8:
        return w.active(w.vector64(register)).view(dtype)
    return w.active(w.vector(register)).view(dtype)


def _write_old(w: View, register: int, old: Array) -> None:
    if old.dtype.itemsize == 8:
        halves = np.ascontiguousarray(old).view(np.uint32).reshape(-1, 2)
        w.set_active(register, halves[:, 0])
        w.set_active(register + 1, halves[:, 1])
    else:
        w.set_active(register, old.view(np.uint32))


BYTES = {"u8": 1, "i8": 1, "b8": 1, "u16": 2, "i16": 2, "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16}


def _load(place: Place, address: Address, instruction: Instruction, kind: str, half: str) -> Run:
    register, size = instruction.destination - VECTOR, BYTES[kind]

    def run(w: View) -> None:
        _write_loaded(w, register, place.load(w, address(w), size), kind, half)

    return run


def _store(place: Place, address: Address, register: int, kind: str, half: str) -> Run:
    size = BYTES[kind]
    shift = U32(16 if half == "hi" else 0)

    def run(w: View) -> None:
        words = _words(w, register, max(1, size // 4))
        place.store(w, address(w), size, [words[0] >> shift] if shift else words)

    return run


# -- flat, global, scratch ---------------------------------------------------------------------------------------------


def build_flat(instruction: Instruction, target: str) -> Run:
    name = instruction.mnemonic.partition("_")[2]
    place, address = Place(instruction.encoding), flat_address(instruction)
    if match := re.fullmatch(r"(load|store)_(d16_)?(hi_)?([uib]\d+)", name):
        action, d16, high, kind = match.groups()
        half = ("hi" if high else "lo") if d16 else ""
        if action == "load":
            return _load(place, address, instruction, kind, half)
        return _store(place, address, instruction.sources[1] - VECTOR, kind, half)
    return _atomic(place, address, instruction, ATOMICS[name.removeprefix("atomic_")])


def _atomic(place: Place, address: Address, instruction: Instruction, operation: Atomic) -> Run:
    data, destination, returns = instruction.sources[1] - VECTOR, instruction.destination - VECTOR, instruction.returns
    size = operation.dtype.itemsize // 4

    def run(w: View) -> None:
        compare = _typed(w, data + size, operation.dtype) if operation.compares else None
        old = place.atomic(w, operation, address(w), _typed(w, data, operation.dtype), compare)
        if returns:
            _write_old(w, destination, old)

    return run


def _flat_names() -> list[str]:
    names = []
    for encoding in ("FLAT", "GLOBAL", "SCRATCH"):
        for mnemonic in OPCODES[encoding]:
            name = mnemonic.partition("_")[2]
            if re.fullmatch(r"(load|store)_(d16_)?(hi_)?[uib]\d+", name) or name.removeprefix("atomic_") in ATOMICS:
                names.append(mnemonic)
    return names


special(" ".join(_flat_names()))(build_flat)


@special("global_inv global_wb global_wbinv buffer_gl0_inv buffer_gl1_inv")
def build_cache_control(instruction: Instruction, target: str) -> Run:
    return lambda w: None


# -- LDS ---------------------------------------------------------------------------------------------------------------

_LDS = Place("DS")
_SHARE_ACCESS = r"ds_(load|store)_([uib]\d+)(_d16)?(_hi)?"


def build_share(instruction: Instruction, target: str) -> Run:
    match = re.fullmatch(_SHARE_ACCESS, instruction.mnemonic)
    assert match is not None
    action, kind, d16, high = match.groups()
    half = ("hi" if high else "lo") if d16 else ""
    address = share_address(instruction, instruction.offset | instruction.offset1 << 8)
    if action == "load":
        return _load(_LDS, address, instruction, kind, half)
    return _store(_LDS, address, instruction.sources[1] - VECTOR, kind, half)


special(" ".join(name for name in OPCODES["DS"] if re.fullmatch(_SHARE_ACCESS, name)))(build_share)


@special(" ".join(f"ds_{a}_2addr{s}_b{n}" for a in ("load", "store") for s in ("", "_stride64") for n in (32, 64)))
def build_share_pair(instruction: Instruction, target: str) -> Run:
    size = 8 if instruction.mnemonic.endswith("64") else 4
    unit = size * (64 if "stride64" in instruction.mnemonic else 1)
    addresses = [share_address(instruction, offset * unit) for offset in (instruction.offset, instruction.offset1)]
    first, second = (source - VECTOR for source in instruction.sources[1:])
    destination = instruction.destination - VECTOR

    def load(w: View) -> None:
        words = [word for address in addresses for word in _LDS.load(w, address(w), size)]
        _write_loaded(w, destination, words, "", "")

    def store(w: View) -> None:
        data = [_words(w, register, size // 4) for register in (first, second)]
        for address, words in zip(addresses, data, strict=True):
            _LDS.store(w, address(w), size, words)

    return load if "load" in instruction.mnemonic else store


def _share_atomic_name(mnemonic: str) -> tuple[str, bool]:
    """The name in ATOMICS, and whether the old value is returned."""
    name = mnemonic.removeprefix("ds_")
    returns = "_rtn" in name
    name = name.replace("_rtn", "").replace("storexchg", "swap").replace("cmpstore", "cmpswap")
    return name, returns


def build_share_atomic(instruction: Instruction, target: str) -> Run:
    name, returns = _share_atomic_name(instruction.mnemonic)
    operation = ATOMICS[name]
    address = share_address(instruction, instruction.offset | instruction.offset1 << 8)
    data, other = (source - VECTOR for source in instruction.sources[1:])
    destination = instruction.destination - VECTOR

    def run(w: View) -> None:
        compare = _typed(w, other, operation.dtype) if operation.compares else None
        old = _LDS.atomic(w, operation, address(w), _typed(w, data, operation.dtype), compare)
        if returns:
            _write_old(w, destination, old)

    return run


special(" ".join(name for name in OPCODES["DS"] if _share_atomic_name(name)[0] in ATOMICS))(build_share_atomic)


@special(" ".join(f"ds_storexchg_2addr{s}_rtn_b{n}" for s in ("", "_stride64") for n in (32, 64)))
def build_share_exchange_pair(instruction: Instruction, target: str) -> Run:
    operation = ATOMICS["swap_b" + instruction.mnemonic[-2:]]
    size = operation.dtype.itemsize
    unit = size * (64 if "stride64" in instruction.mnemonic else 1)
    addresses = [share_address(instruction, offset * unit) for offset in (instruction.offset, instruction.offset1)]
    registers = [source - VECTOR for source in instruction.sources[1:]]
    destination = instruction.destination - VECTOR

    def run(w: View) -> None:
        data = [_typed(w, register, operation.dtype) for register in registers]
        for n in range(2):
            old = _LDS.atomic(w, operation, addresses[n](w), data[n], None)
            _write_old(w, destination + n * size // 4, old)

    return run


@special("ds_load_addtid_b32 ds_store_addtid_b32")
def build_share_by_lane(instruction: Instruction, target: str) -> Run:
    """Address: M0 (16 bits) + offset + 4 * lane."""
    offset = instruction.offset | instruction.offset1 << 8
    data, destination = instruction.sources[1] - VECTOR, instruction.destination - VECTOR

    def address(w: View) -> Array:
        base = (w.scalar(M0) & U32(0xFFFF)).astype(np.int64)[:, None]
        return w.active(base + offset + 4 * np.arange(LANES))

    if "load" in instruction.mnemonic:
        return lambda w: _write_loaded(w, destination, _LDS.load(w, address(w), 4), "b32", "")
    return lambda w: _LDS.store(w, address(w), 4, _words(w, data, 1))


@special("ds_append ds_consume")
def build_share_counter(instruction: Instruction, target: str) -> Run:
    """Adds (or subtracts) the number of active lanes at M0[31:16] + offset; all lanes get the old value."""
    offset = instruction.offset | instruction.offset1 << 8
    destination = instruction.destination - VECTOR
    add = instruction.mnemonic == "ds_append"

    def run(w: View) -> None:
        for n in range(w.count):
            one = View(w.waves, w.indices[n : n + 1])
            lanes = np.bitwise_count(one.exec_bits).astype(np.uint32)
            address = (one.scalar(M0) >> U32(16)).astype(np.int64) + offset
            store = w.waves.lds
            place = _local_offsets(one, store, address, 4, False, one.group)
            old = perform(ATOMICS["add_u32" if add else "sub_u32"], store.bytes, place, lanes, None)
            one.set_vector(destination, old[:, None])

    return run


@special("ds_nop")
def build_nothing(instruction: Instruction, target: str) -> Run:
    return lambda w: None


# -- scalar loads ------------------------------------------------------------------------------------------------------


@special(" ".join(name for name in OPCODES["SMEM"] if name.startswith("s_load_")))
def build_scalar_load(instruction: Instruction, target: str) -> Run:
    kind = instruction.mnemonic.removeprefix("s_load_")
    size = {"b256": 32, "b512": 64}.get(kind) or BYTES[kind]
    destination, offset = instruction.destination, U64(instruction.offset & 0xFFFFFFFFFFFFFFFF)
    base = scalar_reader(instruction.sources[0], "u64")
    more = None if instruction.scalar_address == NULL else scalar_reader(instruction.scalar_address, "u32")
    if destination + max(1, size // 4) > NULL and destination != NULL:
        raise IllegalInstruction("a scalar load beyond the scalar registers")

    def run(w: View) -> None:
        addresses = base(w) + offset
        if more is not None:
            addresses = addresses + more(w)
        if size >= 4:
            addresses = addresses & ~U64(3)
        words = w.waves.memory.load(addresses, size)
        if len(words) == 1:
            words = [_extend(words[0], kind)]
        for n, word in enumerate(words):
            w.set_scalar(destination + n if destination != NULL else NULL, word)

    return run


@special("s_dcache_inv s_gl1_inv s_prefetch_inst s_prefetch_inst_pc_rel s_prefetch_data s_prefetch_data_pc_rel")
def build_scalar_cache_control(instruction: Instruction, target: str) -> Run:
    return lambda w: None
