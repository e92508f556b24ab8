"""Properties that this package keeps in tables: only its own procedures set them."""

from __future__ import annotations

from typing import Final

OWN_PROPERTIES: Final = "metastore."
"""Prefix of table properties that the metastore keeps for itself, and that alignment leaves alone."""
