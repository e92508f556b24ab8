"""Rewrites the stars of a query, in DuckDB's SQL, so that they leave out columns that a query must name. Pure.

Place in the flow: SELECT gives a table those columns of :mod:`metastore.sql.views.unlisted_columns` that the query
uses. Each star that would include them gets ``EXCLUDE``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted
from metastore.sql.queries.query_text import QueryText, Reference
from metastore.sql.views.unlisted_columns import stars_over

_EXCLUDE: Final = re.compile(r"\*\s*(?:EXCLUDE|EXCEPT)\s*\(", re.IGNORECASE)


def stars_without(query: QueryText, hidden: Mapping[Reference, Sequence[str]]) -> Iterator[tuple[tuple[int, int], str]]:
    """Returns the replacement of each star of ``query``, by its place, that leaves out the ``hidden`` columns.

    Raises InvalidRequestError for a star that cannot be written so.
    """
    for star, names in stars_over((reference.node, names) for reference, names in hidden.items()):
        left_out = ", ".join(map(double_quoted, names))
        start = star.meta.get("start", len(query.text))
        if not query.text.startswith("*", start):
            raise InvalidRequestError(f"{', '.join(names)}: write SELECT and the columns before FROM")
        if not star.args.get("except_"):
            yield (start, start + 1), f"* EXCLUDE ({left_out})"
            continue
        written = _EXCLUDE.match(query.text, start)
        if written is None:
            raise InvalidRequestError(f"{', '.join(names)}: put what * leaves out in brackets: * EXCLUDE (…)")
        yield (start, written.end()), f"* EXCLUDE ({left_out}, "
