"""The output of NVIDIA's real compiler: PTX, fat binaries in all compressions, separate compilation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cuttle.ptx.containers import elf
from cuttle.ptx.containers.choose import choose_ptx
from cuttle.ptx.containers.fatbin import read_fatbins
from cuttle.ptx.link import link_texts
from cuttle.ptx.parser import index_module, parse_module
from cuttle.ptx.printer import print_module, without_places
from cuttle.ptx.scan import scan_path
from cuttle.ptx.validator import validate_module
from tests import cuda_toolchain

pytestmark = pytest.mark.nvcc
PROGRAMS = Path(__file__).parent.parent / "programs"

FEATURES = r"""
#include <cstdio>
__device__ const char* words[2] = {"a{;}b", "// none"};
__constant__ double table[2][3] = {{1, 2}, {3}};
__managed__ int managed = 3;
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float next(float x) { return x + 1; }
typedef float (*function)(float);
__device__ function functions[2] = {twice, next};
struct Pair { char a; short b; double c; };
__global__ void calls(float* o, int i, Pair p) {
    o[0] = functions[i](o[1]) + table[i][1] + p.b + managed;
    printf("%s %f\n", words[i], o[0]);
}
__global__ void blocks(int* o, int n) {
    for (int i = 0; i < 4; i++)
        asm volatile("{ .reg .pred p; .reg .b32 t<3>; LAB: setp.lt.s32 p, %0, 5; add.s32 t1, %0, 1;"
                     "@p bra DONE; bra LAB; DONE: mov.b32 t2, t1; }" ::"r"(n + i));
    switch (n) { case 0: o[0] = 1; break; case 1: o[9] = 5; break; case 2: o[3] = n / 3; break; case 3: o[n] = n; break;
                 case 4: o[6] = 2; case 5: o[8] = 3; break; case 6: o[44] = n * n; break; case 7: o[n * n] = 1; }
    o[1] = __ballot_sync(~0u, n) + __vadd4(n, 3) + __vabsdiffs2(n, 7) + __dp4a(n, n, n) + clock();
}
__global__ void textures(cudaTextureObject_t t, cudaSurfaceObject_t s, float4* o) {
    o[0] = tex2D<float4>(t, threadIdx.x, 1.f);
    float v; surf2Dread(&v, s, 4, 4); surf2Dwrite(v, s, 8, 8);
    o[1] = tex2Dgather<float4>(t, 1, 2, 1); o[2].x = tex2DLayered<float>(t, 1, 2, 3);
}
int main() { return 0; }
"""


@pytest.fixture(scope="module")
def toolchain() -> cuda_toolchain.Toolchain:
    try:
        return cuda_toolchain.from_wheels()
    except cuda_toolchain.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nvcc") / "features.cu"
    path.write_text(FEATURES)
    return path


def check(text: bytes, toolchain: cuda_toolchain.Toolchain, target: str, folder: Path) -> None:
    """Parse, validate, print, parse again, and let NVIDIA's assembler read what was printed."""
    module = parse_module(text)
    assert validate_module(module) == []
    printed = print_module(module)
    assert without_places(parse_module(printed)) == without_places(module)
    path = folder / "printed.ptx"
    path.write_text(printed)
    ptxas = toolchain.nvcc.with_name("ptxas")
    done = subprocess.run(
        [ptxas, f"-arch={target}", "-O0", path, "-o", "/dev/null"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["sm_75", "sm_100"])
def test_features(toolchain: cuda_toolchain.Toolchain, features: Path, target: str, tmp_path: Path) -> None:
    output = tmp_path / "features.ptx"
    toolchain.build([features], [f"-arch={target}", "-lineinfo", "-ptx"], output)
    check(output.read_bytes(), toolchain, target, tmp_path)


@pytest.mark.parametrize("name", ["scan_device", "nbody"])
def test_programs(toolchain: cuda_toolchain.Toolchain, name: str, tmp_path: Path) -> None:
    output = tmp_path / "program.ptx"
    toolchain.build([PROGRAMS / f"{name}.cu"], ["-arch=sm_80", "-ptx"], output)
    check(output.read_bytes(), toolchain, "sm_80", tmp_path)


@pytest.mark.parametrize(("mode", "compression"), [("none", "none"), ("speed", "lz4"), ("size", "zstd")])
def test_fat_binaries(
    toolchain: cuda_toolchain.Toolchain, features: Path, mode: str, compression: str, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    flags = [f"--compress-mode={mode}", "-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
    toolchain.build([features], flags, program)
    data = program.read_bytes()
    parts = [p for s in elf.fatbin_sections(data, elf.read_elf(data)) for p in read_fatbins(s)]
    part = next(p for p in parts if any(e.kind == "ptx" for e in p.entries))
    entry = choose_ptx(part.entries, (8, 0)).entry
    assert (entry.target, entry.compression) == ("compute_80", compression)
    index = index_module(entry.payload())
    cubin = next(e for e in part.entries if e.kind == "cubin").payload()
    kernels = {k.name: k for k in elf.cubin_kernels(cubin, elf.read_elf(cubin))}
    assert set(kernels) == set(index.entries)
    for name, kernel in kernels.items():
        header = index.functions[name].header
        assert [(p.offset, p.size_bytes) for p in kernel.parameters] == [
            (p.offset, p.size_bytes) for p in header.parameters
        ]
        assert kernel.parameter_bytes == header.parameter_bytes
    (found,) = scan_path(program).files
    assert found.verdict == "runs" and set(kernels) <= set(found.kernels)


def test_separate_compilation(toolchain: cuda_toolchain.Toolchain, tmp_path: Path) -> None:
    sources = {
        "user.cu": "extern __device__ int counter; extern __device__ float helper(float);"
        "static __device__ __noinline__ int own(int x) { return x + counter; } inline __device__ __noinline__ int in(int x)"
        "{ return x * 3; } __global__ void k(float* o) { o[0] = helper(o[1]) + own(2) + in(int(o[2])); }",
        "owner.cu": "__device__ int counter = 7; static __device__ __noinline__ int own(int x) { return x - counter; }"
        "inline __device__ __noinline__ int in(int x) { return x * 3; }"
        "__device__ float helper(float x) { return own(x) + in(x); }",
    }
    texts = []
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
        output = tmp_path / f"{name}.ptx"
        toolchain.build([tmp_path / name], ["-rdc=true", "-arch=sm_80", "-ptx"], output)
        texts.append((name, output.read_bytes()))
    module = link_texts(texts)
    assert validate_module(module) == []
    check(print_module(module).encode(), toolchain, "sm_80", tmp_path)
