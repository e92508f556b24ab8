"""CONTRIBUTING's list of how to add a thing names modules and names that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows() -> list[str]:
    """The rows of the table below the heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## How to add …\n")[2].partition("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("| a ")]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_each_place_is_there(row: str) -> None:
    """Each path is in the repository, and a name before "of" stands in the module after it."""
    paths = re.findall(r"`([a-z_/]+/(?:[a-z_]+\.(?:py|md))?)`", row)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    for name, path in re.findall(r"`(\w+)` of `([\w/.]+)`", row):
        assert re.search(rf"^{name}\b", (ROOT / path).read_text(), re.MULTILINE), name


def test_the_list_is_read() -> None:
    """A heading that is spelled otherwise would leave nothing to look at."""
    assert len(rows()) >= 7
