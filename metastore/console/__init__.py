"""The console: read-only pages about what the metastore knows, made on the server.

A request goes through these modules: ``pages`` (path -> facts -> markup, for any HTTP server) -> ``table_list``,
``one_table``, ``decisions``, ``versions``, ``iceberg``, ``upkeep`` (one for each page: a session and a query -> facts
as frozen dataclasses) -> ``templates/`` (layout only) with ``charts`` (numbers -> SVG). Nothing here writes.
"""
