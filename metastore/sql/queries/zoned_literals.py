"""Times that name a zone, ``TIMESTAMP '2024-03-10 03:30:00 Europe/Berlin'``, as the moments that they are.

Place in the flow: a query is changed here before DuckDB parses it. DuckDB drops the zone silently; in Trino, in
Spark and in the SQL standard such a literal is a moment. It is written in UTC, in no more characters than before where
that is possible, so that places in the text stay. A time in UTC stays as it is: timestamps without a zone are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

from sqlglot import Token, TokenType

from metastore.sql.statement import Statement

_ZONED: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})[ T](?P<time>\d{2}:\d{2}(?P<seconds>:[0-5]\d(\.\d+)?)?) *"
    r"((?P<sign>[+-])(?P<hours>\d{1,2})(:?(?P<minutes>\d{2}))?|(?P<name>[A-Za-z][\w/+-]+))",
    re.ASCII,
)
_UTC: Final = frozenset(("UTC", "GMT", "ETC/UTC", "UT"))


def zoned_literals(statement: Statement) -> Iterator[tuple[int, int, str]]:
    """Yields the places of literals with a zone, and what stands there.

    Raises InvalidRequestError, at the literal, for an unknown zone and for a time that is none.
    """
    for index, token in enumerate(statement.tokens[1:], 1):
        before = statement.tokens[index - 1]
        if token.token_type is not TokenType.STRING or statement.source(before).upper() != "TIMESTAMP":
            continue
        found = _ZONED.fullmatch(token.text.strip())
        if found is not None and (found["name"] or "").upper() not in _UTC:
            moment = _moment(statement, token, found)
            shown = moment.isoformat(" ")
            if found["name"] is None:  # as many digits as before: only then is there room for the rest
                shown = shown[: found.end("time")]
            elif moment.microsecond:
                shown = shown.rstrip("0")
            yield before.start, token.end + 1, f"TIMESTAMPTZ'{shown}Z'"


def _moment(statement: Statement, token: Token, found: re.Match[str]) -> datetime:
    try:
        local = datetime.fromisoformat(f"{found['day']} {found['time'][:5]}")
        local += timedelta(seconds=float((found["seconds"] or ":0")[1:]))
        if found["name"] is not None:
            return local.replace(tzinfo=ZoneInfo(found["name"])).astimezone(timezone.utc).replace(tzinfo=None)
        offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
        return local - offset if found["sign"] == "+" else local + offset
    except (ValueError, OverflowError, KeyError) as error:
        raise statement.error(f"{token.text} is no time: {error}", token) from error
