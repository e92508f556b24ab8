"""Options of delimited text: said by ANALYZE, a workspace or a plugin's formats, kept, and used by every reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metastore.config.settings import load_text
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect


@pytest.fixture
def ms(tmp_path: Path) -> Session:
    """Workspaces ``tmp``, and ``spain`` with options of its own, of a plugin with formats as Drill has them."""
    return connect(
        load_text(
            f"""drill.metastore {{ iceberg.location.base_path = "{tmp_path}/metastore"
            storage.dfs {{
              workspaces.tmp.location = "{tmp_path}"
              workspaces.spain {{ location = "{tmp_path}", options {{ delimiter = ";", encoding = "ISO-8859-1" }} }}
              workspaces.bars {{ location = "{tmp_path}", default_format = bars }}
              formats {{
                bars {{ type = "text", extensions = ["bar"], fieldDelimiter = "|", lineDelimiter = "\\n" }}
                titled {{ type = "text", extensions = ["ttl"], delimiter = "|", extractHeader = true }}
              }}
            }} }}""",
            environ={},
        )
    )


def put(folder: Path, name: str, content: str, encoding: str = "utf-8") -> None:
    """Write one file."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode(encoding))


def rows(ms: Session, table: str) -> list[dict[str, Any]]:
    """The rows of a scan, which are those of SQL and of a stream."""
    found: list[dict[str, Any]] = ms.tables.scan(table).to_arrow().to_pylist()
    assert ms.sql(f"SELECT * FROM {table}").to_pylist() == found
    assert ms.tables.scan(table).count() == len(found)
    return found


def test_options_of_a_statement_are_kept(ms: Session, tmp_path: Path) -> None:
    """The next run needs no options, reads new files by them, and other options make everything anew."""
    put(tmp_path, "t/a.csv", "a;b\n1;x\n")
    ms.sql("ANALYZE TABLE dfs.tmp.t (format => 'csv', delimiter => ';', header => true) REFRESH METADATA")
    assert rows(ms, "dfs.tmp.t") == [{"a": 1, "b": "x"}]
    assert ms.analyze("dfs.tmp.t").status == "up to date"
    put(tmp_path, "t/b.csv", "a;b\n2;y\n")
    assert rows(ms, "dfs.tmp.t") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert ms.analyze("dfs.tmp.t").new == 1
    assert rows(ms, "dfs.tmp.t") == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    result = ms.analyze("dfs.tmp.t", options={"delimiter": ","})
    assert result.reason == "the files were read with other options of text"
    assert rows(ms, "dfs.tmp.t") == [{"a;b": "1;x"}, {"a;b": "2;y"}]


def test_columns_of_files_without_a_header_keep_their_places(ms: Session, tmp_path: Path) -> None:
    """Whichever of the declared columns is asked for."""
    put(tmp_path, "t/a.csv", "1,x,2020-01-01\n2,y,\n")
    ms.sql("ANALYZE TABLE dfs.tmp.t (schema => 'id INT, s VARCHAR, d DATE', header => false) REFRESH METADATA")
    scan = ms.tables.scan("dfs.tmp.t", "id = 2", ["s"])
    assert scan.to_arrow().to_pylist() == [{"s": "y"}]
    assert ms.tables.scan("dfs.tmp.t", None, ["d"]).to_arrow()["d"].null_count == 1
    assert ms.tables.aggregate("dfs.tmp.t", ["max(s)"]).to_pylist() == [{"max(s)": "y"}]


def test_a_workspace_has_options(ms: Session, tmp_path: Path) -> None:
    """Those of ANALYZE come first."""
    put(tmp_path, "t/a.csv", "año;b\n1;x\n", "latin-1")
    ms.analyze("dfs.spain.t")
    assert rows(ms, "dfs.spain.t") == [{"año": 1, "b": "x"}]
    ms.analyze("dfs.spain.t", options={"encoding": "latin-1"})
    assert rows(ms, "dfs.spain.t") == [{"año;b": "1;x"}]
    assert ms.analyze("dfs.spain.t").status == "up to date"


def test_formats_of_drill(ms: Session, tmp_path: Path) -> None:
    """A plugin's formats say suffixes and options; without ``extractHeader`` rows are lists of texts, as in Drill."""
    put(tmp_path, "t/a.bar", "1|x\n2|\n")
    put(tmp_path, "u/a.ttl", "a|b\n1|x\n")
    put(tmp_path, "v/a.dat", "1|x\n")
    for table in ("dfs.tmp.t", "dfs.tmp.u", "dfs.bars.v"):
        ms.analyze(table)
    assert rows(ms, "dfs.tmp.t") == [{"columns": ["1", "x"]}, {"columns": ["2", ""]}]
    assert rows(ms, "dfs.tmp.u") == [{"a": 1, "b": "x"}]
    assert rows(ms, "dfs.bars.v") == [{"columns": ["1", "x"]}]
    assert ms.settings.warnings == ()


@pytest.mark.parametrize("suffix", ["psv", "tbl"])
def test_bars_separate_by_suffix(ms: Session, tmp_path: Path, suffix: str) -> None:
    """``.psv`` and ``.tbl`` are texts between bars, with a header line as all texts."""
    put(tmp_path, f"t/a.{suffix}", "a|b\n1|x\n")
    ms.analyze("dfs.tmp.t")
    assert rows(ms, "dfs.tmp.t") == [{"a": 1, "b": "x"}]


def test_options_for_other_formats_are_refused(ms: Session, tmp_path: Path) -> None:
    """And so are options that nobody knows; nothing is changed."""
    put(tmp_path, "t/a.json", "{}\n")
    with pytest.raises(InvalidRequestError, match=r"dfs\.tmp\.t is JSON; options of text are for CSV, TSV, PSV"):
        ms.analyze("dfs.tmp.t", options={"delimiter": ";"})
    with pytest.raises(InvalidRequestError, match="no option 'delimeter' of text"):
        ms.analyze("dfs.tmp.t", options={"delimeter": ";"})
    with pytest.raises(InvalidRequestError, match=r"an option of text \(DELIMITER"):
        ms.sql("ANALYZE TABLE dfs.tmp.t (delimeter => ';') REFRESH METADATA")
