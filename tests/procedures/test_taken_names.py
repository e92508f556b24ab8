"""Procedures that write files, where the name of a new file is taken: refused, and the live file stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support.procedures_site import Site
from support.taken_names import SOMEBODYS, TakenNames

from metastore.errors import MetastoreError

Call = Callable[[Any], object]

WRITERS: dict[str, tuple[str, int, Call]] = {
    "rewrite_data_files: data": (
        ".parquet",
        0,
        lambda site: site.call("rewrite_data_files", options={"rewrite-all": "true"}),
    ),
    "rewrite_data_files: manifest": (
        ".avro",
        0,
        lambda site: site.call("rewrite_data_files", options={"rewrite-all": "true"}),
    ),
    "rewrite_data_files: second manifest": (
        ".avro",
        1,
        lambda site: site.call("rewrite_data_files", options={"rewrite-all": "true"}),
    ),
    "rewrite_data_files: list": (
        ".avro",
        2,
        lambda site: site.call("rewrite_data_files", options={"rewrite-all": "true"}),
    ),
    "rewrite_manifests: manifest": (".avro", 0, lambda site: site.call("rewrite_manifests")),
    "rewrite_manifests: list": (".avro", 1, lambda site: site.call("rewrite_manifests")),
    "compute_table_stats": (".stats", 0, lambda site: site.call("compute_table_stats")),
    "expire_snapshots: list of files": (
        ".quarantine.parquet",
        0,
        lambda site: site.call("expire_snapshots", older_than=datetime.now(timezone.utc), retain_last=1),
    ),
    "rewrite_table_path": (
        ".avro",
        0,
        lambda site: site.call(
            "rewrite_table_path", source_prefix=site.table.metadata.location, target_prefix="/elsewhere"
        ),
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_taken_name(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writer: str) -> None:
    """Whoever writes: a typed error, the live file untouched, the rows as before, no new file left but staged ones."""
    suffix, after, call = WRITERS[writer]
    site.append(1, 2)
    site.append(3)
    before, location = site.ids(), site.table.metadata_location
    standing = {path for path in tmp_path.rglob("*") if path.is_file()}
    taken = TakenNames(monkeypatch)
    taken.take(suffix, after)
    with pytest.raises(MetastoreError):
        call(site)
    taken.require_alive()
    assert (site.ids(), site.table.metadata_location) == (before, location)
    left = {path for path in tmp_path.rglob("*") if path.is_file()} - standing - set(taken.planted)
    assert [
        path for path in left if path.suffix in (".parquet", ".avro", ".stats") and "staging" not in str(path)
    ] == []
    assert SOMEBODYS in {path.read_bytes() for path in taken.planted}


def test_a_staging_place_is_never_written_over(site: Site, tmp_path: Path) -> None:
    """What stands there with other content is refused by name; a repeated call finds its own files and is right."""
    site.append(1)
    where = {
        "source_prefix": site.table.metadata.location,
        "target_prefix": "/elsewhere",
        "staging_location": f"{tmp_path}/staged",
    }
    [first] = site.call("rewrite_table_path", **where)
    assert site.call("rewrite_table_path", **where) == [first]
    listing = tmp_path / "staged/file-list"
    listing.write_text("somebody's")
    with pytest.raises(MetastoreError, match="exists already, with other content, and is not overwritten"):
        site.call("rewrite_table_path", **where)
    assert listing.read_text() == "somebody's"
