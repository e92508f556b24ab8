"""README and the pages of docs/start and docs/how-to, typed in from top to bottom as a reader would."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from support.pages import TYPED_ELSEWHERE, steps

import metastore

ROOT = Path(metastore.__file__).parents[1]
PAGES = [
    "README.md",
    *sorted(
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("docs/*/*.md")
        if path.parent.name in {"start", "how-to"} and not TYPED_ELSEWHERE.search(path.read_text(encoding="utf-8"))
    ),
]

WITH_SPARK = {"docs/start/tutorial.md"}


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
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(home), "COLUMNS": "80", "NO_COLOR": "1"}
    return {**{name: os.environ[name] for name in ("JAVA_HOME", "LANG", "TZ") if name in os.environ}, **own}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.spark, pytest.mark.exhaustive] if page in WITH_SPARK else ())
        for page in PAGES
    ],
)
def test_a_page_does_what_it_shows(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Every step ends well and prints the shown lines in their order."""
    folder = tmp_path / "work"
    folder.mkdir()
    for step in steps((ROOT / page).read_text(encoding="utf-8")):
        assert step.difference(folder, environment) is None


def test_the_steps_of_a_page_are_found(tmp_path: Path) -> None:
    """Blocks of each kind, with their output; what is marked is left out, and a line that is not printed is noticed."""
    page = (
        "```sh\ntrue\n```\n\n<!-- not run: needs a cluster -->\n```sh\nfalse\n```\n\n"
        "```console\n$ echo C\nC\n$ echo d\n```\n\n"
        "```python\nprint('e')\n```\n\n```text\nE\n```\n\n```hocon\nf\n```\n"
    )
    found = list(steps(page))
    assert [(step.text.strip(), step.output) for step in found] == [
        ("true", None),
        ("echo C", "C\n"),
        ("echo d", ""),
        ("print('e')", "E\n"),
    ]
    differences = [step.difference(tmp_path, dict(os.environ)) for step in found]
    assert differences[:3] == [None, None, None]
    assert "printed no line 'E'" in str(differences[3])


def test_every_page_that_is_left_out_says_why() -> None:
    """No more blocks are left out than the reasons allow: a service, an installation, or a test that runs them."""
    reasons = re.compile(r"<!-- not run: (?:needs|installs|run by) .+ -->")
    for page in PAGES:
        for comment in re.findall(r"<!-- not run.*?-->", (ROOT / page).read_text(encoding="utf-8")):
            assert reasons.fullmatch(comment), (page, comment)


def test_the_pages_are_found() -> None:
    """README, those of docs/start and those of docs/how-to."""
    folders = {Path(page).parent.as_posix() for page in PAGES}
    assert folders == {".", "docs/start", "docs/how-to"}
