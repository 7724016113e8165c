"""From machine code back to PTX lines: what LLVM is told, and what is read from the object that it makes.

Instructions that may fault carry the PTX line as LLVM's debug location. LLVM writes a DWARF line table (DWARF 4, section
6.2) into the object; the linker reads it, drops it, and the image's metadata keep `[blob offset, PTX line]` pairs. Code is the
same with and without.
"""

from __future__ import annotations

import struct

LINE_SECTION = ".debug_line"
SCOPE = "!SCOPE"
"""Stands for the number of the function's scope until the function becomes part of a module (`ModuleText.add`)."""
NO_LINE = f", !dbg !DILocation(line: 0, scope: {SCOPE})"
"""What calls of functions with locations end in: without it LLVM drops the locations of what it inlines there."""
FIRST_SCOPE = 100
MOST_ROWS = 1 << 20

_VERSION_FLAG, _DWARF_FLAG, _UNIT, _FILE, _TYPE = 90, 91, 92, 93, 94


class LineTableError(ValueError):
    """The line table is malformed."""


def debug_metadata(scopes: int) -> list[str]:
    """The metadata of a module with that many functions that have debug locations."""
    lines = [
        f"!llvm.module.flags = !{{!{_VERSION_FLAG}, !{_DWARF_FLAG}}}",
        f"!llvm.dbg.cu = !{{!{_UNIT}}}",
        f'!{_VERSION_FLAG} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f'!{_DWARF_FLAG} = !{{i32 7, !"Dwarf Version", i32 4}}',
        f"!{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FILE}, isOptimized: true, emissionKind: LineTablesOnly)",
        f'!{_FILE} = !DIFile(filename: "ptx", directory: "")',
        f"!{_TYPE} = !DISubroutineType(types: !0)",
    ]
    for number in range(FIRST_SCOPE, FIRST_SCOPE + scopes):
        lines.append(
            f'!{number} = distinct !DISubprogram(name: "f{number}", scope: !{_FILE}, file: !{_FILE}, line: 0, type: !{_TYPE}, '
            f"unit: !{_UNIT}, spFlags: DISPFlagDefinition | DISPFlagOptimized)"
        )
    return lines


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            raise LineTableError("it ends in the middle")
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return int(value)

    def leb(self, *, signed: bool = False) -> int:
        """A LEB128 number (DWARF 4, section 7.6)."""
        value = shift = 0
        while True:
            byte = self.take("<B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
            if shift > 70:
                raise LineTableError("a number is too long")
        return value - (1 << shift) if signed and byte & 0x40 else value


def read_line_table(data: bytes) -> list[tuple[int, int]]:
    """(address, line) pairs by ascending address; a pair holds up to the next one. Raises LineTableError."""
    rows: list[tuple[int, int]] = []
    reader = _Reader(data)
    while reader.at < len(data):
        _read_unit(reader, rows)
    rows.sort(key=lambda row: row[0])
    result: list[tuple[int, int]] = []
    for address, line in rows:
        if result and result[-1][0] == address:
            result[-1] = (address, line)
        elif not result or result[-1][1] != line:
            result.append((address, line))
    return result


def _read_unit(reader: _Reader, rows: list[tuple[int, int]]) -> None:
    size = reader.take("<I")
    end = reader.at + size
    if size >= 0xFFFFFFF0 or end > len(reader.data):
        raise LineTableError("a unit is larger than the section")
    version = reader.take("<H")
    if version not in (2, 3, 4):
        raise LineTableError(f"version {version}")
    header = reader.take("<I")
    program = reader.at + header
    least = reader.take("<B")
    if version == 4:
        reader.take("<B")  # operations per instruction: for VLIW machines
    reader.take("<B")  # whether rows are statements at first
    line_base, line_range, opcode_base = reader.take("<b"), reader.take("<B"), reader.take("<B")
    lengths = [reader.take("<B") for _ in range(opcode_base - 1)]
    if not line_range or program > end:
        raise LineTableError("the header is malformed")
    reader.at = program
    _run(reader, end, rows, least, line_base, line_range, opcode_base, lengths)
    reader.at = end


def _run(
    reader: _Reader, end: int, rows: list[tuple[int, int]], least: int, line_base: int, line_range: int, opcode_base: int,
    lengths: list[int],
) -> None:  # fmt: skip
    """The line number program (section 6.2.5)."""
    address, line = 0, 1
    while reader.at < end:
        if len(rows) > MOST_ROWS:
            raise LineTableError("too many rows")
        opcode = reader.take("<B")
        if opcode >= opcode_base:
            adjusted = opcode - opcode_base
            address += adjusted // line_range * least
            line += line_base + adjusted % line_range
            rows.append((address, line))
        elif opcode == 0:
            size = reader.leb()
            after = reader.at + size
            if not size or after > end:
                raise LineTableError("an extended operation is too long")
            kind = reader.take("<B")
            if kind == 1:  # end of sequence
                rows.append((address, 0))
                address, line = 0, 1
            elif kind == 2:  # set address
                address = reader.take("<Q")
            reader.at = after
        elif opcode == 1:  # copy
            rows.append((address, line))
        elif opcode == 2:  # advance pc
            address += reader.leb() * least
        elif opcode == 3:  # advance line
            line += reader.leb(signed=True)
        elif opcode == 8:  # const add pc
            address += (255 - opcode_base) // line_range * least
        elif opcode == 9:  # fixed advance pc
            address += reader.take("<H")
        else:
            for _ in range(lengths[opcode - 1]):
                reader.leb()
