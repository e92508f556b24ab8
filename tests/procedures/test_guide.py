"""The guide to procedures does what it says: its blocks are run one after another, in an empty folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from metastore.procedures.builtin import ON_ICEBERG

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "procedures.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python, over the configuration that stands there, with the package that stands there installed."""
    [conf] = [text for kind, _, text in BLOCKS if kind == "hocon"]
    (tmp_path / "site.conf").write_text(conf.replace("/data", str(tmp_path)))
    [module] = [text for kind, title, text in BLOCKS if title == " title=shop_procedures.py"]
    (tmp_path / "shop_procedures.py").write_text(module)
    [points] = [text for kind, _, text in BLOCKS if kind == "toml"]
    [(group, name, place)] = re.findall(r'\[project\.entry-points\."(.+)"\]\n"(.+)" = "(.+)"', points)
    distribution = tmp_path / "shop-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(f"[{group}]\n{name} = {place}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, Any] = {}
    try:
        for text in [text for kind, title, text in BLOCKS if kind == "python" and "title" not in title]:
            exec(compile(text, "procedures.md", "exec"), names)  # noqa: S102 - our own guide
    finally:
        names["ms"].close()
        sys.modules.pop("shop_procedures", None)


def test_every_procedure_of_these_families_is_in_the_guide() -> None:
    """By its name."""
    own = ("metastore.procedures.snapshots", "metastore.procedures.branches", "metastore.procedures.cherrypick")
    for name, place in ON_ICEBERG:
        if place.startswith(own):
            assert f"`{name.removeprefix('system.')}`" in GUIDE, name
