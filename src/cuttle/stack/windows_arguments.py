"""Windows command lines: every program gets one string and splits it itself. These are the rules of CommandLineToArgvW and Microsoft's C runtime.

`subprocess.list2cmdline` writes arguments by the same rules; what it leaves open is the program's own name (no backslash escapes there), batch files
(cmd.exe reads them by other rules), characters that cannot be passed, and the length.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from cuttle.errors import StackError

# Of CreateProcess, with the closing zero.
MOST_CHARACTERS = 32767
# What cmd.exe acts on, even between quotation marks.
_CMD_CHARACTERS = set('"%!^&|<>()\r\n')


def quoted_program(program: str) -> str:
    """The program's name: up to the next quotation mark, whatever stands in between. Raises STK-0602."""
    if '"' in program or "\0" in program or not program:
        raise StackError("STK-0602", f"{program!r} is no name of a program")
    return f'"{program}"'


def command_line(program: str, arguments: Sequence[str]) -> str:
    """The string that makes a program see exactly these arguments. Raises STK-0602 where there is none."""
    if program.lower().endswith((".bat", ".cmd")):
        for argument in arguments:
            if not argument or _CMD_CHARACTERS & set(argument) or argument.endswith("\\"):
                raise StackError("STK-0602", f"the batch file {program} cannot be given {argument!r} unchanged")
    for argument in arguments:
        if "\0" in argument:
            raise StackError("STK-0602", "an argument holds a zero character")
    line = " ".join([quoted_program(program), *([subprocess.list2cmdline(arguments)] if arguments else [])])
    if len(line) + 1 > MOST_CHARACTERS:
        raise StackError(
            "STK-0602", f"the command line has {len(line):,} characters; Windows takes {MOST_CHARACTERS - 1:,}"
        )
    return line
