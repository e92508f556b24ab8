"""Quoted column paths: one spelling per path, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError
from metastore.model.column_path import is_among, parse, quote, repeated_names


@given(st.lists(st.text(), min_size=1).map(tuple))
def test_a_quoted_path_parses_to_itself(path: tuple[str, ...]) -> None:
    """Dots, backquotes, empty and non-ASCII segments all come back."""
    assert parse(quote(path)) == path


def test_the_form_is_drills() -> None:
    """Segments stand in backquotes, a backslash before each inside; a doubled one and bare segments are read, too."""
    assert quote(("a.b", "c`d", "e\\f")) == r"`a.b`.`c\`d`.`e\\f`"
    assert parse("a.`b.c`.größe.`c``d`") == ("a", "b.c", "größe", "c`d")


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b`"])
def test_what_is_no_path_is_refused(text: str) -> None:
    """Empty bare segments, open quotes and quotes in the middle are errors that show the text."""
    with pytest.raises(InvalidRequestError, match="no column path"):
        parse(text)


def test_a_column_encloses_what_lies_in_it() -> None:
    """By whole segments, and by their case."""
    assert is_among(("a",), [("b",), ("a",)])
    assert is_among(("a", "b"), [("a",)])
    assert not any(is_among(path, [("a", "b")]) for path in [("a",), ("a", "c"), ("ab",), ("A", "b"), ("a.b",)])
    assert not is_among(("a",), [])


def test_names_that_stand_twice_are_told_once() -> None:
    """In their order as texts; names of different case are different."""
    assert (repeated_names(["b", "a", "b", "a", "b", "c"]), repeated_names(["a", "A"])) == ("a, b", "")
