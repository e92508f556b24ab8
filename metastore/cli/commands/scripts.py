"""``sql`` with statements in hand: from the command line, a file or standard input, one after the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Final, TextIO

from metastore.cli.commands.statements import OnProgress
from metastore.cli.commands.statements import sql as one
from metastore.cli.document import document
from metastore.cli.output import Verbatim
from metastore.cli.results import Results, Rows
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session
from metastore.sql.statement import split

STANDARD_INPUT = "-"


class Csv(Verbatim):
    """Rows as CSV, with a line of names first; results of several statements have an empty line between."""


def text_of(statement: str | None, file: Path | None, standard_input: TextIO) -> str:
    """The statements to run, without the byte order mark that editors of some systems begin a file with.

    Raises InvalidRequestError for both a text and a file, and for what is no text; NotFoundError for no file.
    """
    if statement is not None and file is not None:
        raise InvalidRequestError("give a statement or --file, not both")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8-sig")
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no file {file}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(f"{file} cannot be read as text: {error}") from error
    if statement not in {None, STANDARD_INPUT}:
        return str(statement)
    try:
        return standard_input.read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"standard input cannot be read as text: {error}") from error


def run(
    session: Session, text: str, *, as_csv: bool = False, on_progress: OnProgress | None = None
) -> Rows | Results | Csv:
    """Run the statements of ``text``; what they return. The first that fails ends it: those before it have run.

    Raises as :meth:`Session.sql`; lines and columns are those of the whole text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"the statements hold bytes that are not UTF-8, at character {error.start}"
        ) from error
    statements = split(text)
    if not statements:
        raise InvalidRequestError("a statement is expected")
    results = tuple(one(session, statement, on_progress) for statement in statements)
    if as_csv:
        return Csv("\n\n".join(_csv(rows) for rows in results))
    return results[0] if len(results) == 1 else Results(results)


def _csv(rows: Rows) -> str:
    lines = _Lines()
    # With this end of a line a text is put in quotes for either of its two characters.
    writer = csv.writer(lines, lineterminator=_Lines.END)
    writer.writerow(rows.columns)
    writer.writerows(map(_cell, row) for row in rows.rows)
    return "\n".join(lines.written)


class _Lines:
    """What csv writes, line by line, each without its end."""

    END: Final = "\r\n"

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line.removesuffix(self.END))


def _cell(value: object) -> object:
    """Nothing for NULL, JSON for lists and maps, and everything else as text says it."""
    plain = document(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict | bool) else plain
