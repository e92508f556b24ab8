"""README and the pages of docs/start, docs/how-to and docs/reference, typed in from top to bottom as a reader would.

Each page begins in an empty folder. Its blocks are run in their order: `sh` as it is, `console` command by command with
the output that is shown, `python` as a program whose output is the `text` block after it. A comment before a block,
`<!-- not run: why -->`, leaves it out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import metastore

ROOT = Path(metastore.__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        *(path for each in ("start", "how-to") for path in (ROOT / "docs" / each).glob("*.md")),
    )
)
BLOCK = re.compile(
    r"(?P<left>^<!-- not run: [^\n]+ -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
RUN = {"sh", "console", "python"}
VARIES = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*|\b\d{15,19}\b|[\d.,]+ (?:ms|s|k?B|MB)\b|\d\d\.\d%|\d\.\d+\.\d+\S*|─+"
)
"""What differs from run to run, or by library and machine: times, versions, sizes, the width of a table."""


@dataclass(frozen=True)
class Step:
    """One command or program of a page, and the output that the page shows; None where it shows none."""

    command: list[str]
    text: str
    output: str | None


def steps(page: str) -> Iterator[Step]:
    """What a reader types, in its order."""
    for block in BLOCK.finditer(page):
        text, language = block["text"], block["language"]
        if block["left"] or language not in RUN:
            continue
        if language == "python":
            yield Step([sys.executable, "-"], text, block["output"])
        elif language == "sh":
            yield Step(["bash", "-e"], text, None)
        else:
            for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                yield Step(["bash", "-e"], command, output)


def normal(text: str, folder: Path) -> list[str]:
    """The lines of an output without what varies, blank ones left out."""
    lines = (VARIES.sub("•", line.replace(str(folder), "/data")) for line in text.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell that finds the command, this package and the extras; a home of its own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "metastore"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m metastore "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    home = tmp_path / "home"
    home.mkdir()
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(home), "COLUMNS": "120", "NO_COLOR": "1"}
    return {**{name: os.environ[name] for name in ("JAVA_HOME", "LANG", "TZ") if name in os.environ}, **own}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Every step ends well and prints the shown lines in their order; `…` stands for any lines."""
    folder = tmp_path / "work"
    folder.mkdir()
    for step in steps((ROOT / page).read_text(encoding="utf-8")):
        ran = subprocess.run(
            step.command,
            input=step.text,
            capture_output=True,
            check=False,
            cwd=folder,
            env={**environment, "PWD": str(folder)},
            text=True,
        )
        assert ran.returncode == 0, (page, step.text, ran.stdout, ran.stderr)
        if step.output is not None:
            printed = iter(normal(ran.stdout, folder))
            for line in normal(step.output, folder):
                assert line == "…" or line in printed, (page, step.text, line, ran.stdout)


def test_the_steps_of_a_page_are_found() -> None:
    """Blocks of each kind, with their output; what is marked is left out."""
    page = (
        "```sh\na\n```\n\n<!-- not run: it needs a cluster -->\n```sh\nb\n```\n\n```console\n$ c\nC\n$ d\n```\n\n"
        "```python\ne\n```\n\n```text\nE\n```\n\n```hocon\nf\n```\n"
    )
    assert [(step.text.strip(), step.output) for step in steps(page)] == [
        ("a", None),
        ("c", "C\n"),
        ("d", ""),
        ("e", "E\n"),
    ]


def test_every_page_that_is_left_out_says_why() -> None:
    """No more blocks are left out than the reasons allow: a cluster, a cloud, a network, Spark, an installation."""
    reasons = re.compile(r"<!-- not run: (?:needs|installs|run by) .+ -->")
    for page in PAGES:
        for comment in re.findall(r"<!-- not run.*?-->", (ROOT / page).read_text(encoding="utf-8")):
            assert reasons.fullmatch(comment), (page, comment)
