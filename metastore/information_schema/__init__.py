"""INFORMATION_SCHEMA: what the components know, in the standard's tables with Drill's columns.

``InformationSchema(metastore).tables()`` and its sisters give Arrow; SQL and Spark read the same through
:meth:`InformationSchema.batches` and :meth:`InformationSchema.parts`.
"""

from metastore.information_schema.door import InformationSchema, Part

__all__ = ["InformationSchema", "Part"]
