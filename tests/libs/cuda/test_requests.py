"""Every request row has a function with the row's arguments, and the other way round."""

from __future__ import annotations

from importlib import import_module

import pytest

from cuttle.abi.requests import REQUESTS, Request
from cuttle.libs.cuda.requests import IN_ANY_STATE, TABLE, find_handler

ANSWERED_ELSEWHERE = {"REPLY_MORE"}  # by the dispatcher
# Words of rows that would be keywords or builtins in Python.
SPELLING = {"bytes": "size", "format": "form"}


def rows() -> list[Request]:
    return [row for row in REQUESTS if row.name not in ANSWERED_ELSEWHERE]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_row_and_function_agree(row: Request) -> None:
    places = [(module, names[row.number]) for module, names in TABLE.items() if row.number in names]
    assert len(places) == 1
    module, name = places[0]
    assert name == row.name.lower()
    function = getattr(import_module(f"cuttle.libs.cuda.{module}"), name)
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    assert names.pop(0) == "session"
    assert (names[-1:] == ["payload"]) == bool(row.payload)
    if row.payload:
        names.pop()
    assert names == [SPELLING.get(argument, argument) for argument in row.arguments]
    assert find_handler(row.number) is not None


def test_no_function_without_a_row() -> None:
    numbers = {row.number for row in rows()}
    assert {number for names in TABLE.values() for number in names} == numbers
    assert IN_ANY_STATE <= numbers


def test_unknown_numbers() -> None:
    assert find_handler(999) is None
