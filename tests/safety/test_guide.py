"""The guide names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_every_test_that_the_guide_names_is_there() -> None:
    """By its path, or by its name beside one that was named before in the same line."""
    text = (REPOSITORY / "docs/guide/safety.md").read_text()
    named = set(re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text))
    assert len(named) > 15
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []
    files = {path.name for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert set(re.findall(r"`(test_\w+\.py)`", text)) <= files


def test_every_promise_has_a_test() -> None:
    """Promises are numbered, and each row ends with what shows it."""
    text = (REPOSITORY / "docs/guide/safety.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", text, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert all("`test" in shown for _, shown in rows)
