"""Texture and surface references of a module through whatever `libcuda.so.1` is; one JSON line with what was seen.

    python3 tests/textures/references.py

Standard library and Cuttle's sources only: it ran on an NVIDIA H200, where the numbers in `test_references.py` come from, but for those of linear memory.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "src")]

from cuttle.sweep.driver import Driver, DriverFailure  # noqa: E402  (the path is set above)
from cuttle.sweep.textures import FLOAT, SURFACE, U8, Image, Textures  # noqa: E402

LANES = 8
PTX = """.version 6.4
.target sm_70
.address_size 64
.global .texref picture;
.global .surfref canvas;
.global .b64 other;
.visible .entry read(.param .u64 out)
{
  .reg .b32 %t, %r<8>; .reg .f32 %x; .reg .b64 %out, %at;
  ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; cvt.rn.f32.u32 %x, %t;
  tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [picture, {%x, %x}];
  txq.width.b32 %r4, [picture];
  mul.wide.u32 %at, %t, 8; add.u64 %out, %out, %at; st.global.v2.u32 [%out], {%r0, %r4};
  ret;
}
.visible .entry number(.param .u64 out)
{
  .reg .b32 %t, %r<8>; .reg .b64 %out, %at;
  ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
  tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [picture, {%t}];
  mul.wide.u32 %at, %t, 8; add.u64 %out, %out, %at; st.global.v2.u32 [%out], {%r2, %r3};
  ret;
}
.visible .entry paint(.param .u64 out)
{
  .reg .b32 %t, %r<8>; .reg .b64 %out, %at;
  ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; shl.b32 %r1, %t, 2; mov.u32 %r2, 1;
  suld.b.2d.b32.trap %r3, [canvas, {%r1, %r2}];
  add.u32 %r4, %r3, 1; sust.b.2d.b32.trap [canvas, {%r1, %r2}], %r4;
  mul.wide.u32 %at, %t, 8; add.u64 %out, %out, %at; st.global.v2.u32 [%out], {%r3, %r4};
  ret;
}
"""


class Plane(ctypes.Structure):
    """`CUDA_ARRAY_DESCRIPTOR`."""

    _fields_ = (
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
    )


def main() -> None:
    driver = Driver()
    textures = Textures(driver)
    module = driver.load(PTX.encode())
    out = driver.allocate(4096)
    seen: dict[str, object] = {"device": driver.name}

    def launch(kernel: str) -> list[int]:
        function = ctypes.c_void_p()
        driver.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(out))
        driver.call("cuLaunchKernel", function, 1, 1, 1, LANES, 1, 1, 0, None, pointers, None)
        driver.synchronize()
        return list(struct.unpack(f"<{2 * LANES}I", driver.read(out, 8 * LANES)))

    def result(function: str, *arguments: object) -> int:
        try:
            driver.call(function, *arguments)
        except DriverFailure as failure:
            return failure.result
        return 0

    picture, canvas, again = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleGetTexRef", ctypes.byref(picture), module, b"picture")
    driver.call("cuModuleGetTexRef", ctypes.byref(again), module, b"picture")
    driver.call("cuModuleGetSurfRef", ctypes.byref(canvas), module, b"canvas")
    seen["same"] = picture.value == again.value
    seen["no such"] = result("cuModuleGetTexRef", ctypes.byref(again), module, b"nothing")
    image, _ = textures.image(Image(8, 8, 0, FLOAT, 1, SURFACE, fill="index"))
    array = ctypes.c_void_p(image)
    driver.call("cuTexRefSetArray", picture, array, 1)
    seen["nearest"] = launch("read")
    driver.call("cuTexRefSetFilterMode", picture, 1)
    seen["linear"] = launch("read")
    driver.call("cuTexRefSetFlags", picture, 2)
    driver.call("cuTexRefSetAddressMode", picture, 0, 0)
    driver.call("cuTexRefSetAddressMode", picture, 1, 0)
    seen["wrapped"] = launch("read")
    driver.call("cuTexRefSetFlags", picture, 0)
    driver.call("cuTexRefSetFilterMode", picture, 0)
    pitched = driver.allocate(512 * 8)
    driver.write(pitched, struct.pack("<1024f", *range(1024)))
    driver.call("cuTexRefSetAddress2D_v3", picture, ctypes.byref(Plane(8, 8, FLOAT, 1)), pitched, ctypes.c_size_t(512))
    seen["pitched"] = launch("read")
    offset = ctypes.c_size_t(99)
    driver.call("cuTexRefSetFormat", picture, U8, 4)
    driver.call("cuTexRefSetAddress_v2", ctypes.byref(offset), picture, pitched, ctypes.c_size_t(1024))
    seen["linear memory"] = launch("number")
    seen["offset"] = offset.value
    form, channels = ctypes.c_int(), ctypes.c_int()
    driver.call("cuTexRefGetFormat", ctypes.byref(form), ctypes.byref(channels), picture)
    seen["format"] = [form.value, channels.value]
    driver.call("cuSurfRefSetArray", canvas, array, 0)
    seen["painted"] = launch("paint")
    driver.call("cuTexRefSetArray", picture, array, 1)
    seen["read back"] = launch("read")
    driver.call("cuModuleUnload", module)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
