"""Errors of a query in the words of its tables: which columns there are, and why one cannot be read.

DuckDB knows only the columns that are fetched, and its texts name settings and columns that the caller does not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from metastore.duck.missing_functions import INSTEAD, TYPES
from metastore.duck.queries import Failure
from metastore.errors import InvalidRequestError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.writes.row_changes import FILE
from metastore.sql.queries.query_text import placed_error
from metastore.sql.statement import Statement

_NO_COLUMN: Final = re.compile(
    r'(?:Referenced column "(?P<name>.+?)" not found in FROM clause!'
    r'|Table "(?P<table>.+?)" does not have a column named "(?P<other>.+?)").*',
    re.DOTALL,
)
_SETTING: Final = re.compile(r';[; ]*Use "SET .*', re.DOTALL)
_NO_FUNCTION: Final = re.compile(
    r"(?:No function matches the given name and argument types '|Could not choose a best candidate function for the "
    r'function call ")(?P<call>.+?)[\'"][.].*?Candidate functions:(?P<those>.*)',
    re.DOTALL,
)
_UNKNOWN_FUNCTION: Final = re.compile(
    r'(?:\w+ Function with name "?(?P<name>[^\s"]+)"? does not exist!(?:[\s;]*Did you mean "(?P<near>\w+)")?'
    r'|Macro "?(?P<macro>\w+)"?\(\) does not support the supplied arguments).*',
    re.DOTALL,
)
_UNKNOWN_TYPE: Final = re.compile(r"Type with name (?P<name>\w+) does not exist!.*", re.DOTALL)
_CANDIDATE: Final = re.compile(r"\t([^;\t]+?) -> ")
_FUNCTIONS: Final = 5
"""The most functions that an error lists."""
_SHOWN: Final = 20
"""The most columns that an error lists."""


@dataclass(frozen=True)
class Hints:
    """The columns of all tables of a query, and those that are left out of all reads, with the reasons."""

    columns: tuple[str, ...]
    left_out: Mapping[str, str]


def error_of(statement: Statement, failure: Failure, text: str, hints: Hints) -> InvalidRequestError:
    """Returns the error for a ``failure`` in ``text``, made of ``statement``, with its place."""
    told = placed_error(statement, text, failure)
    place, _, message = str(told).partition(": ")
    for name, reason in hints.left_out.items():
        if f'"{name}"'.lower() in message.lower():
            return InvalidRequestError(f"{told}. Column {name} is left out of all reads: {reason}")
    return InvalidRequestError(f"{place}: {_in_words_of_tables(message, hints.columns)}")


def _in_words_of_tables(message: str, columns: tuple[str, ...]) -> str:
    """DuckDB's message in this package's words; without what names settings if no rule knows it."""
    if (missing := _NO_COLUMN.fullmatch(message)) and columns:
        name = missing["name"] or missing["other"]
        listed = ", ".join(columns[:_SHOWN]) + (", …" if len(columns) > _SHOWN else "")
        of = f" in {missing['table']}" if missing["table"] else ""
        return f"there is no column {name}{of}{did_you_mean(name, columns, otherwise=f'there are {listed}')}"
    if unfit := _NO_FUNCTION.fullmatch(message):
        call, those = unfit["call"].replace("_LITERAL", ""), _CANDIDATE.findall(unfit["those"])
        listed = ", ".join(each.replace(", /)", ")") for each in those[:_FUNCTIONS])
        more = ", …" if len(those) > _FUNCTIONS else ""
        there = f"there is no function {call}; there are {listed}{more}"
        if way := INSTEAD.get(call.partition("(")[0].lower()):
            return f"{there}. Other forms of it are written {way}"
        return f"{there}. Write a conversion, as CAST(… AS …), if it is meant"
    if unknown := _UNKNOWN_FUNCTION.fullmatch(message):
        name, near = unknown["name"] or unknown["macro"], unknown["near"]
        if name.lower() in INSTEAD:
            return f"there is no such function {name}; write {INSTEAD[name.lower()]}"
        if unknown["macro"]:
            return f"{name} does not take these arguments; SHOW FUNCTIONS lists all"
        if near is not None:
            return f"there is no function {name}; did you mean {near}? SHOW FUNCTIONS lists all"
    if unknown_type := _UNKNOWN_TYPE.fullmatch(message):
        name = unknown_type["name"]
        return f"there is no type {name}" + (f"; write {TYPES[name.lower()]}" if name.lower() in TYPES else "")
    if message.startswith("Deprecated lambda arrow"):
        return "a lambda is written lambda x: x + 1, because x -> y is a part of a JSON here"
    if f'"{FILE}"' in message:
        return "an aggregate has one value for many rows, and a change needs one for each row: compute it in a subquery"
    return _SETTING.sub("", message)
