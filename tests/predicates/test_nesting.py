"""A condition that is nested too deeply is refused by an error of ours, at every depth and in every shape."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.predicates.spark_sql import condition_of

SHAPES = {
    "parentheses": ("(", "k = 1", ")"),
    "negations": ("NOT ", "k = 1", ""),
    "brackets": ("k[", "1", "]"),
    "open brackets": ("isnan(k[", "", ""),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("depth", [400, 3_000, 20_000])
def test_a_condition_nested_too_deeply_is_refused(shape: str, depth: int) -> None:
    """The parser's own recursion ends in an error of ours."""
    before, inner, after = SHAPES[shape]
    with pytest.raises(InvalidRequestError):
        condition_of(before * depth + inner + after * depth)
