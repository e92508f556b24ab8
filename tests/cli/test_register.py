"""``metastore register``: the tables of a site go into a catalog, once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli_site import Site

from metastore.session import Session

TABLE = "dfs.shop.sales"
GUIDE = Path(__file__).parents[2] / "docs/guide/catalogs.md"
Run = Callable[..., Any]


def configure_catalog(site: Any, name: str = "metastore") -> Path:
    """From now on the site's configuration names a SQL catalog; the configuration that was in use."""
    old = Path(site.folder, f"before-{name}.conf")
    old.write_text(site.conf.read_text())
    place = f'type = sql, name = {name}, uri = "sqlite:///{site.folder}/catalog.db"'
    site.conf.write_text(f"{old.read_text()}drill.metastore.iceberg.catalog {{ {place} }}\n")
    return old


def test_what_was_analyzed_is_known_in_the_catalog(run: Run, site: Site, analyzed: Session) -> None:
    """Before the registration the command to call is told; after it, all is as it was, and goes on."""
    version, old = analyzed.tables.metadata.version, configure_catalog(site)
    early = run("tables")
    assert early.code == 1
    assert "metastore register" in early.err
    [registered] = run("register", "--json").document["tables"]
    assert (registered["table"], registered["version"]) == ("drill_metastore.tables", version)
    assert [each["table"] for each in run("tables", "--json").document["tables"]] == [TABLE]
    site.write(2, 5)
    assert run("analyze", TABLE).code == 0
    again = run("register")
    assert again.code == 1
    assert "has a table drill_metastore.tables already" in again.err
    refused = run("--conf", str(old), "tables")
    assert refused.code == 1
    assert "handed over" in refused.err


@pytest.mark.usefixtures("analyzed")
def test_the_guide_switches(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its configuration, once the variable in it is set, and its command; earlier that is refused."""
    [catalog] = re.findall(r"^```hocon\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    [command] = re.findall(r"^3\. `metastore (\w+)`", GUIDE.read_text(), re.MULTILINE)
    site.conf.write_text(f"{site.conf.read_text()}{catalog}")
    unset = run(command)
    assert (unset.code, "refers to ${CATALOG_URI}" in unset.err) == (1, True)
    monkeypatch.setenv("CATALOG_URI", f"sqlite:///{site.folder}/catalog.db")
    assert "metastore register" in run("tables").err
    assert run(command).code == 0
    assert [each["table"] for each in run("tables", "--json").document["tables"]] == [TABLE]


@pytest.mark.usefixtures("analyzed")
def test_people_are_told_what_to_do_next(run: Run, site: Site) -> None:
    """The screen names the catalog."""
    configure_catalog(site)
    assert "in namespace drill_metastore of the sql catalog metastore" in run("register").out


@pytest.mark.usefixtures("analyzed")
def test_the_file_system_is_no_place_to_register_in(run: Run) -> None:
    """Without a catalog in the configuration there is nothing to do; nothing is changed."""
    refused = run("register")
    assert refused.code == 1
    assert "configure the catalog" in refused.err
    assert len(run("tables", "--json").document["tables"]) == 1


@pytest.mark.usefixtures("analyzed")
def test_the_old_place_can_be_named(run: Run, site: Site) -> None:
    """From a catalog to another, by the configuration that was in use."""
    configure_catalog(site, "one")
    assert run("register").code == 0
    one = configure_catalog(site, "two")
    assert run("register", "--from", str(one)).code == 0
    assert len(run("tables", "--json").document["tables"]) == 1
    assert "handed over" in run("--conf", str(one), "tables").err
