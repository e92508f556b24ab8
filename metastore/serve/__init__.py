"""A read-only Iceberg REST catalog over the component tables and the configured catalogs: ``metastore serve``.

A request goes through these modules: ``server`` (connections) -> ``application`` (who may ask, and what) ->
``handlers`` (one for each route) -> ``served_catalog`` (what the catalogs say). ``requests``, ``answers`` and
``reports`` are pure.
"""
