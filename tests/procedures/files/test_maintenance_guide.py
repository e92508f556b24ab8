"""The guide to maintenance does what it says: its blocks are run one after another, in a folder of the test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metastore.procedures.framework.builtin import MODULES, declared_in

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "maintenance.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python, over the configuration that stands there."""
    [conf] = [text for kind, text in BLOCKS if kind == "hocon"]
    (tmp_path / "site.conf").write_text(conf.replace("/srv", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for text in [text for kind, text in BLOCKS if kind == "python"]:
            exec(compile(text.replace("/srv", str(tmp_path)), "maintenance.md", "exec"), names)  # noqa: S102 - ours
    finally:
        names["ms"].close()


FAMILIES = ("expire", "orphans", "imports", "tables", "deletes")


def test_every_procedure_of_these_families_is_in_the_guide() -> None:
    """By its name."""
    modules = [module for module in MODULES if module.split(".")[2] in FAMILIES]
    names = [each.name for each in declared_in(modules)]
    assert len(names) == 18
    assert [name for name in names if f"`{name}`" not in GUIDE] == []
