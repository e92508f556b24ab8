"""Views: their SQL read, checked against what the metastore knows, expanded, translated, stored and refreshed."""

from metastore.views.expansion import Lookup, ViewText, expand, tables_of

__all__ = ["Lookup", "ViewText", "expand", "tables_of"]
