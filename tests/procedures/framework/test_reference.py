"""The page of reference is what the declarations say today."""

from __future__ import annotations

from pathlib import Path

from metastore.procedures.framework.builtin import MODULES, declared_in
from metastore.procedures.framework.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "procedures-reference.md"


def test_the_page_is_that_of_the_declarations() -> None:
    """Renew it by ``python -m metastore.procedures.framework.reference > docs/guide/procedures-reference.md``."""
    assert PAGE.read_text(encoding="utf-8") == page(declared_in(MODULES))
