"""Files that other projects test with: what statistics answer is what the data answers, read by Arrow.

Footers of many writers and releases, some of them damaged on purpose. What cannot be read is refused by a typed error.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import FormatError, MetastoreError
from metastore.session import Session, connect


def _judged(path: Path) -> pa.Table | None:
    """The rows by Arrow itself, without the metastore; None if it does not read the file."""
    try:
        return orc.ORCFile(str(path)).read() if path.suffix == ".orc" else pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError):
        return None


def _literal(value: Any) -> str | None:
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"DATE '{value}'"
    return f"{value:f}" if isinstance(value, Decimal) else str(value) if type(value) is int else None


def _differences(session: Session, data: pa.Table) -> Iterator[str]:
    for name in data.column_names:
        column, quoted = data[name], f"`{name}`"
        if pa.types.is_nested(column.type) or data.column_names.count(name) > 1:
            continue
        values: list[Any] = column.drop_null().to_pylist()
        asked = [f"count({quoted})", f"min({quoted})", f"max({quoted})"]
        [answer] = session.tables.aggregate("dfs.w.t", asked).to_pylist()
        count, low, high = answer.values()
        if count != len(values):
            yield f"{name}: count {count}, not {len(values)}"
        if not values or _literal(values[0]) is None:
            continue
        least, middle, most = (sorted(values)[place] for place in (0, len(values) // 2, -1))
        if (low, high) != (least, most):
            yield f"{name}: from {low!r} to {high!r}, not from {least!r} to {most!r}"
        for value in (least, middle, most):
            for sign, want in (
                ("=", values.count(value)),
                (">=", sum(each >= value for each in values)),
                ("<", sum(each < value for each in values)),
            ):
                got = session.tables.scan("dfs.w.t", f"{quoted} {sign} {_literal(value)}").count()
                if got != want:
                    yield f"{name} {sign} {value!r}: {got} rows, not {want}"


@pytest.mark.corpus
@pytest.mark.slow
def test_conditions_and_aggregates_are_those_of_the_data(tmp_path: Path, foreign_files: list[Path]) -> None:
    """Of the smallest, a middle and the largest value of each column, with bounds of footers and of data."""
    assert len(foreign_files) > 40
    wrong: dict[tuple[str, str], list[str]] = {}
    analyzed = 0
    for bounds in ("footers", "auto"):
        for number, path in enumerate(foreign_files):
            place = tmp_path / f"{bounds}{number}"
            (place / "lake" / "t").mkdir(parents=True)
            shutil.copy(path, place / "lake" / "t" / path.name)
            with connect(settings_of_kinds(place)) as session:
                try:
                    session.analyze("dfs.w.t", bounds=bounds)
                    data = _judged(path)
                    found = [] if data is None else list(_differences(session, data))
                except MetastoreError:
                    continue
            analyzed += 1
            if found:
                wrong[path.name, bounds] = found
    assert wrong == {}
    assert analyzed > len(foreign_files)


@pytest.mark.corpus
def test_decimals_of_hive_11_are_refused_by_name(tmp_path: Path, foreign_files: list[Path]) -> None:
    """Arrow cuts them after six digits: neither ANALYZE nor a scan gives another number."""
    [path] = [each for each in foreign_files if each.name == "orc-file-11-format.orc"][:1]
    (tmp_path / "lake" / "t").mkdir(parents=True)
    shutil.copy(path, tmp_path / "lake" / "t" / "a.orc")
    with connect(settings_of_kinds(tmp_path)) as session, pytest.raises(FormatError, match=r"a\.orc.*Hive 0\.11"):
        session.analyze("dfs.w.t")
