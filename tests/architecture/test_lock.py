"""requirements.lock pins all that pyproject.toml asks for, by hash, and names no place to get it from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LOCK = Path(__file__).parents[2] / "requirements.lock"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
REQUIREMENT = re.compile(r'"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?[<>=~!][^"]*"')
LEFT_OUT = {"mkdocs-material", "mkdocstrings", "pip-audit", "pymdown-extensions"}
"""The lock pins what runs; these look at it, or at the documents, from outside."""


def plain(name: str) -> str:
    """A distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def text() -> str:
    """The file."""
    return LOCK.read_text()


def test_every_line_is_a_pin_with_hashes_or_a_comment(text: str) -> None:
    """Nothing else: no options, no addresses, no paths."""
    rest = PIN.sub("", text)
    assert [line for line in rest.splitlines() if line.strip() and not line.lstrip().startswith("#")] == []
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_all_direct_dependencies_are_pinned(text: str) -> None:
    """Those of the extras and groups too."""
    pinned = {plain(name) for name, _, _ in PIN.findall(text)}
    project = LOCK.with_name("pyproject.toml").read_text().partition("\ndependencies = [")[2]
    wanted = {plain(name) for name in REQUIREMENT.findall(project.partition("[project.scripts]")[0])}
    assert len(wanted) > 20
    assert wanted - LEFT_OUT <= pinned
