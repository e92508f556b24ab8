"""The guide to procedures does what it says: its blocks are run one after another, in an empty folder."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.procedures.framework.builtin import MODULES, declared_in

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
GUIDE = (GUIDES / "procedures.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)([^\n]*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
ARGUMENTS = {each.name: [argument.name for argument in each.arguments] for each in declared_in(MODULES)}


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python and command lines, over the configuration that stands there, with the package from there installed."""
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
        for kind, title, text in BLOCKS:
            if kind == "python" and "title" not in title:
                exec(compile(text, "procedures.md", "exec"), names)  # noqa: S102 - our own guide
            elif not kind:
                ran = CliRunner().invoke(app, shlex.split(text)[2:])
                assert ran.exit_code == 0, ran.output
    finally:
        names["ms"].close()
        sys.modules.pop("shop_procedures", None)


def test_every_procedure_of_these_families_is_in_the_guide() -> None:
    """By its name."""
    names = [each.name for each in declared_in(module for module in MODULES if ".refs." in module)]
    assert len(names) == 13
    assert [name for name in names if f"`{name}`" not in GUIDE] == []


def test_the_tables_have_every_argument() -> None:
    """Those of snapshots, branches and tags, as the procedures declare them; what all have is told above the tables."""
    shared = {"schema", "table_name", "dry_run"}
    rows = re.findall(r"^\| ((?:`\w+`,? ?)+) \| ([^|]*`[^|]+)", GUIDE, re.MULTILINE)
    told = {name: re.findall(r"`(\w+)`", row) for names, row in rows for name in re.findall(r"\w+", names)}
    told = {name: arguments for name, arguments in told.items() if name in ARGUMENTS}
    assert len(told) == 13
    for name, arguments in told.items():
        known = [argument for argument in ARGUMENTS[name] if argument not in shared]
        other = {"drop_branch": "tag", "drop_tag": "branch"}.get(name)  # they share a row, which has the names of both
        assert known == [argument for argument in arguments if argument != other], name


def test_every_argument_is_told() -> None:
    """In the code of a guide, or a page of the reference, that names the procedure."""
    pages = [*GUIDES.glob("*.md"), *GUIDES.parent.glob("reference/*.md")]
    code = ["".join(re.findall(r"```.*?```|`[^`]*`", path.read_text(), re.DOTALL)) for path in pages]
    words = [set(re.findall(r"\w+", text)) for text in code]
    for name, arguments in ARGUMENTS.items():
        assert any({name, *arguments} <= told for told in words), (name, arguments)
