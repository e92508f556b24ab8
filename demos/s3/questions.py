"""The questions of the demo, each asked of Arrow alone and of the metastore, with the requests that it cost.

Arrow alone is a fair peer: it lists the table, skips directories by their names, and skips row groups by the footers
that it reads. The metastore has read the footers before, in ANALYZE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import S3FileSystem

from demos.s3.cost import Cost
from demos.s3.process import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from metastore.session import Session


@dataclass(frozen=True)
class Question:
    """A condition, in SQL and as Arrow's expression; ``is_count`` asks for the number of rows, not for the rows."""

    where: str
    expression: pc.Expression
    is_count: bool = False

    @property
    def title(self) -> str:
        """The question as SQL."""
        return f"SELECT {'count(*)' if self.is_count else '*'} … WHERE {self.where}"


QUESTIONS: Final = (
    Question(
        "month = 6 AND dep_delay > 600",
        (ds.field("month") == 6) & (ds.field("dep_delay") > 600),
    ),
    Question("dep_delay > 900", ds.field("dep_delay") > 900),
    Question("month = 6", ds.field("month") == 6, is_count=True),
)


@dataclass(frozen=True)
class AskedQuestion:
    """One answer, what it cost at the server, and its time in seconds."""

    answer: object
    cost: Cost
    seconds: float


def ask_arrow(server: S3Server, path: str, question: Question) -> AskedQuestion:
    """Ask Arrow about the table at ``path``, as ``bucket/directory``."""
    files = S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        endpoint_override=server.endpoint.removeprefix("http://"),
        scheme="http",
    )

    def answer() -> object:
        table = ds.dataset(path, filesystem=files, format="parquet", partitioning="hive")
        if question.is_count:
            return table.count_rows(filter=question.expression)
        return _rows(table.to_table(filter=question.expression))

    return _measured(server, answer)


def ask_metastore(server: S3Server, session: Session, table: str, question: Question) -> AskedQuestion:
    """Ask the metastore about its table ``table``."""

    def answer() -> object:
        scan = session.tables.scan(table, question.where)
        return scan.count() if question.is_count else _rows(scan.to_arrow())

    return _measured(server, answer)


def _measured(server: S3Server, ask: Callable[[], object]) -> AskedQuestion:
    server.cost()
    began = perf_counter()
    answer = ask()
    seconds = perf_counter() - began
    return AskedQuestion(answer, server.cost(), seconds)


def _rows(table: pa.Table) -> Sequence[str]:
    """Return the rows in one order, whatever the order of rows and columns."""
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())
