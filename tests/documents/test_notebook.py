"""The notebook runs from top to bottom, and results show as tables with every text escaped."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import metastore
from metastore.analyze.result import AnalyzeResult
from metastore.ground import notebook
from metastore.model.identity import TableInfo

NOTEBOOK = Path(metastore.__file__).parents[1] / "docs/start/notebook.ipynb"


class Text(HTMLParser):
    """The texts of a piece of HTML; elements must be closed in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """An element begins."""
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It ends, and is the one that began last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between elements."""
        self.found.append(data)


def shown() -> Iterator[Any]:
    """Run the cells as a notebook does; the values that it shows."""
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "notebook", "exec"), names)  # noqa: S102 - our own document
            if isinstance(last, ast.Expr):
                yield eval(compile(ast.Expression(last.value), "notebook", "eval"), names)  # noqa: S307 - as above


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result of this package has a table of its own."""
    monkeypatch.chdir(tmp_path)
    values = [value for value in shown() if type(value).__module__.startswith("metastore")]
    texts = {type(value).__name__: Text(value._repr_html_()).found for value in values}
    assert list(texts) == ["Session", "AnalyzeResult", "PruneResult", "Scan", "CheckReport"]
    assert f"{tmp_path}/metastore-data/drill/metastore/iceberg" in texts["Session"]
    assert "48,000" in texts["AnalyzeResult"]
    assert {"97.9%", "44 files skipped by month = 6"} < set(texts["PruneResult"])
    assert any("amount > 950" in text for text in texts["Scan"])
    assert texts["CheckReport"][0] == "Everything is in order."


def test_tables_and_versions_are_shown(tmp_path: Path) -> None:
    """The tables with metadata, by name, and the versions of the component, newest first."""
    site = tmp_path / "site.conf"
    site.write_text(f'drill.metastore.iceberg.location.base_path = "{tmp_path}/m"')
    with metastore.connect(site) as ms:
        assert "tables" in Text(ms.tables._repr_html_()).found
        for name, rows in (("b", 1_200), ("a", 3)):
            (tmp_path / name).mkdir()
            pq.write_table(pa.table({"id": range(rows)}), tmp_path / name / "part.parquet")
            ms.analyze(tmp_path / name)
        first, second = (str(ms.table_info(tmp_path / name)) for name in "ab")
        assert Text(ms.tables._repr_html_()).found == ["tables", "table", "rows", first, "3", second, "1,200"]
        versions = ms.tables.metadata.history()
        assert Text(versions._repr_html_()).found[4::3] == [str(each.version) for each in versions]


def test_texts_are_escaped() -> None:
    """Names of tables, columns and conditions come from others."""
    evil = "<script>alert(1)</script>"
    result = AnalyzeResult("analyzed", TableInfo("dfs", "w", evil), 1, 1, without_bounds={evil: evil}, reason=evil)
    pieces = [
        result._repr_html_(),
        notebook.facts(evil, [(evil, evil)]),
        notebook.grid(evil, [evil], [[evil]], [evil]),
        notebook.lines(evil),
    ]
    for piece in pieces:
        assert "<script" not in piece
        assert any("<script>" in text for text in Text(piece).found)
