"""What requests to S3 cost by its list price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DOLLARS: Final[Mapping[str, float]] = {
    "PUT": 0.005 / 1_000,
    "POST": 0.005 / 1_000,
    "LIST": 0.005 / 1_000,
    "GET": 0.0004 / 1_000,
    "HEAD": 0.0004 / 1_000,
    "DELETE": 0.0,
}
"""Dollars for one request: S3 Standard, US East (N. Virginia). Source: https://aws.amazon.com/s3/pricing/, "Requests
& data retrievals", of 2026. A POST is counted as a PUT, though those that delete objects are free. Bytes cost nothing
within a region, and what is stored is not counted."""


def dollars_of_a_million(operations: Mapping[str, int]) -> float:
    """Return the price of a million questions, each with these requests by operation."""
    return 1_000_000 * sum(count * DOLLARS[name] for name, count in operations.items())
