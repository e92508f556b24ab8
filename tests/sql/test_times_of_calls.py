"""Times from now as arguments of CALL, as Spark's and Trino's users write them."""

from __future__ import annotations

import datetime as dt

import pytest

from metastore.errors import InvalidRequestError
from metastore.session import Session

DAY = dt.timedelta(days=1)
TIMES = {
    "now()": dt.timedelta(),
    "current_timestamp": dt.timedelta(),
    "CURRENT_TIMESTAMP()": dt.timedelta(),
    "current_timestamp - INTERVAL '7' DAY": -7 * DAY,
    "current_timestamp() - INTERVAL 7 DAYS": -7 * DAY,
    "now() + INTERVAL '1' HOUR - INTERVAL '1' DAY": dt.timedelta(hours=1) - DAY,
}


@pytest.mark.parametrize("text", TIMES)
def test_the_time_is_that_of_the_call(bare: Session, text: str) -> None:
    """To the second, in UTC; other arguments may follow."""
    before = dt.datetime.now(dt.timezone.utc)
    [row] = bare.sql(f"CALL lake.system.all(moment => {text}, text => 'x')").to_pylist()
    after = dt.datetime.now(dt.timezone.utc)
    [said, moment] = eval(row["given"], {"datetime": dt})  # noqa: S307 - what the procedure was given, by repr
    assert said == "x"
    assert before <= moment - TIMES[text] <= after


def test_today(bare: Session) -> None:
    """A date is its midnight in UTC."""
    [row] = bare.sql("CALL lake.system.all(moment => current_date - 7)").to_pylist()
    [moment] = eval(row["given"], {"datetime": dt})  # noqa: S307 - as above
    assert moment.time() == dt.time()
    assert dt.datetime.now(dt.timezone.utc).date() - moment.date() in {7 * DAY, 8 * DAY}


@pytest.mark.parametrize("text", ["now() - 'x'", "now() - INTERVAL 'many' DAY", "current_date()()", "now"])
def test_what_is_no_time(bare: Session, text: str) -> None:
    """With its place in the statement."""
    with pytest.raises(InvalidRequestError, match="line 1, column "):
        bare.sql(f"CALL lake.system.all(moment => {text})")
