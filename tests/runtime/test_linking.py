"""cuLink of archives, and what Cuttle adds to links itself."""

from __future__ import annotations

import pytest

from cuttle.ptx.containers.image import unpack_image
from cuttle.ptx.parser import parse_module
from cuttle.runtime.device_runtime import COOPERATIVE_GROUPS, provided_texts
from cuttle.runtime.linking import LinkStore
from cuttle.runtime.results import CudaError

HEADER = b".version 8.0\n.target sm_80\n.address_size 64\n"
USER = HEADER + b".extern .func f(); .visible .entry k() { call f, (); ret; }"
F = HEADER + b".extern .func g(); .visible .func f() { call g, (); ret; }"
G = HEADER + b".visible .global .b32 count = 3; .visible .func g() { ret; }"
UNUSED = HEADER + b".extern .func nowhere(); .visible .func h() { call nowhere, (); ret; }"
CLASHING = HEADER + b".visible .entry k() { ret; }"
GRID = HEADER + (
    b".extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);"
    b".visible .entry k() { .reg .b64 %rd<2>; { .param .b32 s; .param .b64 r; st.param.b32 [s], 1;"
    b" call (r), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %rd1, [r]; } ret; }"
)


def archive(*members: bytes) -> bytes:
    data = b"!<arch>\n"
    for number, member in enumerate(members):
        data += b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (b"m%d.o/" % number, 0, 0, 0, 0o644, len(member))
        data += member + b"\n" * (len(member) % 2)
    return data


def linked(*inputs: bytes) -> str:
    store = LinkStore((8, 0))
    number = store.create(0, 0)
    for data in inputs:
        store.add(number, "", data)
    return unpack_image(store.complete(number)).decode()


def test_members_are_linked_if_needed() -> None:
    module = parse_module(linked(archive(UNUSED, G, b"\x7fELF host object", F), USER))
    assert set(module.functions) == {"k", "f", "g"} and set(module.variables) == {"count"}


def test_what_the_program_defines_itself_is_not_taken() -> None:
    assert set(parse_module(linked(USER, F, G, archive(CLASHING, F, G))).functions) == {"k", "f", "g"}


def test_missing_symbols_stay_errors() -> None:
    with pytest.raises(CudaError, match="PTX-0401"):
        linked(USER, archive(F))


def test_an_archive_alone_is_nothing_to_link() -> None:
    with pytest.raises(CudaError, match="nothing was added"):
        linked(archive(F))


def test_the_grid_barrier_is_ours() -> None:
    runtime = (
        HEADER
        + b".visible .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s) { ret; } // _cuda_device_runtime_cu_"
    )
    module = parse_module(linked(GRID, archive(runtime)))
    assert "cudaCGSynchronize" in module.functions
    parse_module(COOPERATIVE_GROUPS)
    assert provided_texts([("m", USER)]) == []
