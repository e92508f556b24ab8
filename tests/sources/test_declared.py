"""Declared schemas: what is understood, and what is refused before a file is opened."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.sources.declared import declared_schema


@pytest.mark.parametrize("text", ["", "  ", "id", "id INT,", "id INTERVAL DAY", "id NONSENSE"])
def test_what_declares_no_columns_is_refused(text: str) -> None:
    """With our own error."""
    with pytest.raises(InvalidRequestError):
        declared_schema(text)
