"""What is read from a request, and what is shown of a list: pure, for any input."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metastore.serve.answers import part_of
from metastore.serve.reports import kept_of
from metastore.serve.requests import CatalogRequest, Refusal, levels_of, name_of, token_of

PRINTED = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
NAMES = PRINTED.filter(lambda name: name not in {".", ".."})


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_a_namespace_comes_back_from_its_escapes(levels: list[str]) -> None:
    """Whatever its characters, in the escapes of PyIceberg and of forms, as Java has them."""
    plain = "%1F".join(quote(level, safe="") for level in levels)
    assert levels_of(plain) == tuple(levels)
    assert levels_of(plain.replace("%20", "+")) == tuple(levels)
    asked = CatalogRequest({}, {"parent": "\x1f".join(levels)}, {})
    assert asked.parents[0] == tuple(levels)


@pytest.mark.parametrize(
    "segment", ["", "%1F", "a%1F", "%00", "a%0A", "%7F", ".", "..", "%2e%2e", "a%1F..", "%FF", "%ED%A0%80", "a" * 1025]
)
def test_a_name_that_is_none_is_refused(segment: str) -> None:
    """Before any catalog hears of it."""
    with pytest.raises(Refusal):
        levels_of(segment)


def test_a_namespace_has_a_bounded_depth() -> None:
    """A caller does not choose how much work one name is."""
    with pytest.raises(Refusal):
        levels_of("%1F".join("a" * 33))
    assert len(name_of("a" * 1024)) == 1024


@given(st.sets(PRINTED, max_size=40), st.integers(1, 9), st.integers(1, 9), st.sets(PRINTED, max_size=5))
def test_pages_hold_each_name_once(names: set[str], most: int, wanted: int, later: set[str]) -> None:
    """In order, whatever the sizes; names that are made or dropped between two pages cost no other name."""
    seen: list[str] = []
    listed, token = sorted(names), ""
    while True:
        page = CatalogRequest({}, {"pageToken": token, "pageSize": str(wanted)}, {}).page(most)
        part, following = part_of(listed, page)
        assert len(part) <= min(most, wanted)
        seen += part
        if following is None:
            break
        token = token_of([following])
        listed = sorted({*names, *later} - set(seen[:1]))
    assert seen == sorted(set(seen))
    assert names <= set(seen)


def test_who_knows_of_no_pages_gets_all() -> None:
    """As the specification has it."""
    assert CatalogRequest({}, {}, {}).page(3) is None
    assert part_of(["a", "b"], None) == (["a", "b"], None)


LITERALS = st.one_of(
    st.text(min_size=6, max_size=20).filter(lambda text: text.isalnum()), st.integers(10**6, 10**9), st.floats(1e6, 1e9)
)


@given(
    st.recursive(
        st.builds(lambda value: {"type": "eq", "term": "name", "value": value}, LITERALS)
        | st.builds(
            lambda values: {
                "type": "in",
                "term": {"type": "transform", "transform": "day", "term": "t"},
                "values": values,
            },
            st.lists(LITERALS, max_size=3),
        )
        | st.builds(lambda value: {"type": "eq", "term": "name", "unheard-of": {"deep": [value]}}, LITERALS)
        | LITERALS,
        lambda inner: (
            st.builds(lambda left, right: {"type": "and", "left": left, "right": right}, inner, inner)
            | st.builds(lambda child: {"type": "not", "child": child}, inner)
        ),
        max_leaves=6,
    )
)
@example({"type": "not", "child": "Smith0"})
@example({"type": "eq", "term": ["Smith0"], "left": "Smith1"})
def test_no_literal_of_a_filter_is_kept(predicate: object) -> None:
    """Wherever it stands, also under keys that are unknown here; equal ones have equal digests under one key."""
    kept = kept_of({"report-type": "scan-report", "filter": predicate}, b"k" * 32)
    text = json.dumps(kept)
    for literal in literals_in(predicate):
        assert str(literal) not in text
    assert kept == kept_of({"report-type": "scan-report", "filter": predicate}, b"k" * 32)


def literals_in(node: object) -> list[object]:
    """The literals that the strategy put in."""
    if isinstance(node, dict):
        return [
            each
            for key, value in node.items()
            if key not in {"type", "term", "transform"} or isinstance(value, list)
            for each in literals_in(value)
        ]
    if isinstance(node, list):
        return [each for value in node for each in literals_in(value)]
    return [node]


def test_numbers_and_columns_of_a_report_are_kept() -> None:
    """And how many files were planned; texts are cut, and everything unknown is left out."""
    report = {
        "report-type": "scan-report",
        "snapshot-id": 7,
        "schema-id": 0,
        "table-name": "shop.orders",
        "secret": "x",
        "projected-field-names": ["id", "n" * 5000],
        "metrics": {"result-data-files": {"unit": "count", "value": 3}, "odd": 1},
        "metadata": {"engine-name": "spark"},
    }
    assert kept_of(report, b"k") == {
        "report-type": "scan-report",
        "snapshot-id": 7,
        "schema-id": 0,
        "projected-field-names": ["id", "n" * 200],
        "metrics": {"result-data-files": {"value": 3}, "odd": None},
    }
