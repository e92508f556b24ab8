"""Table properties that this package uses itself: only its own procedures set them."""

from __future__ import annotations

from typing import Final

OWN_PROPERTIES: Final = "metastore."
"""Prefix of table properties reserved for the metastore; aligning properties does not change them."""
