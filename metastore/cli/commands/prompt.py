"""``sql`` without a statement: a prompt with a history.

A statement ends with a semicolon and may have several lines. An error ends the statement but not the prompt. Ctrl-C
discards the current input; Ctrl-D and ``quit`` end the prompt. A result that is higher than the terminal goes through
the pager that ``$PAGER`` names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from metastore.cli.commands import scripts
from metastore.cli.commands.completion import Completer
from metastore.cli.output import Output
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.overview.results import Left
from metastore.session import Session
from metastore.sql.statement import split

_HISTORY: Final = "~/.metastore_history"
_LONGEST: Final = 10_000
_LEAVE: Final = {"quit", "exit", r"\q"}
_HELP: Final = """\
A statement ends with ; and may have several lines. For instance:
  SHOW SCHEMAS;  SHOW TABLES FROM dfs.tmp;  DESCRIBE dfs.tmp.nation;
  SELECT * FROM information_schema.tables;
  SELECT count(*) FROM lake.default.t FOR VERSION AS OF 123;
  SHOW PROCEDURES;
\\d lists the tables, \\d dfs.tmp.nation describes one. Tab completes names and words.
help shows this, quit or Ctrl-D leaves, Ctrl-C drops what was typed."""
_TABLES: Final = "SHOW TABLES;"


def run(session: Session, output: Output, *, as_csv: bool = False, read: Callable[[str], str] = input) -> Left:
    """Read statements with ``read``, run them and show their rows, until the input ends."""
    output.note("metastore SQL; statements end with ;, type help for examples, quit to leave")
    done, typed = 0, ""
    names = Completer(session, lambda: typed)
    with _line_editing(names), output.paging():
        while True:
            try:
                line = read("sql> " if not typed else "...> ")
            except EOFError:
                return Left(done)
            except KeyboardInterrupt:
                typed = ""
                continue
            except UnicodeDecodeError as error:
                output.failure(error, InvalidRequestError.code, f"the line cannot be read as text: {error}")
                typed = ""
                continue
            word = line.strip().lower().rstrip(";")
            if not typed and word in _LEAVE:
                return Left(done)
            if not typed and word == "help":
                output.note(_HELP)
                continue
            if not typed and word.partition(" ")[0] == r"\d":
                _, _, name = line.strip().rstrip(";").partition(" ")
                line = f"DESCRIBE {name};" if name.strip() else _TABLES
            typed = f"{typed}\n{line}" if typed else line
            if not _is_whole(typed):
                continue
            done += _carry_out(session, output, typed, as_csv=as_csv)
            typed = ""
            names.forget()


def _carry_out(session: Session, output: Output, text: str, *, as_csv: bool) -> int:
    """Runs the statements and returns their number."""
    try:
        if not split(text):
            return 0
        with output.progress("sql") as on_progress:
            result = scripts.run(session, text, as_csv=as_csv, on_progress=on_progress)
        output.result(result)
    except MetastoreError as error:
        output.failure(error, error.code, str(error))
    except KeyboardInterrupt:
        output.note("interrupted; only what was committed before has changed anything")
    return len(split(text))


def _is_whole(text: str) -> bool:
    """Returns whether the text ends with a semicolon outside of quotes and comments."""
    try:
        return not text.strip() or len(split(text)) < len(split(f"{text}\nx"))
    except InvalidRequestError:
        return False


@contextmanager
def _line_editing(names: Completer) -> Iterator[None]:
    """Complete names, and keep typed lines for later sessions, if the machine has readline and a home directory."""
    try:
        import readline  # noqa: PLC0415 - changes how input() reads, and is not everywhere
    except ImportError:
        yield
        return
    readline.set_completer_delims(" \t\n,;()=<>")
    readline.set_completer(lambda word, number: names(word, number, readline.get_line_buffer()))
    readline.parse_and_bind("tab: complete")
    path = os.path.expanduser(_HISTORY)
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(_LONGEST)
        with suppress(OSError):
            Path(path).touch(mode=0o600)
            readline.write_history_file(path)
