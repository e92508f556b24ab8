"""The guide and the commented override file list every key, with the defaults that are shipped."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metastore.config import load_text
from metastore.config.loader import defaults

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
OVERRIDE = (ROOT / "conf/drill-metastore-override.conf").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md"))]
EXAMPLE = (ROOT / "conf/drill-metastore-distrib.conf.example").read_text(encoding="utf-8")

COMMENTED = re.findall(r"^#(drill\.\S+) = (.+)$", OVERRIDE, re.MULTILINE)
ROWS = re.findall(r"^\| `(drill\.\S+)` \| (.+?) \| \S.* \| .+ \|$", GUIDE, re.MULTILINE)
ACTIONS = (
    *("expire_snapshots", "remove_orphan_files", "rewrite_manifests", "rewrite_data_files", "old_metadata"),
    *("publish", "analyze", "refresh"),
)
NAMES = {
    r"storage\.dfs\.": "storage.<plugin>.",
    r"workspaces\.(root|tmp)\.": "workspaces.<workspace>.",
    r"components\.(tables|views|materialized_views|runs)\.": "components.<component>.",
}


def leaves(node: Any, above: str = "") -> Iterator[str]:
    """The keys of the shipped defaults; an empty object is a key, for it is a map to fill."""
    if isinstance(node, dict) and node:
        for name, child in node.items():
            yield from leaves(child, f"{above}.{name}" if above else name)
    else:
        yield above


KEYS = set(leaves(defaults().document.root))


def effective(text: str) -> dict[str, object]:
    """Every effective key and value of a configuration."""
    return {setting.key: setting.value for setting in load_text(text).explain()}


def test_the_override_file_lists_every_key() -> None:
    """Each key of reference.conf stands in the override file once, commented out, and no other does."""
    assert sorted(key for key, _ in COMMENTED) == sorted(KEYS)


def test_the_override_file_changes_nothing_as_it_is() -> None:
    """With every key commented out the file is an empty configuration."""
    assert effective(OVERRIDE) == effective("")


def test_the_override_file_shows_the_defaults() -> None:
    """Uncommenting all keys at once sets each of them to the default it had."""
    uncommented = re.sub(r"^#(drill\.)", r"\1", OVERRIDE, flags=re.MULTILINE)
    assert {setting.key: setting.origin.tier for setting in load_text(uncommented).explain()} == dict.fromkeys(
        effective(""), "given"
    )
    assert effective(uncommented) == effective("")


def test_the_guide_lists_every_key() -> None:
    """Each key of reference.conf, its names generalised, is one row of the guide's table, and no other is."""
    general = set()
    for key in KEYS:
        for pattern, name in NAMES.items():
            key = re.sub(pattern, name, key)  # noqa: PLW2901
        general.add(key)
    listed = [key.replace("<action>", name) for key, _ in ROWS for name in (ACTIONS if "<action>" in key else ("",))]
    assert sorted(listed) == sorted(general)


@pytest.mark.parametrize(("key", "default"), [(key, default) for key, default in ROWS if "<action>" in key])
def test_the_guide_shows_the_defaults_of_every_action(key: str, default: str) -> None:
    """One value for most actions, then `value` for `action`, `action` of the others."""
    usual, *others = default.split("; ")
    values = dict.fromkeys(ACTIONS, usual.strip("`"))
    for other in others:
        value, _, names = other.partition(" for ")
        values |= dict.fromkeys((name.strip("`") for name in names.split(", ")), value.strip("`"))
    assert tuple(values) == ACTIONS
    for action, value in values.items():
        assert effective(f"{key.replace('<action>', action)} = {value}") == effective("")


@pytest.mark.parametrize(("key", "default"), [(key, default) for key, default in ROWS if "<" not in key])
def test_the_guide_shows_the_defaults(key: str, default: str) -> None:
    """Setting a key to the default that the guide shows changes nothing."""
    assert re.fullmatch(r"`[^`]+`", default)
    assert effective(f"{key} = {default[1:-1]}") == effective("")


def test_what_the_documents_show_loads_without_a_warning() -> None:
    """Every block of HOCON, in README and in all guides, with the environment variables that it asks for."""
    shown = [block for path in DOCUMENTS for block in re.findall(r"```hocon\n(.*?)```", path.read_text(), re.DOTALL)]
    assert len(shown) > 10
    for block in shown:
        environ = dict.fromkeys(re.findall(r"\$\{\??([A-Z_]+)\}", block), "c2VjcmV0")
        assert load_text(block, environ=environ).warnings == (), block


def test_the_example_deployment_loads_without_a_warning() -> None:
    """The example is a valid configuration that uses known keys only, and hides the secret it refers to."""
    settings = load_text(EXAMPLE, environ={"AWS_SECRET_ACCESS_KEY": "open sesame"})
    assert not settings.warnings
    assert settings.iceberg.base_location == "s3://acme-warehouse/drill/warehouse/metastore/iceberg"
    assert settings.iceberg.config_properties["fs.s3a.secret.key"] == "open sesame"
    assert "fs.s3a.access.key" not in settings.iceberg.config_properties
    assert settings.engine.spark["spark.executor.memory"] == "4g"
    assert "open sesame" not in repr((settings, settings.explain()))
