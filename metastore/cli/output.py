"""Where a command's words go: the result to standard output, everything else to standard error.

Promises: with ``json``, standard output carries exactly one JSON document and nothing else, also when the command
fails, and whatever its encoding; what cannot be written is an error; progress is a bar in a terminal and log lines
elsewhere; a log line never breaks a bar in two.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from metastore.cli.document import document
from metastore.cli.formats import visible
from metastore.errors import InvalidRequestError, StorageError
from metastore.redaction import without_secrets

OnProgress = Callable[[int, int], None]
"""Called with how many are done, and of how many."""

_PIPE_WIDTH: Final = 500
"""A file or a pipe has no width to keep to; wide enough that no line is broken."""

_PIECES_AT_ONCE: Final = 10_000
_LOG_EVERY_SECONDS: Final = 2.0
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


@dataclass(frozen=True)
class Verbatim:
    """Text that is printed as it is, to the last character: neither wrapped, nor made fit for a screen."""

    text: str


class Output:
    """Writes one command's result and messages; a context manager, inside of which log records go here too."""

    def __init__(self, *, as_json: bool = False, verbose: int = 0) -> None:
        self.as_json = as_json
        self.verbose = verbose
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)
        self._handler: logging.Handler = _LogHandler(self._err, others=verbose > 0)
        self._own_level = logging.NOTSET

    def result(self, result: object) -> None:
        """Write the result in the form that was asked for.

        Raises StorageError when it cannot be written, InvalidRequestError for what is to be printed as it is, and
        cannot be in the encoding of standard output.
        """
        if self.as_json:
            self._document(document(result))
        elif isinstance(result, Verbatim):
            self._verbatim(result.text)
        else:
            from metastore.cli.screens import screen  # noqa: PLC0415 - it knows all results, so the whole package

            with _writing():
                self._out.print(screen(result))

    def failure(self, error: BaseException, code: str, message: str) -> None:
        """Say what went wrong; with ``-v`` also where in the code."""
        if self.as_json:
            self._document({"error": {"code": code, "message": message}})
        self.complaint(message)
        if self.verbose:
            trace = without_secrets("".join(traceback.format_exception(error)).rstrip())
            self._err.print(Text(trace, "dim"))

    def complaint(self, message: str) -> None:
        """One line on standard error beside a result that stands."""
        self._err.print(Text.assemble(("error: ", "bold red"), visible(message)))

    def note(self, message: str) -> None:
        """One line on standard error that is no result and no problem."""
        self._err.print(Text(visible(message), "dim"))

    def log_lines(self, formatter: logging.Formatter) -> None:
        """From here on, write log records of this package, from INFO on, as ``formatter`` has them and nothing else.

        ``formatter`` is one that hides secrets.
        """
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(formatter)
        handler.addFilter(logging.Filter("metastore"))
        logging.getLogger().removeHandler(self._handler)
        self._handler = handler
        logging.getLogger().addHandler(handler)
        logging.getLogger("metastore").setLevel(min(logging.INFO, logging.getLogger("metastore").level))

    @contextmanager
    def progress(self, label: str, unit: str = "") -> Iterator[OnProgress]:
        """Show how far a long piece of work has come; it begins without a known total."""
        if self._err.is_terminal:
            with self._bar(unit) as bar:
                task = bar.add_task(label, total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total)
        else:
            yield _LoggedProgress(self._err, label, unit).update

    @contextmanager
    def working(self, label: str) -> Iterator[None]:
        """Show that something is going on that cannot tell how far it is."""
        if self._err.is_terminal:
            with self._err.status(f"{label} …"):
                yield
        else:
            yield

    def confirm(self, question: str, otherwise: str) -> None:
        """Ask before what cannot be taken back. InvalidRequestError for no, and where there is nobody to ask."""
        if not (sys.stdin.isatty() and self._err.is_terminal):
            raise InvalidRequestError(f"{question} There is nobody to ask: {otherwise}")
        self._err.print(question, "[y/N]", end=" ", markup=False)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise InvalidRequestError("not done, as you wish")

    def _document(self, value: object) -> None:
        # A character that the stream has no code for would be written in a way that is not JSON's.
        written = json.JSONEncoder(indent=2, ensure_ascii=not _is_utf8(), allow_nan=False).iterencode(value)
        # Piece by piece, since it may be long; and not each piece alone, since there are many.
        while pieces := "".join(islice(written, _PIECES_AT_ONCE)):
            with _writing():
                sys.stdout.write(pieces)
        with _writing():
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _verbatim(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError as error:
            raise InvalidRequestError(
                f"standard output is {encoding}, which has no {text[error.start]!r}; "
                "set PYTHONIOENCODING=utf-8 to have it all"
            ) from error
        with _writing():
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def _bar(self, unit: str) -> Progress:
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
        )

    def __enter__(self) -> Output:
        own = logging.getLogger("metastore")
        self._own_level = own.level
        own.setLevel(_LEVELS[min(self.verbose, len(_LEVELS) - 1)])
        logging.getLogger().addHandler(self._handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self._handler)
        logging.getLogger("metastore").setLevel(self._own_level)


class _LoggedProgress:
    """Progress where nobody watches: one line when it begins, one when it ends, and few between."""

    def __init__(self, console: Console, label: str, unit: str) -> None:
        self._console = console
        self._label = label
        self._unit = unit
        self._next = 0.0

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _LOG_EVERY_SECONDS
            self._console.print(Text(f"progress: {self._label} done={done} total={total} {self._unit}".rstrip()))


class _LogHandler(logging.Handler):
    """Log records as single lines, ``level: message``, beside the bar and not through it.

    Records of ``others``, the libraries beneath, are for those who look for a fault: PySpark, for one, logs an
    interrupt with two tracebacks.
    """

    _STYLES: Final = {"warning": "yellow", "error": "red", "critical": "bold red"}

    def __init__(self, console: Console, *, others: bool) -> None:
        super().__init__()
        self._console = console
        if not others:
            self.addFilter(logging.Filter("metastore"))

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        self._console.print(
            Text.assemble((f"{level}: ", self._STYLES.get(level, "dim")), visible(without_secrets(self.format(record))))
        )


def _is_utf8() -> bool:
    """Whether standard output takes every character; a stream in memory, without an encoding, does."""
    encoding = sys.stdout.encoding
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


@contextmanager
def _writing() -> Iterator[None]:
    """Raises StorageError for what standard output does not take. That its reader left early is no failure."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is still held back would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StorageError(f"standard output cannot be written: {error.strerror}") from error


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    # Names and values are text, whatever brackets and colons they hold.
    return Console(file=stream, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)
