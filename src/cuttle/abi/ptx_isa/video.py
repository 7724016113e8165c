"""Video opcodes (PTX ISA 9.0, 9.7.18): scalar with byte/half selection, and 2- and 4-way SIMD."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_T = "(.u32|.s32)"
_THREE = f"{_T}{_T}{_T}"
_TWO = f"{_T}{_T}"
_WITH_C = "b32: b32 b32 b32"
# A second operation needs c; without one c appears only to merge into (`d.b0`).
_SECOND = (("add", _WITH_C), ("min", _WITH_C), ("max", _WITH_C))


def _scalar(name: str, section: str, syntax: tuple[str, ...], operands: str = "b32: b32 b32 b32?") -> Opcode:
    return Opcode(name, "video", operands, forms=_SECOND, syntax=syntax, since=("2.0", "sm_20"), section=section)


def _simd(root: str, ways: int) -> Opcode:
    shape = f"{_TWO}(.eq|.ne|.lt|.le|.gt|.ge)[.add]" if root == "vset" else f"{_THREE}[.sat|.add]"
    return Opcode(
        f"{root}{ways}",
        "video",
        _WITH_C,
        syntax=(f"{root}{ways}{shape}",),
        since=("3.0", "sm_30"),
        section=f"9.7.18.2.{ways // 2}",
    )


ROWS: tuple[Opcode, ...] = (
    *(
        _scalar(name, "9.7.18.1.1", (f"{name}{_THREE}[.sat][.add|.min|.max]",))
        for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
    ),
    *(
        _scalar(name, "9.7.18.1.2", (f"{name}{_T}{_T}.u32[.sat](.clamp|.wrap)[.add|.min|.max]",))
        for name in ("vshl", "vshr")
    ),
    _scalar("vmad", "9.7.18.1.3", (f"vmad{_THREE}[.po][.sat][.shr7|.shr15]",), _WITH_C),
    _scalar("vset", "9.7.18.1.4", (f"vset{_TWO}(.eq|.ne|.lt|.le|.gt|.ge)[.add|.min|.max]",)),
    *(
        _simd(root, ways)
        for ways in (2, 4)
        for root in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
    ),
)
