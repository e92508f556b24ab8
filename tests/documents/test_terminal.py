"""README and the tutorial typed in at a terminal of 80 columns, from the wheel: what a newcomer sees, and how soon."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.pages import steps

import metastore

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1500)]

ROOT: Final = Path(metastore.__file__).parents[1]
WIDTH: Final = 80
BEGINS: Final = "-- output --"
"""The shell prints it between a command and its output."""


class Terminal:
    """A shell in tmux, in a folder and with programs of its own."""

    def __init__(self, folder: Path, programs: Path) -> None:
        tmux = shutil.which("tmux")
        if tmux is None:
            pytest.fail("no tmux on this machine; on Debian it is the package tmux")
        self._folder, self._ended = folder.parent, folder.parent / "ended"
        settings = folder.parent / "tmux.conf"
        settings.write_text("set -g history-limit 100000\n")
        self._tmux = [tmux, "-S", str(folder.parent / "socket"), "-f", str(settings)]
        variables = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder.parent),
            "LANG": "C.UTF-8",
            "PS0": f"{BEGINS}\n",
            "PS1": "$ ",
            "PROMPT_COMMAND": f"echo $? >{self._ended}; times >>{self._ended}; tmux wait-for -S ended",
        }
        shell = ["env", *(f"{name}={value}" for name, value in variables.items()), "bash", "--norc", "--noprofile"]
        self._run("new-session", "-d", "-x", str(WIDTH), "-y", "50", "-c", str(folder), *shell)
        self._run("wait-for", "ended")

    def _run(self, *arguments: str, text: str | None = None) -> str:
        return subprocess.run(
            [*self._tmux, *arguments], input=text, check=True, capture_output=True, text=True, timeout=900
        ).stdout

    def type_in(self, command: str) -> str:
        """The output of ``command``, which must end well: one line for each line that was printed, however wide."""
        self._run("clear-history")
        self._run("load-buffer", "-", text=command.rstrip("\n"))
        self._run("paste-buffer", "-p", "-d")
        self._run("send-keys", "Enter")
        self._run("wait-for", "ended")
        seen = self._run("capture-pane", "-p", "-J", "-S", "-").rpartition(f"{BEGINS}\n")[2]
        output = "\n".join(line.rstrip() for line in seen.rstrip().removesuffix("$").splitlines())
        assert self._ended.read_text().splitlines()[0] == "0", f"{command}\n{output}"
        return output

    @property
    def seconds(self) -> float:
        """The processor's time for all commands so far."""
        spent = re.findall(r"(\d+)m([\d.]+)s", self._ended.read_text().splitlines()[2])
        return sum(60 * int(minutes) + float(seconds) for minutes, seconds in spent)

    def close(self) -> None:
        """End the shell."""
        self._run("kill-server")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """The commands of an environment that has the wheel, which also fills pip's cache."""
    venv = tmp_path_factory.mktemp("filled") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([venv / "bin/pip", "install", "--quiet", f"{wheel}[sql,polars]"], check=True)
    return venv / "bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the reader works."""
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def terminal(folder: Path, programs: Path) -> Iterator[Terminal]:
    """A shell that finds the wheel's command."""
    opened = Terminal(folder, programs)
    yield opened
    opened.close()


@pytest.mark.parametrize("page", ["README.md", "docs/start/tutorial.md"])
def test_a_page_fits_a_terminal(page: str, folder: Path, terminal: Terminal) -> None:
    """It prints what is shown, and no line is wider than the terminal. Spark's part is typed in by test_pages."""
    for step in steps((ROOT / page).read_text(encoding="utf-8")):
        if "metastore.spark" in step.text:
            continue
        output = terminal.type_in(f"python <<'END'\n{step.text}END" if step.command[0] == "python" else step.text)
        assert step.missing(output, folder) is None
        assert [line for line in output.splitlines() if len(line.replace(str(folder), "/data")) > WIDTH] == []


def test_the_first_answer_takes_a_minute(
    folder: Path, wheel: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From pip install, with what it needs in its cache, in two commands on a folder of one's own.

    The limit is the processor's time: on the clock it is less on an idle machine, since pip unpacks while it waits.
    """
    assert programs.is_dir()
    for day in range(1, 101):
        path = folder / "my files" / f"day={day}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"amount": range(day * 10)}), path)
    venv = folder.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    terminal = Terminal(folder, venv / "bin")
    began, before = time.monotonic(), terminal.seconds
    terminal.type_in(f"pip install --quiet '{wheel}[sql]'")
    terminal.type_in("metastore analyze './my files'")
    answer = terminal.type_in("metastore prune './my files' 'amount > 990'")
    taken = terminal.seconds - before
    with capsys.disabled():
        sys.stdout.write(f"first answer: {time.monotonic() - began:.1f} s, of the processor {taken:.1f} s\n")
    terminal.close()
    assert re.search(r"^ files +1 +100 +99\.0%$", answer, re.MULTILINE), answer
    assert taken < 60
