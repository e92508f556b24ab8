"""Policies that match nothing are named, with what was probably meant; nothing is said of what is not known."""

from __future__ import annotations

import pytest

from metastore.config import load_text
from metastore.daemon.policy import TableName
from metastore.daemon.unmatched_policies import CatalogContents, enables, find_unmatched

CATALOGS = "drill.metastore.catalogs { lake.type = in-memory, sea.type = in-memory }\n"
SEEN = CatalogContents(
    {"metastore", "lake"},
    {"lake.shop", "lake.shop.eu", "lake.empty", "metastore.components"},
    {TableName("lake", "shop", "orders"), TableName("lake", "shop.eu", "orders")},
)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ('namespaces."lake.shoop"', "there is no namespace lake.shoop; did you mean lake.shop?"),
        ('namespaces."lake.zzz"', "there is no namespace lake.zzz"),
        ('namespaces."lake.empty"', "namespace lake.empty has no tables"),
        ('tables."lake.shop.orderz"', "there is no table lake.shop.orderz; did you mean lake.shop.orders?"),
        ('tables."lake.shop.eu.order"', "there is no table lake.shop.eu.order; did you mean lake.shop.eu.orders?"),
        ('tables."lake.shpo.orders"', "there is no namespace lake.shpo; did you mean lake.shop?"),
        ("catalogs.metastore", "catalog metastore has no tables"),
    ],
)
def test_a_policy_that_matches_nothing_is_named(layer: str, reason: str) -> None:
    """With its key and where it is set."""
    settings = load_text(f"{CATALOGS}drill.metastore.policies.{layer}.expire_snapshots.enabled = true")
    [found] = find_unmatched(settings.policies, SEEN)
    assert found.reason == reason
    assert str(found) == f"the policy {found.key} (given) matches nothing: {reason}"
    assert found.key == f"drill.metastore.policies.{layer}".replace('"', "")


@pytest.mark.parametrize(
    "layer",
    [
        "catalogs.lake",
        'namespaces."lake.shop"',
        'namespaces."lake.shop.eu"',
        'tables."lake.shop.orders"',
        "catalogs.sea",
    ],
)
def test_a_policy_that_matches_is_not_named(layer: str) -> None:
    """Nor one of a catalog that was not looked at."""
    settings = load_text(f"{CATALOGS}drill.metastore.policies.{layer}.expire_snapshots.retain_last = 3")
    assert find_unmatched(settings.policies, SEEN) == []


@pytest.mark.parametrize("unknown", ["lake", "lake.shop", "lake.shop.eu"])
def test_nothing_is_said_of_what_could_not_be_listed(unknown: str) -> None:
    """A catalog, the namespace, or one around or inside it: the tables may be there."""
    text = f'{CATALOGS}drill.metastore.policies.namespaces."lake.shop.eu".expire_snapshots.enabled = true'
    assert find_unmatched(load_text(text).policies, CatalogContents({"lake"}, unknown={unknown})) == []


def test_a_catalog_is_looked_at_where_a_layer_enables_something() -> None:
    """Whichever layer it is."""
    none = load_text(CATALOGS).policies
    assert not enables(none, "lake")
    for layer in ("default", "catalogs.lake", 'namespaces."lake.x"', 'tables."lake.x.y"'):
        settings = load_text(f"{CATALOGS}drill.metastore.policies.{layer}.old_metadata.enabled = true").policies
        assert enables(settings, "lake")
        assert enables(settings, "sea") is (layer == "default")
