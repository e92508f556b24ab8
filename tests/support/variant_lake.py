"""A table of format version 3 with variants, geometries and a column of unknown type, in a catalog of SQLite."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa

from metastore.config.settings import Settings
from metastore.session import Session, connect


def readable_rows() -> pa.Table:
    """What the readable columns of the table hold."""
    return pa.table(
        {
            "id": pa.array(range(10), pa.int64()),
            "place": pa.array([None if n % 3 == 0 else bytes([1, n]) for n in range(10)], pa.binary()),
            "globe": pa.array([bytes([2, n]) for n in range(10)], pa.binary()),
            "nothing": pa.nulls(10),
        }
    )


def table_with_variants(
    folder: Path, unknown: str | None = None, *, nested: bool = False, others: bool = True
) -> Session:
    """A session over ``lake.db.t`` with two files, as a writer of version 3 leaves it; also named ``p.db.t``.

    ``unknown`` is one more column of unknown type, for which the files store numbers. ``nested`` adds a list and a map
    of variants, ``lv`` and ``mv``; without ``others`` there are neither geometries nor that column.
    """
    rows = readable_rows()
    settings = {
        "drill.metastore.iceberg.location.base_path": str(folder / "m"),
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{folder}/c.db",
            "warehouse": f"file://{folder}/wh",
        },
        "drill.metastore.storage.p": {"type": "iceberg", "catalog": "lake"},
    }
    session = connect(Settings.from_mapping(settings, environ={}))
    opened = session.catalogs.open("lake")
    opened.create_namespace("db")
    held = rows.drop_columns(["nothing", *([] if others else ["place", "globe"])]).append_column("v", _stored(10))
    held = held.append_column("s", pa.StructArray.from_arrays([held["id"].combine_chunks(), _stored(10)], ["a", "v"]))
    if nested:
        offsets = pa.array(range(11), pa.int32())
        words = pa.array(["a"] * 10)
        maps: Any = pa.MapArray
        held = held.append_column("lv", pa.ListArray.from_arrays(offsets, _stored(10)))
        held = held.append_column("mv", maps.from_arrays(offsets, words, _stored(10)))
    if unknown is not None:
        held = held.add_column(1, unknown, held["id"])
    table = opened.create_table("db.t", held.schema)
    for start in (0, 5):
        table.append(held.slice(start, 5))
    types = {"place": "geometry(srid:3857)", "globe": "geography(OGC:CRS84, karney)", "v": "variant"}
    types |= {} if unknown is None else {unknown: "unknown"}
    _with_types(folder, table.refresh().metadata_location, types, unknown=others)
    return session


def _with_types(folder: Path, location: str, types: dict[str, str], *, unknown: bool) -> None:
    """Let the table be of version 3 with these ``types``, a variant in ``s``, and a column of unknown type."""
    path = Path(location.removeprefix("file://"))
    content = json.loads(path.read_text())
    content |= {"format-version": 3, "next-row-id": 10, "last-column-id": 1000}
    for snapshot in content["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 5}
    fields = content["schemas"][-1]["fields"]
    for field in fields:
        field["type"] = types.get(field["name"], field["type"])
        if field["name"] == "s":
            field["type"]["fields"][1]["type"] = "variant"
        if field["name"] in ("lv", "mv"):
            field["type"]["element" if field["name"] == "lv" else "value"] = "variant"
    if unknown:
        fields.append({"id": 1000, "name": "nothing", "required": False, "type": "unknown"})
    new = path.with_name(f"00009-{'0' * 8}-0000-0000-0000-{'0' * 12}.metadata.json")
    new.write_text(json.dumps(content))
    with sqlite3.connect(folder / "c.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{new}",))


def _stored(length: int) -> pa.Array[Any]:
    """What Parquet holds of variants: numbers, beside an empty dictionary of names."""
    names = pa.array([b"\x01\x00\x00"] * length, pa.binary())
    numbers = pa.array([bytes([0x0C, number]) for number in range(length)], pa.binary())
    return pa.StructArray.from_arrays([names, numbers], ["metadata", "value"])
