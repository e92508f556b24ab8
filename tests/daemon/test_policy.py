"""Policies in layers: the nearer one wins, value by value, and every value knows where it came from."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from metastore.config import Settings, load, load_text
from metastore.config.policies import FIELDS
from metastore.config.policy_effects import applies, why_without_effect
from metastore.daemon.policy import WORKSPACE_ACTIONS, Action, ActionPolicy, Budget, TableName, effective, policies
from metastore.errors import ConfigError, InvalidRequestError

LAKE = "drill.metastore.catalogs.lake.type = in-memory\n"
LAYERS = """
drill.metastore.policies {
  default.expire_snapshots { enabled = true, retain_last = 2 }
  catalogs.lake.expire_snapshots { older_than = "1 day", retain_last = 3, budget.files = 7 }
  namespaces."lake.shop".expire_snapshots { retain_last = 4, schedule = "0 3 * * *" }
  namespaces."lake.shop.old".expire_snapshots.retain_last = 5
  tables."lake.shop.orders".expire_snapshots { enabled = false, budget.files = null }
}
"""


def policy(settings: Settings, table: str, action: Action = Action.EXPIRE_SNAPSHOTS) -> ActionPolicy:
    """The policy of one action."""
    [found] = [p for p in policies(settings.policies, TableName.parse(table)) if p.action is action]
    return found


def test_without_any_policy_nothing_is_done() -> None:
    """The daemon deletes and rewrites only where somebody said so."""
    found = policies(load_text("").policies, TableName.parse("metastore.components.tables"))
    assert [each.action for each in found] == list(Action)
    assert not any(each.enabled for each in found)


@pytest.mark.parametrize(
    ("table", "retain_last", "files", "enabled"),
    [
        ("metastore.components.tables", 2, None, True),
        ("lake.hr.staff", 3, 7, True),
        ("lake.shop.items", 4, 7, True),
        ("lake.shop.old.items", 5, 7, True),
        ("lake.shop.orders", 4, None, False),
    ],
)
def test_the_nearer_layer_wins(table: str, retain_last: int, files: int | None, enabled: bool) -> None:
    """Value by value: what a layer does not set comes from the one outside it; null is a value, too."""
    found = policy(load_text(LAKE + LAYERS), table)
    assert (found.options["retain_last"], found.budget, found.enabled) == (retain_last, Budget(files), enabled)


def test_every_value_names_its_key_and_file(tmp_path: Path) -> None:
    """As people look for it: the key as it stands, and the line of the file."""
    file = tmp_path / "site.conf"
    file.write_text(LAKE + LAYERS)
    found = effective(load(file).policies, TableName.parse("lake.shop.items"))
    assert set(found) == {f"{action}.{name}" for action, fields in FIELDS.items() for name in fields}
    older, quiet = found["expire_snapshots.older_than"], found["expire_snapshots.quiet"]
    assert older.value == timedelta(days=1)
    assert older.key == "drill.metastore.policies.catalogs.lake.expire_snapshots.older_than"
    assert older.origin == f"override: {file}:5"
    assert (quiet.value, quiet.origin) == (timedelta(), "default")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("catalogs.lakes.expire_snapshots.enabled = true", "no catalog or storage plugin lakes is configured"),
        ('tables."lake.shop".expire_snapshots.enabled = true', "catalog.namespace.table"),
        ("namespaces.lake.expire_snapshots.enabled = true", "catalog.namespace"),
        ("catalogs.lake.expire_snapshots.retain_last = 0", "at least 1"),
        ("catalogs.lake.expire_snapshots.schedule = sometimes", "interval or a cron expression"),
        ("catalogs.lake.expire_snapshots.schedule = 0 days", "above zero"),
        ("catalogs.lake.expire_snapshots.older_than = -1 day", "not below zero"),
        ("default.expire_snapshots.enabled = null", "missing or null"),
    ],
)
def test_what_is_wrong_is_refused_by_its_key(text: str, reason: str) -> None:
    """When the configuration is loaded, not when the daemon comes to the table."""
    with pytest.raises(ConfigError, match=reason) as caught:
        load_text(f"{LAKE}drill.metastore.policies.{text}")
    assert "drill.metastore.policies." in str(caught.value)


@pytest.mark.parametrize("key", ["", ".default", ".default.old_metadata", ".default.old_metadata.budget"])
def test_what_is_taken_away_is_off(key: str) -> None:
    """The rest is what is shipped, so that a nearer layer can enable the action by one word."""
    assert load_text(f"drill.metastore.policies{key} = null").policies.default == load_text("").policies.default
    settings = load_text(
        "drill.metastore.policies.default.old_metadata.enabled = true\n"
        f"drill.metastore.policies{key} = null\n"
        f"{LAKE}drill.metastore.policies.catalogs.lake.old_metadata.enabled = true"
    )
    assert settings.warnings == ()
    shipped = load_text("").policies.default
    taken = {name: given.value for name, given in settings.policies.default.items()}
    assert taken == {name: given.value for name, given in shipped.items()} | {
        "old_metadata.enabled": key.endswith("budget")
    }
    enabled = [each for each in policies(settings.policies, TableName("lake", "shop", "t")) if each.enabled]
    assert [(each.action, each.schedule) for each in enabled] == [("old_metadata", "1 day")]


def test_a_slip_in_a_layer_is_warned_about() -> None:
    """A field that no action has would else be without effect, silently."""
    [warning] = load_text(f"{LAKE}drill.metastore.policies.catalogs.lake.expire_snapshots.enable = true").warnings
    assert "unknown key drill.metastore.policies.catalogs.lake.expire_snapshots.enable" in warning


def test_a_table_has_three_parts() -> None:
    """Of which the one in the middle may have dots."""
    assert TableName.parse("lake.a.b.t") == TableName("lake", "a.b", "t")
    with pytest.raises(InvalidRequestError, match=r"catalog\.schema\.name"):
        TableName.parse("orders")


NO_EFFECT = {
    "default.rewrite_manifests.budget.files = 3": "on any table: a run of rewrite_manifests is one commit",
    "catalogs.lake.rewrite_manifests.budget.bytes = 1 GB": "on any table: a run of rewrite_manifests is one commit",
    "catalogs.metastore.expire_snapshots.budget.files = 3": "catalog metastore: the metastore's own",
    'namespaces."metastore.components".expire_snapshots.budget.bytes = 1 GB': "catalog metastore: the metastore's own",
    'tables."metastore.components.runs".expire_snapshots.owned = ["/srv/runs"]': "catalog metastore: the configuration",
    "catalogs.metastore.rewrite_data_files.enabled = true": "own tables need no rewrite_data_files; they",
    "catalogs.metastore.old_metadata.keep = 3": "the metastore's own tables need no old_metadata; they have",
}


@pytest.mark.parametrize(("text", "told"), NO_EFFECT.items())
def test_a_value_without_effect_is_warned_about_by_name(text: str, told: str) -> None:
    """When the configuration is loaded: whoever wrote it believes in a bound that there is not."""
    [warning] = load_text(f"{LAKE}drill.metastore.policies.{text}").warnings
    key = text.partition(" =")[0].replace('"', "")
    assert warning.startswith(f"drill.metastore.policies.{key} (given) has no effect ")
    assert told in warning


def test_values_with_an_effect_are_not_warned_about() -> None:
    """Every field of every action on other tables, those that the metastore's own have, and what switches off."""
    values = {"enabled": "true", "schedule": "1 hour", "budget.files": "3", "budget.bytes": "1", "budget.seconds": "9"}
    lines = ["default.expire_snapshots.budget.files = 3", "default.rewrite_manifests.budget.seconds = 9"]
    lines += [
        "catalogs.metastore.rewrite_data_files.enabled = false",
        "catalogs.metastore.expire_snapshots.owned = null",
    ]
    lines += [f"catalogs.metastore.remove_orphan_files.{name} = {value}" for name, value in values.items()]
    for action in (each for each in FIELDS if each not in ("rewrite_manifests", "publish", "analyze", "refresh")):
        lines += [f"catalogs.lake.{action}.{name} = {value}" for name, value in values.items()]
    text = LAKE + "".join(f"drill.metastore.policies.{line}\n" for line in lines)
    assert load_text(text).warnings == ()


def test_what_is_told_to_have_no_effect_on_own_tables_are_the_actions_that_are_never_done() -> None:
    """One list serves the daemon and the warnings."""
    for catalog in ("metastore", "lake", "dfs"):
        for action in Action:
            without = why_without_effect(f"{action}.enabled", catalog, {"dfs"})
            assert applies(action, catalog, {"dfs"}) == (without is None)
    assert {action for action in Action if applies(action, "dfs", {"dfs"})} == WORKSPACE_ACTIONS
