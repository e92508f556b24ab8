"""``metastore publish`` and ``unpublish``, over the site with a catalog."""

from __future__ import annotations

import pytest
from cli.conftest import TABLE, Run
from support.cli_site import Site

from metastore.session import Session

NAME = "lake.shop.sales"


@pytest.fixture
def with_catalog(site: Site) -> Site:
    """The site, with the catalog ``lake``."""
    catalog = f'{{ type = sql, uri = "sqlite:///{site.folder}/lake.db", warehouse = "{site.folder}/lake" }}'
    site.conf.write_text(f"{site.conf.read_text()}drill.metastore.catalogs.lake = {catalog}\n")
    return site


def test_a_table_is_published_and_unpublished(with_catalog: Site, run: Run, analyzed: Session) -> None:
    """Each prints what it did; a dry run does nothing, and the files stay."""
    assert with_catalog.folder == with_catalog.conf.parent
    assert str(analyzed.table_info(TABLE)) == TABLE

    def outcome(*arguments: str) -> str:
        return str(run(*arguments, "--json").document["rows"][0]["outcome"])

    assert outcome("publish", TABLE, NAME, "--dry-run") == "can be published"
    assert outcome("publish", TABLE, NAME) == "created"
    assert outcome("publish", TABLE, NAME) == "unchanged"
    assert outcome("publish", TABLE, NAME, "--replace") == "changed"
    assert "lake.shop.sales" in run("publish", TABLE, NAME).out
    assert run("unpublish", NAME, "--dry-run").code == 0
    assert run("unpublish", NAME).code == 0
    assert run("unpublish", NAME).code == 1
    assert len(list(with_catalog.data.rglob("*.parquet"))) == 6


def test_a_refusal_is_one_line(with_catalog: Site, run: Run, analyzed: Session) -> None:
    """It ends the command with a failure, and names the way out."""
    assert with_catalog.conf.exists()
    assert str(analyzed.table_info(TABLE)) == TABLE
    ran = run("publish", TABLE, "metastore.components.tables")
    assert (ran.code, "drill.metastore.catalogs" in ran.err) == (1, True)
