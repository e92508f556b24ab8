"""Settings of the daemon itself: its interval, lease, endpoint and history."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from metastore.config.section import Section

LeaseKind = Literal["auto", "store", "catalog"]
_URL: Final = re.compile(r"https?://[^/\s@]+/\S+")
_KINDS: Final[dict[str, LeaseKind]] = {"auto": "auto", "store": "store", "catalog": "catalog"}


@dataclass(frozen=True)
class EndpointSettings:
    """The address that serves metrics and health; ``port`` None means no endpoint, 0 any free port."""

    host: str = "127.0.0.1"
    port: int | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DaemonSettings:
    """``interval``: time between two passes. ``lease``: without renewal for this time, another daemon takes over.

    - ``answer_timeout``: limit for each answer of a catalog while tables are listed; a slower catalog is skipped.
    - ``workers``: number of tables that are worked on at the same time.
    - ``jitter``: the part of an interval over which the runs of tables are distributed.
    - ``backoff``: wait after a failed run, doubled after each further failure up to ``longest_backoff``.
    - ``patience``: maximum delay of an action because the table has recent commits.
    - ``keep_runs``: older runs are removed from the history.
    - ``events_queue``: URL of an SQS queue with events of S3; None: tables are looked at by their schedules only.
    """

    interval: timedelta = timedelta(minutes=1)
    lease: timedelta = timedelta(seconds=60)
    lease_kind: LeaseKind = "auto"
    jitter: float = 0.1
    backoff: timedelta = timedelta(minutes=5)
    longest_backoff: timedelta = timedelta(hours=6)
    patience: timedelta = timedelta(days=1)
    keep_runs: timedelta = timedelta(days=90)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    answer_timeout: timedelta = timedelta(minutes=1)
    workers: int = 2
    events_queue: str | None = None


def daemon_settings(section: Section) -> DaemonSettings:
    """Read the settings below ``drill.metastore.daemon``. Raises ConfigError."""
    lease, backoff = section.section("lease"), section.section("backoff")
    return DaemonSettings(
        interval=_above_zero(section, "interval"),
        lease=_above_zero(lease, "duration"),
        lease_kind=lease.choice("kind", _KINDS),
        jitter=_part(section, "jitter"),
        backoff=_above_zero(backoff, "first"),
        longest_backoff=_above_zero(backoff, "longest"),
        patience=_above_zero(section, "patience"),
        keep_runs=_above_zero(section, "keep_runs"),
        endpoint=_endpoint(section.section("http")),
        answer_timeout=_above_zero(section, "answer_timeout"),
        workers=section.require("workers", section.whole("workers", least=1)),
        events_queue=_queue(section.section("events")),
    )


def _queue(section: Section) -> str | None:
    url = section.optional_text("queue") or None
    if url is not None and not _URL.fullmatch(url):
        raise section.refusal(
            "queue", "the URL of an SQS queue is expected: https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"
        )
    return url


def _endpoint(section: Section) -> EndpointSettings:
    token = section.optional_text("token")
    return EndpointSettings(section.text("host"), section.optional_port("port"), token or None)


def _above_zero(section: Section, name: str) -> timedelta:
    value = section.require(name, section.duration(name))
    if value <= timedelta():
        raise section.refusal(name, "a time above zero is expected")
    return value


def _part(section: Section, name: str) -> float:
    text = section.text(name)
    try:
        value = float(text)
    except ValueError as error:
        raise section.refusal(name, "a number is expected") from error
    if not 0 <= value <= 1:
        raise section.refusal(name, "a fraction of an interval is expected, from 0 to 1")
    return value
