"""``publications`` says of each published table whether it is as its source, without opening a data file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from procedures.publishing.conftest import NAME, SOURCE, Shop

from metastore.config.catalogs import CatalogSettings
from metastore.errors import NotFoundError, StorageError
from metastore.session import connect

CALL = "published.system.publications"


def listed(shop: Shop, **arguments: Any) -> list[dict[str, Any]]:
    """The rows, without the time."""
    rows = shop.session.call(CALL, **arguments).to_pylist()
    return [{key: value for key, value in row.items() if key not in ("published_at", "message")} for row in rows]


def expected(state: str, files: int | None, changed: int | None) -> list[dict[str, Any]]:
    """The one row."""
    return [{"published_as": NAME, "table": SOURCE, "state": state, "files": files, "changed_segments": changed}]


def test_a_publication_is_current_until_its_source_is_analyzed_anew(shop: Shop) -> None:
    """Segments that came, changed and went are counted; a change of another table is none."""
    for day in (1, 2, 3):
        shop.write(f"day={day}/a.parquet", {"id": [day]})
    shop.publish()
    assert listed(shop) == expected("current", 3, 0)
    (shop.root.parent / "other").mkdir()
    shop.write("../other/a.parquet", {"id": [1]})
    shop.session.analyze("dfs.shop.other")
    assert listed(shop) == expected("current", 3, 0)
    shop.write("day=4/a.parquet", {"id": [4]})
    shop.write("day=2/b.parquet", {"id": [5]})
    (shop.root / "day=1/a.parquet").unlink()
    assert listed(shop) == expected("current", 3, 0)  # nobody has looked at the folder yet
    shop.session.analyze(SOURCE)
    assert listed(shop, catalog="published") == expected("behind", 3, 3)
    shop.publish_stored()
    assert listed(shop) == expected("current", 4, 0)


def test_a_table_that_others_have_written_is_foreign(shop: Shop) -> None:
    """The message names the way back."""
    shop.write("day=1/a.parquet", {"id": [1]})
    shop.publish()
    shop.session.catalogs.table("published", "shop", "sales").load().delete()
    assert listed(shop) == expected("foreign", None, None)
    [row] = shop.session.call(CALL).to_pylist()
    assert "replace => true" in row["message"]


def test_a_source_without_metadata_is_unknown(shop: Shop) -> None:
    """The row says so, and the other tables of the catalog are listed."""
    shop.write("day=1/a.parquet", {"id": [1]})
    shop.publish()
    shop.session.sql(f"ANALYZE TABLE {SOURCE} DROP METADATA")
    assert listed(shop) == expected("unknown", 1, None)


def test_only_headers_of_manifests_are_read(shop: Shop) -> None:
    """The plain files may be gone: nothing opens them."""
    for day in (1, 2, 3):
        shop.write(f"day={day}/a.parquet", {"id": [day]})
    shop.publish()
    for file in shop.root.rglob("*.parquet"):
        file.unlink()
    assert listed(shop) == expected("current", 3, 0)


def test_a_catalog_that_does_not_answer_hides_no_other(shop: Shop, tmp_path: Path) -> None:
    """It has a row with the reason; asked for alone, it is an error."""
    shop.write("day=1/a.parquet", {"id": [1]})
    shop.publish()
    missing = {"type": "sql", "uri": f"sqlite:///{tmp_path}/none.db", "warehouse": f"{tmp_path}/none"}
    settings = shop.session.settings
    broken = {"lost": CatalogSettings("sql", "lost", (), missing)}
    with connect(replace(settings, catalogs={**broken, **settings.catalogs})) as session:
        rows = session.call(CALL).to_pylist()
        assert sorted((row["published_as"], row["state"]) for row in rows) == [("lost", "unknown"), (NAME, "current")]
        with pytest.raises(StorageError, match=r"none\.db"):
            session.call(CALL, catalog="lost")


def test_an_unknown_catalog_is_an_error(shop: Shop) -> None:
    """It is named."""
    with pytest.raises(NotFoundError, match="nowhere"):
        shop.session.call(CALL, catalog="nowhere")
