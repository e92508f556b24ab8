"""The guide's statements run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from support.sales_lake import Lake
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.sql.statement import split

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "sql.md"


def test_the_statements_of_the_guide_run(lake: Lake) -> None:
    """All of them, each with rows."""
    [script] = re.findall(r"<!-- tested -->\n```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    statements = split(script)
    assert len(statements) == 12
    for statement in statements:
        assert lake.session.sql(statement).num_rows > 0, statement


def test_the_python_of_the_guide_runs(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """INFORMATION_SCHEMA as Arrow, over this session."""
    [program] = re.findall(r"```python\nimport metastore\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    body = re.sub(r"with metastore\.connect\(.*\) as ms:", "if True:", program)
    exec(compile(body, str(GUIDE), "exec"), {"ms": lake.session})  # noqa: S102 - our own guide
    assert "sales" in capsys.readouterr().out


def test_the_command_lines_of_the_guide_run(lake: Lake, tmp_path: Path) -> None:
    """A question, and a report from standard input; the prompt needs a terminal."""
    conf = tmp_path / "site.conf"
    conf.write_text(
        f'drill.metastore.iceberg.location {{ base_path = "{lake.folder}", relative_path = "metastore" }}\n'
        f'drill.metastore.storage.dfs.workspaces.shop.location = "{lake.folder}/data"\n'
    )
    [shell] = re.findall(r"```\n(\$ metastore.*?)```", GUIDE.read_text(), re.DOTALL)
    question, report, prompt = (shlex.split(line, comments=True)[2:] for line in shell.splitlines())
    assert re.search(r"sales +18", CliRunner().invoke(app, [*question, "--conf", str(conf)]).stdout)
    script = "SELECT count(*) AS n FROM dfs.shop.sales; SELECT 2 AS two;"
    given = [*report[: report.index("<")], "--conf", str(conf)]
    assert CliRunner().invoke(app, given, input=script).stdout == "n\n18\n\ntwo\n2\n"
    assert prompt == ["sql"]
