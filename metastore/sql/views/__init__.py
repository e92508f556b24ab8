"""Views: their SQL is parsed, checked against the metastore, expanded, translated, stored and refreshed."""

from metastore.sql.views.expansion import Lookup, ViewText, expand, tables_of

__all__ = ["Lookup", "ViewText", "expand", "tables_of"]
