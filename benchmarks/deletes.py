"""Questions: what deletes cost a reader, and the time of rewriting small files with deletes, beside Iceberg for Java.

The first table has ten million rows in ten files, and an equality delete file of a million keys, which are spread over
all of them. A query sums both columns, with the deletes and without. The others have 2,000 small files each. A DELETE
took a tenth of their rows: by position deletes in format version 2, by deletion vectors in version 3. Both programs
make four files of them. Before each rewrite the table is rolled back.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import Record

from benchmarks.analyze import Data
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from benchmarks.peers import iceberg_java
from benchmarks.peers.iceberg_java import IcebergJava
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.lake.iceberg.manifests.manifests import added_entry
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.session import Session, connect

QUESTION: Final = "deletes"
SCAN: Final = "sum over both columns of ten million rows"
PLAIN: Final = f"{OURS}, no deletes"
EQUAL: Final = f"{OURS}, a million equality deletes"
FILES: Final = 2_000
ROWS: Final = 10_000_000

_VERSIONS: Final = (2, 3)
_DATA_FILES: Final = 10
_A_KEY_OF: Final = 10
_OUTPUT: Final = 4
_ROUNDS_AT_MOST: Final = 3
_VALUE: Final = 1_000


def case(version: int) -> str:
    """The name of the rewrite in a format version."""
    return f"small files with deletes into four, version {version}; items are bytes"


def run(folder: str, files: int, rows: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure ``rows`` rows and ``files`` files, which are built in ``folder`` and stay there."""
    steady = replace(pace, rounds=min(pace.rounds, _ROUNDS_AT_MOST), patience=math.inf)
    with ExitStack() as stack:
        engine = stack.enter_context(LocalEngine())
        session = stack.enter_context(_session(folder, engine))
        session.sql("CREATE SCHEMA lake.db")
        say(f"writing {rows:,} rows, and keys of a tenth")
        for name in ("plain", "keyed"):
            _fill(session, name, rows)
        _delete_equal(session, rows)
        scans = [
            Contender(name, partial(_sum, session, table), answer=None)
            for name, table in ((PLAIN, "plain"), (EQUAL, "keyed"))
        ]
        say("scanning")
        series = measure(QUESTION, SCAN, rows, scans, steady, items=rows)
        java = None
        try:
            say("bringing Iceberg for Java")
            java = stack.enter_context(IcebergJava(os.path.join(folder, "java"), os.path.join(folder, "lake")))
        except OSError as error:
            say(f"without Iceberg for Java: {error}")
        say(f"building {files:,} Parquet files")
        data = Data(os.path.join(folder, "data"), files, seed)
        size = sum(map(os.path.getsize, data.paths))
        for version in _VERSIONS:
            tables = [_Small.made(session, f"small_{version}_{who}", data.paths, version) for who in ("ours", "java")]
            contenders = [Contender(OURS, partial(_rewritten, size), tables[0].rolled_back, _Small.seen)]
            if java is not None:
                rewrite = partial(_rewritten_by_java, java, size)
                contenders.append(Contender(iceberg_java.NAME, rewrite, tables[1].rolled_back, _Small.seen))
            say(f"rewriting in version {version}")
            series += measure(QUESTION, case(version), files, contenders, steady, items=size)
        return series


def verdicts(series: Sequence[Series], files: int = FILES, rows: int = ROWS) -> list[Verdict]:
    """What was promised: deletes at most double a scan, and a rewrite is twice as fast as Iceberg for Java's."""
    return [
        beside(series, QUESTION, rows, (SCAN, EQUAL), (SCAN, PLAIN), 0.5),
        *(
            beside(series, QUESTION, files, (case(version), OURS), (case(version), iceberg_java.NAME), 2)
            for version in _VERSIONS
        ),
    ]


@dataclass(frozen=True)
class _Small:
    """A table of small files with deletes, which snapshot ``small`` has."""

    session: Session
    name: str
    small: int

    @classmethod
    def made(cls, session: Session, name: str, paths: Sequence[str], version: int) -> _Small:
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in pq.read_schema(paths[0]))
        session.sql(f"CREATE TABLE lake.db.{name} ({columns}) WITH (format_version = {version})")
        session.call("lake.system.add_files", schema="db", table_name=name, files=list(paths))
        session.sql(f"DELETE FROM lake.db.{name} WHERE id % 10 = 3")
        snapshot = session.catalogs.target("lake", "db", name).load().current_snapshot()
        assert snapshot is not None
        return cls(session, name, snapshot.snapshot_id)

    def rolled_back(self) -> _Small:
        """With the small files and the deletes again."""
        self.session.call("lake.system.set_current_snapshot", schema="db", table_name=self.name, snapshot_id=self.small)
        return self

    def seen(self) -> object:
        """The rows that are left."""
        found = self.session.sql(f"SELECT count(*) AS n, sum(id % 1000) AS s FROM lake.db.{self.name}")
        return [tuple(row.values()) for row in found.to_pylist()]


def _session(folder: str, engine: LocalEngine) -> Session:
    lake = {"type": "filesystem", "warehouse": os.path.join(folder, "lake")}
    location = {"base_path": folder, "relative_path": "metastore"}
    settings = {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": lake}
    return connect(Settings.from_mapping(settings), engine)


def _fill(session: Session, name: str, rows: int) -> None:
    session.sql(f"CREATE TABLE lake.db.{name} (id BIGINT, value BIGINT)")
    table = session.catalogs.target("lake", "db", name).load()
    each = rows // _DATA_FILES
    for number in range(_DATA_FILES):
        ids = np.arange(number * each, (number + 1) * each)
        table.append(pa.table({"id": pa.array(ids), "value": pa.array(ids % _VALUE)}))


def _delete_equal(session: Session, rows: int) -> None:
    """Commit an equality delete file of each tenth id, as a streaming writer does."""
    target = session.catalogs.target("lake", "db", "keyed")
    table = target.load()
    path = f"{table.metadata.location}/data/{uuid.uuid4()}-equal.parquet"
    keys: Any = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
    ids = pa.array(np.arange(0, rows, _A_KEY_OF))
    pq.write_table(pa.Table.from_arrays([ids], schema=pa.schema([keys])), path.removeprefix("file://"))
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(ids),
        file_size_in_bytes=len(table.io.new_input(path)),
        equality_ids=[1],
    )
    new = NewSnapshot(table, int(time.time() * 1_000))
    with new.taken_back_unless_published():
        manifest = new.write_manifest([added_entry(file, new.id)], 0, ManifestContent.DELETES)
        new.publish(target, [manifest, *new.parent_manifests()], Summary(Operation.OVERWRITE))


def _sum(session: Session, table: str, _: object) -> int:
    [row] = session.sql(f"SELECT sum(id + value) AS total FROM lake.db.{table}").to_pylist()
    return int(row["total"])


def _rewritten(size: int, table: _Small) -> _Small:
    """The whole call."""
    options = {"target-file-size-bytes": str(-(-size // _OUTPUT)), "delete-file-threshold": "1"}
    table.session.call("lake.system.rewrite_data_files", schema="db", table_name=table.name, options=options)
    return table


def _rewritten_by_java(java: IcebergJava, size: int, table: _Small) -> _Small:
    target = -(-size // _OUTPUT)
    java.sql(
        f"CALL lake.system.rewrite_data_files(table => 'db.{table.name}', options => map("
        f"'target-file-size-bytes', '{target}', 'delete-file-threshold', '1'))"
    )
    return table


_TYPES: Final[dict[Any, str]] = {
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", "UTC"): "TIMESTAMPTZ",
}
