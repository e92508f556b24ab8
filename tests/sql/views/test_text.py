"""What is no query is refused with words of ours, however it is written."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.sql.views.text import parse_query


@pytest.mark.parametrize("query", ["(" * 2_000 + "1" + ")" * 2_000, "NOT " * 2_000 + "TRUE", "{" * 2_000])
def test_nested_too_deeply(query: str) -> None:
    """The parser's own limit is no error of Python's to the caller."""
    with pytest.raises(InvalidRequestError, match="cannot read the SQL"):
        parse_query(f"SELECT {query}")
