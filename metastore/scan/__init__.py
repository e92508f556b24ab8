"""Scans: reading a table's rows through its metadata, and row ids. ``metastore.scan(…)`` is a scan of a folder."""

import sys as _sys
import types as _types
import typing as _typing

if _typing.TYPE_CHECKING:
    from metastore.scan.scan import Scan as _Scan


def scan_near(table: _typing.Any, where: _typing.Any = None, **options: _typing.Any) -> "_Scan":
    """Plan a scan of ``table``, a path or a name, as :meth:`ScannedTables.scan` does, in ``metastore.open(table)``.

    A folder that was never analyzed is analyzed first. Raises the errors of both, and of ANALYZE.
    """
    with _sys.modules["metastore"].open(table) as session:
        planned: _Scan = session.tables.scan(table, where, **options)
        return planned


class _Package(_types.ModuleType):
    """This package, which can be called: its name is also that of the function."""

    __call__ = staticmethod(scan_near)


_sys.modules[__name__].__class__ = _Package
