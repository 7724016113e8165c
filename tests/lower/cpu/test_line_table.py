"""From code back to PTX lines: what LLVM's line tables say, and tables that nobody should write."""

from __future__ import annotations

import random

import pytest

from cuttle.lower.cpu.compile_object import CodeOptions, compile_object
from cuttle.lower.cpu.line_table import FIRST_SCOPE, LineTableError, debug_metadata, read_line_table
from cuttle.lower.cpu.link_image import link_image

FUNCTION = f"""
define i32 @blocks(ptr %p, ptr %q) !dbg !{FIRST_SCOPE} {{
  %a = load volatile i32, ptr %p, !dbg !DILocation(line: 70000, scope: !{FIRST_SCOPE})
  %b = add i32 %a, 1
  store volatile i32 %b, ptr %q, !dbg !DILocation(line: 7, scope: !{FIRST_SCOPE})
  ret i32 %b
}}
"""


@pytest.mark.parametrize("level", [0, 2])
def test_lines_of_llvm(level: int) -> None:
    text = FUNCTION + "!0 = !{}\n" + "\n".join(debug_metadata(1)) + "\n"
    linked = link_image(compile_object(text, CodeOptions(opt_level=level)).object, exports=("blocks",))
    lines = [line for _, line in linked.lines]
    assert [line for line in lines if line] == [70000, 7]
    offsets = [offset for offset, _ in linked.lines]
    assert offsets == sorted(offsets) and offsets[-1] <= len(linked.blob)


def test_code_is_the_same_with_and_without() -> None:
    text = FUNCTION + "!0 = !{}\n" + "\n".join(debug_metadata(1)) + "\n"
    bare = "\n".join(line.split(", !dbg")[0].replace(f" !dbg !{FIRST_SCOPE}", "") for line in FUNCTION.splitlines())
    one, other = (link_image(compile_object(part).object, exports=("blocks",)) for part in (text, bare))
    assert one.blob == other.blob and other.lines == []


def table() -> bytes:
    """A unit of DWARF 4 with one sequence: address 16 is line 5, 20 is line 9."""
    header = bytes([1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0\0"
    program = (
        b"\0\x09\x02" + (16).to_bytes(8, "little") + b"\x03\x04\x01" + b"\x02\x04\x03\x04\x01" + b"\x02\x08\0\x01\x01"
    )
    body = (4).to_bytes(2, "little") + len(header).to_bytes(4, "little") + header + program
    return len(body).to_bytes(4, "little") + body


def test_a_table_by_hand() -> None:
    assert read_line_table(table()) == [(16, 5), (20, 9), (28, 0)]
    assert read_line_table(b"") == []


def test_damaged_tables_raise_only_line_table_errors() -> None:
    good, generator = table(), random.Random(3)
    for _ in range(5000):
        data = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            read_line_table(bytes(data[: generator.randrange(1, len(data) + 1)]))
        except LineTableError:
            pass
    with pytest.raises(LineTableError):
        read_line_table(good[:-3])
