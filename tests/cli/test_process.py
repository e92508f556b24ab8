"""The command line as a process: exit codes, what goes to which stream, Ctrl-C, and what is loaded."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from support.cli_site import Site

from metastore.ground.distribution import VERSION
from metastore.session import Session

Run = Callable[..., Any]


def test_a_document_stands_alone_on_standard_output(site: Site, process: Run) -> None:
    """Progress and the configuration's warning, which comes once, go to standard error."""
    site.conf.write_text(site.conf.read_text() + 'drill.metastore.engin.kind = "local"\n')
    ran = process("analyze", "dfs.shop.sales", "--json")
    assert ran.code == 0
    assert ran.document["rows"] == 600
    assert ran.err.count("warning: ") == ran.err.count("drill.metastore.engin.kind") == 1
    assert "progress: analyze dfs.shop.sales done=6 total=6 files" in ran.err


def test_a_users_error_is_one_line(process: Run) -> None:
    """Exit code 1, nothing on standard output, and no traceback."""
    ran = process("describe", "dfs.shop.nothing")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: dfs.shop.nothing has not been analyzed; run: metastore analyze dfs.shop.nothing")
    assert len(ran.err.splitlines()) == 1


def test_with_v_a_users_error_shows_where_it_arose(process: Run) -> None:
    """The line first, the traceback after it."""
    ran = process("describe", "dfs.shop.nothing", "-v")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "Traceback (most recent call last)" in ran.err


def test_a_failure_is_a_document_too(process: Run) -> None:
    """A program reads the code; people read the same on standard error."""
    ran = process("--json", "describe", "nonsense")
    assert ran.code == 1
    assert ran.document["error"]["code"] == "not_found"
    assert ran.err.strip() == f"error: {ran.document['error']['message']}"


@pytest.mark.parametrize(
    "arguments", [("nosuch",), ("describe",), ("tables", "--nosuch"), ("--engine", "abacus", "init")]
)
def test_a_wrong_command_line_is_exit_code_2(process: Run, arguments: tuple[str, ...]) -> None:
    """Usage goes to standard error."""
    ran = process(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage:" in ran.err


@pytest.mark.parametrize("arguments", [("nosuch",), ("describe",), ("tables", "--nosuch"), ("prune", "a")])
def test_a_wrong_command_line_with_json_is_a_document(process: Run, arguments: tuple[str, ...]) -> None:
    """With exit code 2; people read the same on standard error."""
    ran = process("--json", *arguments)
    assert (ran.code, ran.document["error"]["code"]) == (2, "usage")
    assert ran.err == f"error: {ran.document['error']['message']}\n"


def test_a_reader_that_leaves_early_hears_no_complaint(command: Run, environment: dict[str, str]) -> None:
    """``metastore config | head -1`` prints a line and nothing else."""
    config = " ".join(map(repr, command("config")))
    ran = subprocess.run(
        ["/bin/sh", "-c", f"{config} | head -1"], capture_output=True, check=False, env=environment, text=True
    )
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    {
        "config > /dev/full": (1, "error: standard output cannot be written: No space left on device"),
        "config --json > /dev/full": (1, "error: standard output cannot be written: No space left on device"),
        "sql 'SELECT 1' --csv > /dev/full": (1, "error: standard output cannot be written: No space left on device"),
        "config >&-": (0, ""),
        "config --json >&-": (0, ""),
        "sql <&-": (1, "error: a statement is expected"),
        "config 2>&-": (0, ""),
        "sql \"$(printf 'SELECT \\377')\"": (1, r"error: the argument b'SELECT \xff' is not UTF-8"),
        "report \"$(printf '\\377').png\"": (1, r"error: the argument b'\xff.png' is not UTF-8"),
        "sql - < latin": (1, "error: standard input cannot be read as text: "),
        "cd gone && rmdir ../gone && metastore config": (1, "error: the working directory cannot be found"),
    }.items(),
    ids=str,
)
def test_what_a_shell_can_do_to_a_process_is_an_error_of_one_line(
    site: Site, command: Run, environment: dict[str, str], line: str, expected: tuple[int, str]
) -> None:
    """Full disks, streams that are closed, bytes that are no text, a folder that is gone."""
    (site.folder / "gone").mkdir()
    (site.folder / "latin").write_bytes("SELECT 'ü'".encode("latin-1"))
    shell = f'metastore() {{ {shlex.join(command())} "$@"; }}; '
    whole = line if "metastore" in line else f"metastore {line}"
    ran = subprocess.run(
        ["/bin/sh", "-c", shell + whole],
        cwd=site.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        check=False,
        env=environment | {"PYTHONUTF8": "1", "PYTHONIOENCODING": ":strict"},
        text=True,
    )
    code, said = expected
    assert (ran.returncode, len(ran.stderr.splitlines())) == (code, 1 if said else 0), ran.stderr
    assert ran.stderr.startswith(said)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_document_is_json_in_every_encoding(command: Run, environment: dict[str, str], encoding: str) -> None:
    """What the stream has no code for is an escape of JSON; CSV, which has none, is refused rather than changed."""
    environ = environment | {"PYTHONIOENCODING": encoding}
    text = "SELECT 'aé\N{GRINNING FACE}' AS v"
    ran = subprocess.run(command("sql", text, "--json"), capture_output=True, check=False, env=environ)
    assert json.loads(ran.stdout.decode(encoding))["rows"] == [{"v": "aé\N{GRINNING FACE}"}]
    ran = subprocess.run(command("sql", text, "--csv"), capture_output=True, check=False, env=environ)
    assert (ran.returncode, ran.stdout.decode()) == (
        (0, "v\naé\N{GRINNING FACE}\n") if encoding == "utf-8" else (1, "")
    )
    assert encoding == "utf-8" or b"PYTHONIOENCODING" in ran.stderr


def test_help_loads_nothing_heavy(environment: dict[str, str]) -> None:
    """So it answers at once."""
    program = (
        "import sys; sys.argv = ['metastore', '--help']\n"
        "from metastore.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: print(sorted({'pyarrow', 'pyiceberg', 'pyspark', 'sqlglot', 'typer'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment, text=True)
    assert ran.stdout.splitlines()[-1] == "['typer']"


@dataclass
class Terminal:
    """A process at a terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    seen: str = ""

    def wait_for(self, text: str) -> None:
        """Read until ``text`` has appeared; fails when the process ends without it."""
        try:
            while text not in self.seen:
                self.seen += os.read(self.master, 1024).decode()
        except OSError as error:  # the other side is closed
            raise AssertionError(f"{text!r} never came: {self.seen!r}") from error

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self.master, f"{text}\n".encode())


@contextmanager
def at_a_terminal(arguments: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    """Start a process whose standard input and error are a terminal."""
    master, slave = os.openpty()
    with subprocess.Popen(arguments, stdin=slave, stdout=subprocess.DEVNULL, stderr=slave, env=environment) as process:
        os.close(slave)
        try:
            yield Terminal(process, master)
        finally:
            process.kill()
            os.close(master)


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("n", 1, 1), ("", 1, 1)])
def test_purge_asks_first(
    analyzed: Session, command: Run, environment: dict[str, str], answer: str, code: int, left: int
) -> None:
    """Only a clear yes purges."""
    with at_a_terminal(command("purge"), environment) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(answer)
        assert terminal.process.wait() == code
    assert len(analyzed.tables.requests.tables_metadata()) == left


def test_ctrl_c_is_exit_code_130(analyzed: Session, command: Run, environment: dict[str, str]) -> None:
    """Nothing was changed, and no traceback says so."""
    with at_a_terminal(command("purge"), environment) as terminal:
        terminal.wait_for("[y/N]")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait() == 130
        terminal.wait_for("interrupted")
    assert "Traceback" not in terminal.seen
    assert len(analyzed.tables.requests.tables_metadata()) == 1


def test_the_version_names_what_it_runs_on(process: Run, site: Site) -> None:
    """This package, Python, PyIceberg, Spark and Java, and the files of the configuration, given before or after."""
    for arguments in (
        ("--json", "--version", "--conf", str(site.conf)),
        ("--conf", str(site.conf), "--json", "--version"),
    ):
        ran = process(*arguments)
        assert ran.code == 0
        assert ran.document["configuration"] == [str(site.conf)]
        assert {"lake-metastore", "Python", "PyIceberg", "PyArrow", "Spark", "DuckDB", "Java"} < set(ran.document)
    lines = process("--version").out.splitlines()
    assert lines[0].split() == ["lake-metastore", VERSION]


def test_a_configuration_that_cannot_be_read_is_told_with_the_version(process: Run) -> None:
    """The versions are what a report of the mistake needs."""
    ran = process("--version", "--conf", "/nowhere/at/all")
    assert ran.code == 0
    assert "cannot be read: the configuration '/nowhere/at/all' does not exist" in ran.out


def test_python_m_metastore_is_the_command(environment: dict[str, str]) -> None:
    """With the same options."""
    ran = subprocess.run(
        [sys.executable, "-m", "metastore", "--help"], capture_output=True, check=True, env=environment, text=True
    )
    assert "Usage: python -m metastore" in ran.stdout


def test_completion_of_a_shell_lists_commands(environment: dict[str, str]) -> None:
    """What typer's script for bash asks for."""
    asked = {"_METASTORE_COMPLETE": "complete_bash", "COMP_WORDS": "metastore ana", "COMP_CWORD": "1"}
    program = "import sys; sys.argv[0] = 'metastore'; from metastore.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, env={**environment, **asked}, text=True
    )
    assert ran.stdout.split() == ["analyze"]
