"""The guide to maintenance does what it says: its blocks are run one after another, in a folder of the test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from metastore.procedures.framework.builtin import ON_ICEBERG

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


def test_every_procedure_of_this_family_is_in_the_guide() -> None:
    """By its name."""
    for name, place in ON_ICEBERG:
        if place.startswith("metastore.procedures.files."):
            assert f"`{name.removeprefix('system.')}`" in GUIDE, name
