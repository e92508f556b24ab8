"""``sql``: statements from everywhere, rows as tables, JSON and CSV, and the prompt."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli_site import Site
from support.ran import Ran
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.cli.commands import prompt
from metastore.cli.output import Output
from metastore.session import Session

pytestmark = pytest.mark.usefixtures("analyzed")

COUNT = "SELECT count(*) AS files FROM information_schema.files"


def test_rows_are_a_table_or_a_document(run: Callable[..., Ran]) -> None:
    """With NULL in words on the screen."""
    assert run("sql", COUNT, "--json").document == {"columns": ["files"], "rows": [{"files": 6}]}
    shown = run("sql", "SELECT table_name, num_rows, NULL AS nothing FROM information_schema.tables WHERE num_rows > 1")
    assert "sales" in shown.out
    assert "NULL" in shown.out
    assert "1 row" in shown.out


def test_several_statements_run_in_their_order(run: Callable[..., Ran]) -> None:
    """One result each; a semicolon in a text or comment ends nothing."""
    text = f"{COUNT}; -- a; b\nSELECT 'x;y' AS text;;"
    found = run("sql", text, "--json").document
    assert [result["rows"] for result in found["results"]] == [[{"files": 6}], [{"text": "x;y"}]]


def test_an_error_in_a_script_is_at_its_place_in_the_whole(run: Callable[..., Ran]) -> None:
    """What stood before it has run."""
    ran = run("sql", f"{COUNT};\n\nSELECT nope FROM information_schema.files")
    assert ran.code == 1
    assert "line 3, column 8: " in ran.err


def test_statements_come_from_a_file_and_from_standard_input(run: Callable[..., Ran], site: Site) -> None:
    """As from the command line; a byte order mark before them is passed over."""
    file = site.folder / "script.sql"
    file.write_text(f"-- how many\n{COUNT};\n")
    assert run("sql", "--file", str(file), "--json").document["rows"] == [{"files": 6}]
    for arguments in (["sql", "-"], ["sql"]):
        piped = CliRunner().invoke(app, ["--conf", str(site.conf), "--json", *arguments], input=f"{COUNT};")
        assert '"files": 6' in piped.stdout
    file.write_text(COUNT, encoding="utf-8-sig")
    assert run("sql", "--file", str(file), "--json").document["rows"] == [{"files": 6}]
    piped = CliRunner().invoke(app, ["--conf", str(site.conf), "--json", "sql", "-"], input=f"\ufeff{COUNT}")
    assert '"files": 6' in piped.stdout
    assert "no file" in run("sql", "--file", "/nowhere.sql").err
    assert "not both" in run("sql", COUNT, "--file", str(file)).err
    assert "a statement is expected" in run("sql", " ; ").err


def test_csv_is_what_a_reader_of_csv_reads(run: Callable[..., Ran]) -> None:
    """Names first; texts in quotes where they need them, lists as JSON, nothing for NULL."""
    ran = run(
        "sql", "SELECT 1 AS a, 'x,\"y\"' AS \"b c\", NULL AS n, [1, 2] AS l, true AS f, DATE '2024-01-01' AS d", "--csv"
    )
    assert list(csv.reader(io.StringIO(ran.out))) == [
        ["a", "b c", "n", "l", "f", "d"],
        ["1", 'x,"y"', "", "[1, 2]", "true", "2024-01-01"],
    ]


def test_columns_of_one_name_keep_their_values(run: Callable[..., Ran]) -> None:
    """Each its own, on the screen and in CSV; in JSON, whose names must differ, the second is a_2."""
    text = "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a, 5 AS b"
    assert run("sql", text, "--csv").out == "a,a,a_2,a,b\n1,2,3,4,5\n"
    assert run("sql", text).out.splitlines()[3].split() == ["1", "2", "3", "4", "5"]
    assert run("sql", text, "--json").document == {
        "columns": ["a", "a_3", "a_2", "a_4", "b"],
        "rows": [{"a": 1, "a_3": 2, "a_2": 3, "a_4": 4, "b": 5}],
    }


def test_csv_changes_nothing(run: Callable[..., Ran]) -> None:
    """Neither tabs nor bells nor either end of a line; long values stay in one piece, and no rows are names alone."""
    text = "a\tb\x07 c\rd\ne" + "x" * 1000
    ran = run("sql", f"SELECT '{text}' AS v, 'd\r' AS w", "--csv")
    assert ran.out == f'v,w\n"{text}","d\r"\n'
    assert run("sql", "SELECT 1 AS a WHERE false", "--csv").out == "a\n"
    assert run("sql", "SELECT 1 AS a; SELECT 2 AS b", "--csv").out == "a\n1\n\nb\n2\n"


def test_times_beyond_the_calendar_are_text(run: Callable[..., Ran]) -> None:
    """Python's end with the year 9999; others of the column stay what they are, and so it is inside of values."""
    text = (
        "SELECT * FROM (VALUES (DATE '12000-01-01', [TIMESTAMP '12000-01-01 01:02:03'], {'d': DATE '12000-01-01'}),"
        " (DATE '2024-01-01', NULL, NULL)) t(d, l, s) ORDER BY d DESC"
    )
    assert run("sql", text, "--json").document["rows"] == [
        {"d": "12000-01-01", "l": ["12000-01-01 01:02:03.000000"], "s": {"d": "12000-01-01"}},
        {"d": "2024-01-01", "l": None, "s": None},
    ]
    assert "12000-01-01" in run("sql", text).out
    assert "12000-01-01" in run("sql", text, "--csv").out


@pytest.fixture
def ask(
    analyzed: Session, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[str, int]]:
    """Type lines at the prompt; what it printed, and how many statements it ran."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def typed(*lines: str | type[BaseException] | BaseException) -> tuple[str, int]:
        left = iter(lines)

        def read(_: str) -> str:
            line = next(left, EOFError)
            if isinstance(line, str):
                return line
            raise line

        with Output() as output:
            done = prompt.run(analyzed, output, read=read).statements
        shown = capsys.readouterr()
        return shown.out + shown.err, done

    return typed


def test_the_prompt_runs_what_a_semicolon_ends(ask: Callable[..., tuple[str, int]]) -> None:
    """Over several lines; several on one; blanks and comments are nothing."""
    shown, done = ask(
        "", "SELECT count(*)", "  AS files FROM", "information_schema.files;", "-- done;", "SELECT 1; SELECT 2;"
    )
    assert done == 3
    assert "files" in shown


def test_the_prompt_outlives_errors_and_interrupts(ask: Callable[..., tuple[str, int]]) -> None:
    """An error is shown, also of a line that is no text; Ctrl-C drops what was typed, quit leaves."""
    no_text = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    typed = ("SELECT nope;", "SELECT 'typed", no_text, "SELECT '\udcff';", "SELECT 'never", KeyboardInterrupt)
    shown, done = ask(*typed, "help", "SELECT 7 AS seven;", "quit", "SELECT 8;")
    assert "line 1, column 8" in shown
    assert "the line cannot be read as text" in shown
    assert "the statements hold bytes that are not UTF-8, at character 8" in shown
    assert "SHOW SCHEMAS" in shown
    assert "seven" in shown
    assert done == 3


def test_the_prompt_lists_and_describes(ask: Callable[..., tuple[str, int]]) -> None:
    r"""By ``\\d``, as psql; within a statement it is a part of it."""
    shown, done = ask(r"\d", r"\d dfs.shop.sales", "SELECT", r"\d;")
    assert done == 3
    assert "sales" in shown
    assert "COLUMN_NAME" in shown
    assert "error: line 2" in shown


def test_the_history_is_kept_for_its_owner(ask: Callable[..., tuple[str, int]], tmp_path: Path) -> None:
    """In the home, readable by nobody else."""
    ask("SELECT 1;")
    history = tmp_path / ".metastore_history"
    assert history.exists()
    assert history.stat().st_mode & 0o077 == 0
