"""Where a command's words go, in a terminal and elsewhere."""

from __future__ import annotations

import io
import logging
import re
import sys

import pytest

from metastore.cli.output import Output
from metastore.errors import InvalidRequestError
from metastore.overview.tables import TableList, TableSummary


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_progress_is_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn on standard error, with how many of how many, and is gone when the work is done."""
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Output() as output, output.progress("analyze t", "footers") as on_progress:
        on_progress(3, 8)
        on_progress(8, 8)
    assert "8/8" in screen.getvalue()
    assert "progress:" not in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is erased


def test_progress_is_lines_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """The first and the last, however fast the work; not one for each step."""
    with Output().progress("analyze t", "footers") as on_progress:
        for done in range(1, 101):
            on_progress(done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "progress: analyze t done=1 total=100 footers"
    assert lines[-1] == "progress: analyze t done=100 total=100 footers"
    assert len(lines) < 100


@pytest.mark.parametrize(
    ("verbose", "shown"), [(0, ["warning"]), (1, ["info", "warning"]), (2, ["debug", "info", "warning"])]
)
def test_verbosity_decides_what_is_logged(capsys: pytest.CaptureFixture[str], verbose: int, shown: list[str]) -> None:
    """Warnings always; each -v adds a level."""
    log = logging.getLogger("metastore.somewhere")
    with Output(verbose=verbose):
        log.debug("d")
        log.info("i")
        log.warning("w")
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == shown


def test_logging_is_as_it_was_afterwards() -> None:
    """A program that calls the command line keeps its own set-up."""
    own, root = logging.getLogger("metastore"), logging.getLogger()
    before = (own.level, root.level, list(root.handlers))
    with Output(verbose=2):
        assert (own.level, root.level, list(root.handlers)) != before
    assert (own.level, root.level, list(root.handlers)) == before


@pytest.mark.parametrize(("verbose", "shown"), [(0, ""), (1, "error: the other side is gone\n")])
def test_what_libraries_log_is_for_those_who_look_for_a_fault(
    capsys: pytest.CaptureFixture[str], verbose: int, shown: str
) -> None:
    """Without -v it is kept from the screen, also what is logged as an exception."""
    with Output(verbose=verbose):
        logging.getLogger("somebody.else").error("the other side is gone")
    assert capsys.readouterr().err == shown


def test_text_in_brackets_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A message is never read as markup: a path or a type may hold brackets."""
    Output().failure(InvalidRequestError(), "request.invalid", "no such path [/x] or [bold]type[/bold]")
    assert capsys.readouterr().err == "error: no such path [/x] or [bold]type[/bold]\n"
    Output().result(TableList(1, (TableSummary("dfs.tmp.[/x]", 1, None, None, "[bold]", ":star:"),)))
    assert re.search(r"dfs\.tmp\.\[/x\] .* \[bold\] +:star:", capsys.readouterr().out)


def test_nobody_to_ask_is_a_refusal() -> None:
    """The error says what to do instead."""
    with pytest.raises(InvalidRequestError, match="give --yes"):
        Output().confirm("Really?", "give --yes")


def test_messages_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """They have names of files and columns in them."""
    with Output() as out:
        out.complaint("no file \x1b[2J\nhere")
        out.note("\x1b]0;title\x07")
        logging.getLogger("metastore.test").warning("\x1b[1m")
    shown = capsys.readouterr().err
    assert shown.splitlines() == [r"error: no file \x1b[2J", "here", r"\x1b]0;title\x07", r"warning: \x1b[1m"]
