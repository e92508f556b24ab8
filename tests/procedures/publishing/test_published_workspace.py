"""A workspace that publishes: each ANALYZE renews the Iceberg table of its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from procedures.publishing.conftest import Shop

from metastore.config import Settings
from metastore.errors import ConfigError, InvalidRequestError
from metastore.session import connect


def publishing(shop: Shop, name: str = "published.shop") -> Shop:
    """The same shop under a session whose workspace publishes."""
    settings = shop.session.settings
    plugin = settings.storage["dfs"]
    workspace = replace(plugin.workspaces["shop"], publish=name)
    storage = {**settings.storage, "dfs": replace(plugin, workspaces={**plugin.workspaces, "shop": workspace})}
    return Shop(connect(replace(settings, storage=storage)), shop.root)


def test_each_analyze_publishes(shop: Shop) -> None:
    """By every door, and unchanged files make no snapshot."""
    with publishing(shop).session as session:
        served = Shop(session, shop.root)
        served.write("a.parquet", {"id": [1, 2]})
        session.analyze("dfs.shop.sales")
        assert served.rows() == served.plain()
        served.write("b.parquet", {"id": [3]})
        session.sql("ANALYZE TABLE dfs.shop.sales REFRESH METADATA")
        assert served.rows() == served.plain()
        before = served.table.current_snapshot()
        list(session.analyze_all())
        assert served.table.current_snapshot() == before
        served.write("c.parquet", {"id": [4]})
        assert [outcome.error for outcome in session.analyze_all()] == [None]
        assert served.rows() == served.plain()


def test_what_cannot_be_published_is_analyzed(shop: Shop) -> None:
    """The error is that of the publication; the metadata is there. A name that needs quotes gets underscores."""
    with publishing(shop).session as session:
        for name in ("text", "two-words"):
            (shop.root.parent / name).mkdir(parents=True)
        (shop.root.parent / "text/a.csv").write_text("a,b\n1,2\n")
        with pytest.raises(InvalidRequestError, match="CSV"):
            session.analyze("dfs.shop.text")
        assert session.prune("dfs.shop.text", "a = 1").files_count.total == 1
        Shop(session, shop.root.parent / "two-words").write("a.parquet", {"id": [1]})
        session.analyze("dfs.shop.two-words")
        assert session.sql("SELECT id FROM published.shop.two_words").to_pylist() == [{"id": 1}]


def test_a_setting_that_names_no_schema(tmp_path: Path) -> None:
    """Refused with the key."""
    key = "drill.metastore.storage.dfs.workspaces.shop"
    given = {key: {"location": str(tmp_path), "publish": "published"}}
    with pytest.raises(ConfigError, match=r"publish.*a catalog and a schema are expected"):
        Settings.from_mapping(given, environ={})
