"""Command lines are taken apart again by an own reading of Microsoft's rules for CommandLineToArgvW."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuttle.errors import StackError
from cuttle.stack.windows_arguments import MOST_CHARACTERS, command_line


def command_line_to_argv(line: str) -> list[str]:
    """What CommandLineToArgvW makes of a command line.

    Rules, from its documentation ("Parsing C++ command-line arguments" and the function's remarks): the program's name ends at the next quotation
    mark if it begins with one, else at white space. After that 2n backslashes and a quotation mark are n backslashes and the end or begin of quoting; 2n+1 are n
    backslashes and a quotation mark; other backslashes are themselves. Two quotation marks within quoting are one.
    """
    arguments = []
    if line.startswith('"'):
        end = line.find('"', 1)
        end = len(line) if end < 0 else end
        arguments.append(line[1:end])
        at = end + 1
    else:
        at = 0
        while at < len(line) and line[at] not in " \t":
            at += 1
        arguments.append(line[:at])
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        if at >= len(line):
            return arguments
        argument, quoted = "", False
        while at < len(line) and (quoted or line[at] not in " \t"):
            slashes = 0
            while at < len(line) and line[at] == "\\":
                slashes += 1
                at += 1
            if at < len(line) and line[at] == '"':
                argument += "\\" * (slashes // 2)
                if slashes % 2:
                    argument += '"'
                elif quoted and at + 1 < len(line) and line[at + 1] == '"':
                    argument += '"'
                    at += 1
                else:
                    quoted = not quoted
                at += 1
            else:
                argument += "\\" * slashes
                if at < len(line) and (quoted or line[at] not in " \t"):
                    argument += line[at]
                    at += 1
        arguments.append(argument)


@pytest.mark.parametrize(
    "line,arguments",
    [
        (r'"a b c" d e', ["a b c", "d", "e"]),
        (r'x "ab\"c" "\\" d', ["x", 'ab"c', "\\", "d"]),
        (r"x a\\\b d\"e f\"g h", ["x", r"a\\\b", 'd"e', 'f"g', "h"]),
        (r"x a\\\"b c d", ["x", r"a\"b", "c", "d"]),
        (r'x a\\\\"b c" d e', ["x", r"a\\b c", "d", "e"]),
        (r'"C:\dir with\" x', ["C:\\dir with\\", "x"]),
    ],
)
def test_the_reader_agrees_with_the_examples_of_the_documentation(line: str, arguments: list[str]) -> None:
    assert command_line_to_argv(line) == arguments


ARGUMENT = st.text(alphabet=st.sampled_from("ab \t\\\"%^&|<>$'*?ü漢\n-/="), max_size=12) | st.text(
    alphabet=st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12
)
PROGRAM = r"C:\Program Files\My App\app.exe"


@settings(max_examples=2000)
@given(st.lists(ARGUMENT, max_size=6))
def test_every_argument_arrives_unchanged(arguments: list[str]) -> None:
    assert command_line_to_argv(command_line(PROGRAM, arguments)) == [PROGRAM, *arguments]


@pytest.mark.parametrize(
    "arguments",
    [[""], ["a b"], ["\\"], ["a\\ b\\"], ['"'], ['\\"'], ["\\\\server\\share\\"], ["--name=a b"], ["a\tb", "", "c"]],
)
def test_awkward_arguments(arguments: list[str]) -> None:
    assert command_line_to_argv(command_line(PROGRAM, arguments)) == [PROGRAM, *arguments]


def test_programs_that_cannot_be_named() -> None:
    for program in ('a"b.exe', "", "a\0b"):
        with pytest.raises(StackError) as caught:
            command_line(program, [])
        assert caught.value.code == "STK-0602"
    assert command_line_to_argv(command_line("C:\\dir\\", [])) == ["C:\\dir\\"], "no escapes in the first place"


@pytest.mark.parametrize("argument", ["%PATH%", 'a"b', "a&calc", "a|b", "^", "!x!", "a\nb", "(x)", "trailing\\", ""])
def test_batch_files_get_nothing_that_cmd_would_act_on(argument: str) -> None:
    for program in ("run.bat", r"C:\x\RUN.CMD"):
        with pytest.raises(StackError) as caught:
            command_line(program, ["good", argument])
        assert caught.value.code == "STK-0602"
    command_line("run.bat", ["good", "--size=3", "a b"])


def test_the_longest_line() -> None:
    fits = MOST_CHARACTERS - 1 - len('"x.exe" ')
    command_line("x.exe", ["a" * fits])
    with pytest.raises(StackError):
        command_line("x.exe", ["a" * (fits + 1)])
    with pytest.raises(StackError):
        command_line("x.exe", ["a\0"])
