"""Changes of a table's properties within a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Transaction


def apply_properties(transaction: Transaction, values: Mapping[str, str | None]) -> None:
    """Set properties that differ, and remove those whose value is None."""
    present = transaction.table_metadata.properties
    changed = {key: value for key, value in values.items() if value is not None and present.get(key) != value}
    removed = [key for key, value in values.items() if value is None and key in present]
    if changed:
        transaction.set_properties(changed)
    if removed:
        transaction.remove_properties(*removed)
