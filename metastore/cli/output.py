"""The output of a command: its result on standard output, everything else on standard error.

Promises: with ``json``, standard output is exactly one JSON document, also if the command fails, and in any encoding. A
failed write is an error. Progress is a bar in a terminal and log lines elsewhere; a log line never splits a bar.
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

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from metastore.config.settings import CONFIGURATION_LOG
from metastore.errors import InvalidRequestError, StorageError
from metastore.overview.document import document
from metastore.overview.formats import visible
from metastore.redaction import without_secrets

OnProgress = Callable[[int, int], None]
"""Called with the number of finished steps and the total."""

_PIPE_WIDTH: Final = 500
"""Width for a file or a pipe: large enough that no line is wrapped. COLUMNS, as of a terminal, says otherwise."""

_NO_FOLD: Final = 100_000

_PIECES_AT_ONCE: Final = 10_000
_LOG_EVERY_SECONDS: Final = 2.0
_LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)


@dataclass(frozen=True)
class Verbatim:
    """Text that is printed unchanged: neither wrapped nor escaped for a terminal."""

    text: str


class Output:
    """Writes one command's result and messages. A context manager; inside it, log records are written here too."""

    def __init__(self, *, as_json: bool = False, wide: bool = False, verbose: int = 0) -> None:
        self.as_json = as_json
        self.verbose = verbose
        self._out = _console(stderr=False, width=_NO_FOLD if wide else None)
        self._err = _console(stderr=True)
        self._pages = False
        self._handler: logging.Handler = _LogHandler(self._err, others=verbose > 0)
        self._own_level = logging.NOTSET

    def result(self, result: object) -> None:
        """Write the result in the requested form.

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
                self._show(screen(result))

    @contextmanager
    def paging(self) -> Iterator[None]:
        """Show results that are higher than the terminal through the user's pager, while this context lasts."""
        self._pages = self._out.is_terminal
        try:
            yield
        finally:
            self._pages = False

    def _show(self, shown: RenderableType) -> None:
        if not self._pages:
            self._out.print(shown)
            return
        with self._out.capture() as text:
            self._out.print(shown)
        if text.get().count("\n") < self._out.height:
            self._out.out(text.get(), end="", highlight=False)
        else:
            with self._out.pager(styles=True):
                self._out.print(shown)

    def failure(self, error: BaseException, code: str, message: str) -> None:
        """Print an error; with ``-v`` also its traceback."""
        if self.as_json:
            self._document({"error": {"code": code, "message": message}})
        self.complaint(message)
        if self.verbose:
            trace = without_secrets("".join(traceback.format_exception(error)).rstrip())
            self._err.print(Text(trace, "dim"))

    def complaint(self, message: str) -> None:
        """Print one line about a problem to standard error; the result remains valid."""
        self._err.print(Text.assemble(("error: ", "bold red"), visible(message)))

    def warning(self, message: str) -> None:
        """Print one line of warning to standard error."""
        self._err.print(Text.assemble(("warning: ", "yellow"), visible(without_secrets(message))))

    def note(self, message: str) -> None:
        """Print one line of information to standard error."""
        self._err.print(Text(visible(message), "dim"))

    def log_lines(self, formatter: logging.Formatter) -> None:
        """From now on, write only log records of this package, from INFO on, formatted by ``formatter``.

        ``formatter`` must hide secrets.
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
        """Show the progress of long work. The total is unknown at first."""
        if self._err.is_terminal:
            with self._bar(unit) as bar:
                task = bar.add_task(label, total=None)
                yield lambda done, total: bar.update(task, completed=done, total=total)
        else:
            yield _LoggedProgress(self._err, label, unit).update

    @contextmanager
    def working(self, label: str) -> Iterator[None]:
        """Show that work without known progress is running."""
        if self._err.is_terminal:
            with self._err.status(f"{label} …"):
                yield
        else:
            yield

    def confirm(self, question: str, otherwise: str) -> None:
        """Ask before an action that cannot be undone. Raises InvalidRequestError for "no", and without a terminal."""
        if not (sys.stdin.isatty() and self._err.is_terminal):
            raise InvalidRequestError(f"{question} Standard input is not a terminal, so none can confirm: {otherwise}")
        self._err.print(question, "[y/N]", end=" ", markup=False)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise InvalidRequestError("cancelled; nothing was changed")

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
                "set PYTHONIOENCODING=utf-8 to show every character"
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
    """Progress without a terminal: one line at the start, one at the end, and a few between."""

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
    """Log records as single lines, ``level: message``, that do not disturb the bar.

    Records of ``others``, the libraries, are shown only for debugging: PySpark, for example, logs an interrupt with two
    tracebacks. Warnings about the configuration are shown by the invocation, in one line.
    """

    _STYLES: Final = {"warning": "yellow", "error": "red", "critical": "bold red"}

    def __init__(self, console: Console, *, others: bool) -> None:
        super().__init__()
        self._console = console
        if not others:
            self.addFilter(logging.Filter("metastore"))
        self.addFilter(lambda record: record.name != CONFIGURATION_LOG)

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
    """Raises StorageError if standard output fails. A reader that closed the pipe early is no failure."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Buffered output would otherwise fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StorageError(f"standard output cannot be written: {error.strerror}") from error


def _console(*, stderr: bool, width: int | None = None) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if width is None and not (stream.isatty() or os.environ.get("COLUMNS", "").isdigit()):
        width = _PIPE_WIDTH
    # Brackets and colons in names and values are not Rich's markup.
    return Console(file=stream, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)
