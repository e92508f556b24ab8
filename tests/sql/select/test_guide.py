"""The guide's statements run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from metastore.sql.statement import split

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "sql.md"


def test_the_statements_of_the_guide_run(lake: Any) -> None:
    """All of them, each with rows."""
    [script] = re.findall(r"<!-- tested -->\n```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    statements = split(script)
    assert len(statements) == 10
    for statement in statements:
        assert lake.session.sql(statement).num_rows > 0, statement


def test_the_python_of_the_guide_runs(lake: Any, capsys: Any) -> None:
    """INFORMATION_SCHEMA as Arrow, over this session."""
    [program] = re.findall(r"```python\nimport metastore\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    body = re.sub(r"with metastore\.connect\(.*\) as ms:", "if True:", program)
    exec(compile(body, str(GUIDE), "exec"), {"ms": lake.session})  # noqa: S102 - our own guide
    assert "sales" in capsys.readouterr().out
