"""rewrite_data_files: small files into few, large ones into several, deletes applied, rows sorted or repartitioned.

The way of a call: ``options`` -> ``candidates`` (which files of the pinned snapshot) -> ``groups`` (pure: which of them
together, cut into pieces of work) -> ``task`` on the engine (``reading``, ``ordering``, ``writing``) -> ``commit``.
"""
