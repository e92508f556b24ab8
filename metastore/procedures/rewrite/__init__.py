"""rewrite_data_files: merges small files, splits large ones, applies deletes, sorts or repartitions rows.

The flow of a call: ``options`` -> ``candidates`` (files of the pinned snapshot) -> ``groups`` (pure: files to rewrite
together, split into pieces) -> ``task`` on the engine (``reading``, ``ordering``, ``writing``) -> ``commit``.
"""
