"""A column that is called like a word of SQL: the error says so, and quotes help."""

from __future__ import annotations

import duckdb
import pytest

from metastore.errors import InvalidRequestError
from metastore.session import Session

WORDS = ("case", "check", "default", "desc", "end", "group", "limit", "order", "table", "to", "user", "when")


def is_refused(query: str) -> bool:
    """Whether DuckDB takes the query for a syntax error; some reserved words are functions."""
    try:
        duckdb.sql(query)
    except duckdb.ParserException:
        return True
    except duckdb.Error:
        return False
    return False


@pytest.mark.parametrize("word", WORDS)
def test_the_error_says_that_quotes_are_needed(bare: Session, word: str) -> None:
    """Wherever DuckDB itself refuses the word as a name; a quoted one runs."""
    queries = (f"SELECT {word} FROM (SELECT 1)", f"SELECT 1, {word} FROM (SELECT 1)", f"SELECT 1 WHERE {word} = 1")
    for query in filter(is_refused, queries):
        with pytest.raises(InvalidRequestError, match=f'{word} is a reserved word: .* needs quotes, "{word}"'):
            bare.sql(query)
    assert bare.sql(f'SELECT "{word}" FROM (SELECT 7 AS "{word}")').to_pylist() == [{word: 7}]


@pytest.mark.parametrize("query", ["SELECT 1 FRM t", "SELECT 1 FROM x y z", "SELECT (1"])
def test_another_syntax_error_has_no_such_hint(bare: Session, query: str) -> None:
    """A slip elsewhere is no matter of quotes."""
    with pytest.raises(InvalidRequestError) as caught:
        bare.sql(query)
    assert "reserved" not in str(caught.value)
