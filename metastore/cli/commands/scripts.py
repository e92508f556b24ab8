"""``sql`` with given statements, from the command line, a file or standard input. They run one after the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Final, TextIO

from metastore.cli.commands.statements import OnProgress
from metastore.cli.commands.statements import sql as one
from metastore.cli.output import Verbatim
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.overview.document import document
from metastore.overview.results import Results, Rows
from metastore.session import Session
from metastore.sql.statement import split

STANDARD_INPUT = "-"


class Csv(Verbatim):
    """Rows as CSV, with a header line. An empty line separates the results of several statements."""


def text_of(statement: str | None, file: Path | None, standard_input: TextIO) -> str:
    """Returns the statements to run, without the byte order mark that some editors write.

    Raises InvalidRequestError for both a text and a file, and for invalid text; NotFoundError for a missing file.
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
    """Run the statements of ``text`` and return their results. It stops at the first that fails; earlier ones have run.

    Raises what :meth:`Session.sql` raises; lines and columns in errors are those of the whole text.
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
    # With this line terminator, csv quotes a text that contains either of its characters.
    writer = csv.writer(lines, lineterminator=_Lines.END)
    writer.writerow(rows.columns)
    writer.writerows(map(_cell, row) for row in rows.rows)
    return "\n".join(lines.written)


class _Lines:
    """Collects the lines that csv writes, without their terminators."""

    END: Final = "\r\n"

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line.removesuffix(self.END))


def _cell(value: object) -> object:
    """Returns an empty cell for NULL, JSON for lists and maps, and text for other values."""
    plain = document(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict | bool) else plain
