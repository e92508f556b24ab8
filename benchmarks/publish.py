"""Question: the time of publishing analyzed files as an Iceberg table, beside PyIceberg's ``add_files``.

Ours takes what ANALYZE has stored; ``add_files`` reads every footer. Both make manifests with bounds of 11 columns, and
give the number of rows as the manifests count them. Then ours publishes a change of one file in a hundred, which lie
next to each other, and finds nothing to publish.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.config import Settings
from metastore.session import connect

QUESTION: Final = "Files published as an Iceberg table"
ALL, CHANGED, UNCHANGED = "all files", "1% changed", "unchanged"
BY_PYICEBERG: Final = "PyIceberg add_files"
FILES: Final = 10_000
_A_DAY: Final = 100
_TABLE: Final = "dfs.shop.sales"


def run(folder: str, files: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure one table of ``files`` files, in directories of a hundred."""
    root, numbers = os.path.join(folder, "shop", "sales"), count()
    say(f"building {files:,} files")
    for number in range(files):
        _write(root, number, 0)
    with connect(_settings(folder)) as session:
        say(f"analyzing {files:,} files")
        session.analyze(_TABLE)

        def published(name: str) -> str:
            session.publish(_TABLE, f"lake.shop.{name}")
            return str(session.catalogs.table("lake", "shop", name).load().metadata_location)

        def changed() -> str:
            for number in range(max(1, files // 100)):
                _write(root, number, next(numbers) + 1)
            session.analyze(_TABLE)
            return "kept"

        first = [
            Contender(OURS, published, lambda: f"t{next(numbers)}", _rows),
            Contender(BY_PYICEBERG, _added, lambda: _paths(root), _rows),
        ]
        say(f"publishing {files:,} files")
        series = measure(QUESTION, ALL, files, first, pace, items=files)
        published("kept")
        series += measure(QUESTION, UNCHANGED, files, [Contender(OURS, published, lambda: "kept")], pace)
        series += measure(QUESTION, CHANGED, files, [Contender(OURS, published, changed)], pace)
    shutil.rmtree(folder)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was hoped for: ten times as fast as reading the footers again."""
    return [beside(series, QUESTION, FILES, (ALL, OURS), (ALL, BY_PYICEBERG), 10.0)]


def _settings(folder: str) -> Settings:
    own = {
        "iceberg.location.base_path": folder,
        "storage.dfs.workspaces.shop.location": os.path.join(folder, "shop"),
        "catalogs.lake": {"type": "filesystem", "warehouse": os.path.join(folder, "lake")},
    }
    return Settings.from_mapping({"drill.metastore": own}, environ={})


def _write(root: str, number: int, seed: int) -> None:
    place = os.path.join(root, f"day={date(2024, 1, 1) + timedelta(days=number // _A_DAY)}")
    os.makedirs(place, exist_ok=True)
    columns: dict[str, Any] = {f"n{each}": [number * 7 + each, seed + each] for each in range(4)}
    columns |= {f"x{each}": [number / 3, each / 7] for each in range(2)}
    columns |= {f"t{each}": [f"text {number}", None] for each in range(3)}
    columns |= {"d": [date(2020, 1, 1) + timedelta(days=number % 3_000), None], "flag": [True, False]}
    pq.write_table(pa.table(columns), os.path.join(place, f"part-{number:06}.parquet"), compression="none")


def _paths(root: str) -> list[str]:
    return [os.path.join(place, name) for place, _, names in os.walk(root) for name in sorted(names)]


def _added(paths: list[str]) -> str:
    catalog = load_catalog("memory", type="in-memory", warehouse=f"file://{os.path.dirname(paths[0])}/../../../added")
    catalog.create_namespace_if_not_exists("d")
    table = catalog.create_table(f"d.t{os.urandom(4).hex()}", pq.read_schema(paths[0]))
    table.add_files(paths, check_duplicate_files=False)
    catalog.close()
    return table.metadata_location


def _rows(metadata_location: str) -> object:
    return StaticTable.from_metadata(metadata_location).scan().count()
