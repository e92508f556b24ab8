"""A test of a recurring part of the calendar, and its opposite."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from metastore.predicates.recurring import PARTS, Recurring, excludes

TESTS = st.sampled_from(sorted(PARTS)).flatmap(
    lambda part: st.sets(st.integers(1, PARTS[part].most)).map(
        lambda values: Recurring("d", part, tuple(sorted(values)), None)
    )
)


@given(test=TESTS, low=st.dates(date(1990, 1, 1), date(2040, 1, 1)), days=st.integers(0, 400))
def test_a_container_is_excluded_only_where_no_day_passes(test: Recurring, low: date, days: int) -> None:
    """The opposite has exactly the other days; the opposite of that is the test again."""
    opposite = ~test
    assert isinstance(opposite, Recurring)
    assert ~opposite == test
    passing = [PARTS[test.part].of(low + timedelta(each)) in test.values for each in range(days + 1)]
    high = low + timedelta(days)
    assert not (excludes(test, low, high) and any(passing))
    assert not (excludes(opposite, low, high) and not all(passing))
