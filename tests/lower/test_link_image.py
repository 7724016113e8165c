"""LLVM text → object → flat image → memory → call."""

from __future__ import annotations

import ctypes
import mmap
import random
import struct
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from cuttle.lower.cpu.compile_object import (
    TRIPLE,
    CodeGenerationError,
    CodeOptions,
    compile_object,
    function_attributes,
    parse,
)
from cuttle.lower.cpu.image_file import ImageError, pack_image, read_image, unpack_image, write_image
from cuttle.lower.cpu.link_image import Linked, LinkError, link_image

CASES = "\n".join(f"    i32 {n}, label %c{n}" for n in range(8))
BODIES = "\n".join(
    f"c{n}:\n  store volatile i32 {n}, ptr @counter\n  {['%a = mul i64 %x, 3', '%b = add i64 %x, 100'][n % 2]}\n  br label %join"
    if n < 2
    else f"c{n}:\n  %v{n} = call i64 @helper{n}(i64 %x)\n  br label %join"
    for n in range(8)
)
HELPERS = "\n".join(
    f"define internal i64 @helper{n}(i64 %x) noinline {{\n  %y = xor i64 %x, {n * 1000}\n  ret i64 %y\n}}"
    for n in range(2, 8)
)
TEXT = f"""
@table = private unnamed_addr constant [4 x i64] [i64 11, i64 22, i64 33, i64 44], align 64
@pointers = internal constant [2 x ptr] [ptr @helper2, ptr @helper3]
@counter = global i32 7
@zeros = internal global [1000 x i64] zeroinitializer
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

{HELPERS}

define i64 @lookup(i64 %i) #0 {{
  %p = getelementptr [4 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %p
  %c = load i32, ptr @counter
  %z = getelementptr [1000 x i64], ptr @zeros, i64 0, i64 %i
  store volatile i64 %v, ptr %z
  %w = load volatile i64, ptr %z
  %d = zext i32 %c to i64
  %r = add i64 %w, %d
  ret i64 %r
}}

define i64 @pick(i32 %which, i64 %x) #0 {{
  switch i32 %which, label %none [
{CASES}
  ]
none:
  ret i64 -1
{BODIES}
join:
  %r = phi i64 [ %a, %c0 ], [ %b, %c1 ], [ %v2, %c2 ], [ %v3, %c3 ], [ %v4, %c4 ], [ %v5, %c5 ], [ %v6, %c6 ], [ %v7, %c7 ]
  ret i64 %r
}}

define i64 @indirect(i64 %i, i64 %x) #0 {{
  %p = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 %i
  %f = load volatile ptr, ptr %p
  %r = call i64 %f(i64 %x)
  ret i64 %r
}}

define void @copy(ptr %to, ptr %from, i64 %n) #0 {{
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}}
"""


def text_for(options: CodeOptions) -> str:
    return TEXT + f"\nattributes #0 = {{ {function_attributes(options)} }}\n"


class Loaded:
    """A linked blob in executable memory."""

    def __init__(self, linked: Linked) -> None:
        self.memory = mmap.mmap(-1, len(linked.blob), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        image = bytearray(linked.blob)
        for offset in linked.fixups:
            assert linked.data_offset <= offset
            struct.pack_into("<Q", image, offset, struct.unpack_from("<Q", image, offset)[0] + self.base)
        library = ctypes.CDLL(None)
        for offset, name in linked.imports:
            assert linked.data_offset <= offset
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            assert address is not None
            struct.pack_into("<Q", image, offset, address)
        self.memory[:] = bytes(image)
        self.symbols = linked.symbols

    def function(self, name: str, *types: type) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int64, *types)(self.base + self.symbols[name])


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
def test_link_and_call(level: int, cpu: str) -> None:
    options = CodeOptions(opt_level=level, cpu=cpu)
    linked = link_image(
        compile_object(text_for(options), options).object, ("lookup", "pick", "copy", "indirect"), ("memcpy",)
    )
    assert [name for _, name in linked.imports] == ["memcpy"]
    assert linked.fixups
    code = Loaded(linked)
    lookup = code.function("lookup", ctypes.c_int64)
    assert [lookup(i) for i in range(4)] == [18, 29, 40, 51]
    pick = code.function("pick", ctypes.c_int32, ctypes.c_int64)
    assert [pick(n, 5) for n in range(9)] == [15, 105, *(5 ^ (n * 1000) for n in range(2, 8)), -1]
    indirect = code.function("indirect", ctypes.c_int64, ctypes.c_int64)
    assert [indirect(i, 1) for i in range(2)] == [2001, 3001]
    source = ctypes.create_string_buffer(b"cuttlefish" * 100)
    target = ctypes.create_string_buffer(len(source))
    copy = code.function("copy", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    copy(ctypes.addressof(target), ctypes.addressof(source), len(source))
    assert target.raw == source.raw


def test_missing_export_and_refused_import() -> None:
    data = compile_object(TEXT.replace(" #0", "")).object
    with pytest.raises(LinkError, match="does not define"):
        link_image(data, ("nothing",))
    with pytest.raises(LinkError, match="memcpy"):
        link_image(data, (), ())


def test_bad_text_shows_its_place() -> None:
    with pytest.raises(CodeGenerationError, match="2:   ret i32 %nothing"):
        compile_object("define i32 @f() {\n  ret i32 %nothing\n}\n")
    with pytest.raises(CodeGenerationError):
        compile_object("define i32 @f() {\n  %a = add i32 %b, 1\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n")


def test_texts_on_request() -> None:
    compiled = compile_object("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n", want_ir=True, want_assembly=True)
    assert "define" in compiled.ir and "@f" in compiled.ir
    assert "retq" in compiled.assembly


def test_non_pic_object_is_refused() -> None:
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(reloc="static", codemodel="large")
    parsed = parse("@x = global i32 1\ndefine ptr @f() {\n  ret ptr @x\n}\n")
    with pytest.raises(LinkError, match="absolute address in code"):
        link_image(machine.emit_object(parsed))


def test_damaged_objects_raise_only_link_errors() -> None:
    data = compile_object(TEXT.replace(" #0", "")).object
    rng = random.Random(1)
    for length in sorted(rng.sample(range(len(data)), 60)):
        with pytest.raises(LinkError):
            link_image(data[:length])
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            broken[rng.choice((rng.randrange(64), rng.randrange(len(data))))] = rng.randrange(256)
        try:
            link_image(bytes(broken))
        except LinkError:
            pass


def test_image_file_round_trip_and_damage(tmp_path: Path) -> None:
    blob = bytes(range(256)) * 40
    path = tmp_path / "k.image"
    write_image(path, {"name": "k", "fixups": [8]}, blob)
    metadata, read = read_image(path)
    assert (metadata["name"], metadata["fixups"], metadata["blob_bytes"], read) == ("k", [8], len(blob), blob)
    data = pack_image({"name": "k"}, blob)
    assert len(data) == 4096 + len(blob)
    rng = random.Random(2)
    for _ in range(200):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        with pytest.raises(ImageError):
            unpack_image(bytes(broken))
    for length in (0, 10, 48, 60, 4095, 4096, len(data) - 1):
        with pytest.raises(ImageError):
            unpack_image(data[:length])
