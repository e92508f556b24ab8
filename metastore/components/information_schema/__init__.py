"""INFORMATION_SCHEMA: the metadata of the components, as the tables of the SQL standard with Drill's columns.

``InformationSchema(metastore).tables()`` and similar methods return Arrow. SQL and Spark read the same through
:meth:`InformationSchema.batches` and :meth:`InformationSchema.parts`.
"""

from metastore.components.information_schema.door import InformationSchema, RelationPart

__all__ = ["InformationSchema", "RelationPart"]
