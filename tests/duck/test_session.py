"""DuckDB's session is in the zone that it is asked for."""

from __future__ import annotations

from datetime import datetime, tzinfo

import duckdb
import pytest

from metastore.duck.session import connection
from metastore.errors import InvalidRequestError
from metastore.predicates.time_zones import zone_named

BEYOND_DUCKDB_1 = ("-17:45", "+18:00", "+01:00:30")


@pytest.mark.parametrize("name", ["UTC", "Z", "+02:00", *BEYOND_DUCKDB_1, "Europe/Berlin", "Asia/Kolkata"])
def test_local_time_is_that_of_the_zone(name: str) -> None:
    """As Python's own zones have it."""
    zone = zone_named(name)
    if name in BEYOND_DUCKDB_1 and duckdb.__version__.startswith("1."):
        with pytest.raises(InvalidRequestError, match="DuckDB knows no time zone UTC"):
            connection(zone)
        return
    with connection(zone) as engine:
        [(local,)] = engine.sql("SELECT CAST(TIMESTAMPTZ '2020-07-01 12:00:00+00' AS TIMESTAMP)").fetchall()
    noon = datetime(2020, 7, 1, 12)
    offset = datetime(2020, 7, 1, 15, tzinfo=zone).utcoffset()
    assert local - noon == offset


class Mars(tzinfo):
    """A zone that Python has and DuckDB lacks."""

    def __str__(self) -> str:
        return "Mars/Base"


def test_a_zone_that_duckdb_lacks_is_told() -> None:
    """By its name."""
    with pytest.raises(InvalidRequestError, match="DuckDB knows no time zone Mars/Base"):
        connection(Mars())  # type: ignore[abstract] # at run time it is not
