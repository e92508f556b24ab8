"""What ANALYZE admits of Avro a scan can read: values outside of their types are refused by both, never rounded."""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import FormatError
from metastore.session import connect


def _write(path: Path, type_: Any, value: Any, old: str = "", new: str = "") -> None:
    """A file with one value, whose schema then says ``new`` in place of ``old``, of the same length."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": type_}]
    content = io.BytesIO()
    fastavro.writer(content, {"type": "record", "name": "row", "fields": fields}, [{"id": 1, "v": value}])
    assert len(old) == len(new)
    path.write_bytes(content.getvalue().replace(old.encode(), new.encode()))


def _decimal(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


@pytest.mark.parametrize("is_inside", [True, False])
def test_decimals_beyond_their_digits_are_refused(tmp_path: Path, *, is_inside: bool) -> None:
    """In a column and in a list, which ANALYZE does not measure; the error names file and column."""
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    value: Any = Decimal("123.45")
    type_: Any = {"type": "array", "items": _decimal(9)} if is_inside else _decimal(9)
    _write(table / "a.avro", type_, [value] if is_inside else value, '"precision": 9', '"precision": 4')
    with (
        connect(settings_of_kinds(tmp_path)) as session,
        pytest.raises(FormatError, match=r"a\.avro.*column v.*4, 2"),
    ):
        session.analyze("dfs.w.t")


def test_a_new_file_is_not_rounded_into_a_wider_column(tmp_path: Path) -> None:
    """Fastavro gives 123.4 for 123.45 with four digits, which a column of nine would hold."""
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    value = Decimal("123.45")
    _write(table / "a.avro", _decimal(9), value)
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        assert session.tables.scan("dfs.w.t", "v = 123.45").count() == 1
        _write(table / "b.avro", _decimal(9), value, '"precision": 9', '"precision": 4')
        with pytest.raises(FormatError, match=r"b\.avro.*column v"):
            session.tables.scan("dfs.w.t").to_arrow()


@pytest.mark.parametrize(
    ("physical", "logical", "value"),
    [
        ("int", "date", 2**31 - 1),
        ("int", "date", -(2**31)),
        ("long", "timestamp-micros", 2**63 - 1),
        ("long", "timestamp-millis", 253_402_300_800_000),
        ("long", "local-timestamp-micros", -(2**63)),
        ("long", "time-micros", 86_400_000_000),
    ],
)
def test_times_outside_of_the_years_are_refused(tmp_path: Path, physical: str, logical: str, value: int) -> None:
    """By ANALYZE, with the file's name and the years."""
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    said = f'"logicalType": "{logical}"'
    filler = '"' + "x" * (len(said) - len('"": 1')) + '": 1'
    type_ = {"type": physical, filler[1 : filler.rindex('"')]: 1}
    _write(table / "a.avro", type_, value, filler, said)
    with connect(settings_of_kinds(tmp_path)) as session, pytest.raises(FormatError, match=r"a\.avro.*years 1 to 9999"):
        session.analyze("dfs.w.t")
