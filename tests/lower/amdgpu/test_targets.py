"""Every target's code objects, and what is refused."""

from __future__ import annotations

import io
import re

import pytest
from elftools.elf.elffile import ELFFile

from cuttle.abi.targets import GPU_TARGETS
from cuttle.errors import DeviceError, PtxError
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module
from tests.lower.amdgpu.kernels import HEADER, KERNELS, SHARED_SUM, SPIN_LOCK, VECTOR_ADD

WAVE_32 = [target for target in GPU_TARGETS if target.wave == 32]


@pytest.mark.parametrize("target", WAVE_32, ids=lambda target: target.name)
def test_machine_number(target) -> None:
    """The rows' numbers are those that LLVM writes."""
    version = 6 if target.generic_version else 5
    image = compile_kernel(parse_module(VECTOR_ADD), "vector_add", AmdgpuOptions(target.name, version))
    flags = ELFFile(io.BytesIO(image.code_object)).header["e_flags"]
    assert flags & 0xFF == target.machine
    assert flags >> 24 == target.generic_version
    assert image.code_object[8] == version - 2  # the ELF ABI version of code object version 4 is 2


@pytest.mark.parametrize(
    "target", [target for target in GPU_TARGETS if target.wave != 32], ids=lambda target: target.name
)
def test_wave64_is_refused(target) -> None:
    with pytest.raises(DeviceError) as error:
        compile_kernel(parse_module(VECTOR_ADD), "vector_add", AmdgpuOptions(target.name))
    assert error.value.code == "DEV-0021"
    assert f"{target.name} ({target.products}) has waves of 64 lanes" in error.value.render()
    assert "hint: RX 5000 and newer" in error.value.render()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (AmdgpuOptions("gfx1234"), "no GPU target"),
        (AmdgpuOptions("gfx1100", 3), "version 3"),
        (AmdgpuOptions("gfx11-generic", 5), "needs code object version 6"),
    ],
)
def test_bad_options(options: AmdgpuOptions, words: str) -> None:
    with pytest.raises(DeviceError, match=words) as error:
        compile_kernel(parse_module(VECTOR_ADD), "vector_add", options)
    assert error.value.code == "DEV-0020"
    assert error.value.hint


@pytest.mark.parametrize("target", ["gfx1030", "gfx1100", "gfx1200"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_hidden_arguments_and_no_spills(name: str, target: str) -> None:
    image = compile_kernel(parse_module(KERNELS[name]), name, AmdgpuOptions(target), want_assembly=True)
    assert "hidden_" not in image.assembly
    assert f".kernarg_segment_size: {image.metadata['kernarg_bytes']}" in image.assembly
    for kind in ("sgpr", "vgpr"):
        assert re.search(rf"\.{kind}_spill_count: +0\n", image.assembly)
    assert "wavefront_size: 32" in image.assembly


def test_loads_of_shared_memory_stay_before_a_barrier() -> None:
    """LLVM's machine code sinking moved them past the second barrier of the loop."""
    image = compile_kernel(parse_module(SHARED_SUM), "shared_sum", AmdgpuOptions("gfx1100"), want_assembly=True)
    order = re.findall(r"^\t(s_barrier|ds_load_b32|ds_store_b32)\b", image.assembly, re.MULTILINE)
    assert order == ["ds_store_b32", "s_barrier", "ds_load_b32", "s_barrier"]


def test_generic_access_to_a_parameter_is_global() -> None:
    image = compile_kernel(parse_module(VECTOR_ADD), "vector_add", AmdgpuOptions("gfx1100"), want_assembly=True)
    assert "flat_load" not in image.assembly
    assert image.assembly.count("global_load_b32") == 2


def test_spin_locks_become_a_scan() -> None:
    image = compile_kernel(parse_module(SPIN_LOCK), "spin_lock", AmdgpuOptions("gfx1100"))
    assert image.metadata["scan"]
    assert not compile_kernel(parse_module(SHARED_SUM), "shared_sum", AmdgpuOptions("gfx1100")).metadata["scan"]


def test_refusals_name_the_instruction() -> None:
    text = HEADER + (
        ".visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .b128 %v<3>; ld.param.u64 %a, [p];\n"
        "ld.global.b128 %v0, [%a]; atom.global.exch.b128 %v1, [%a], %v0; st.global.b128 [%a], %v1; ret; }"
    )
    with pytest.raises(PtxError, match="128-bit atomics") as error:
        compile_kernel(
            parse_module(text.replace("sm_80", "sm_90").replace("8.0", "8.4")), "k", AmdgpuOptions("gfx1100")
        )
    assert error.value.code == "PTX-0601"
    assert error.value.where.kernel == "k"
