"""The metastore on Spark: the only package that imports PySpark.

``connect`` opens a metastore whose work runs on Spark. ``SparkEngine`` runs tasks on executors; ``spark_session``
adopts the running session or starts one. ``read_files`` reads the files that pruning has left, ``read_table`` a whole
table by its name, ``select`` a query over tables and views. ``merge`` merges a DataFrame into a table.
``register_views`` creates temporary views for the metastore's views.

Each name is loaded on first use. Spark plans and reads a data source in separate Python processes, which need only a
small part of the package.
"""

import sys as _sys
import typing as _typing
from importlib.util import find_spec as _find_spec

from metastore.errors import EngineError as _EngineError
from metastore.ground.distribution import install_command as _install_command
from metastore.ground.loaded_on_use import loaded_on_use as _loaded_on_use
from metastore.spark.supported_versions import require_supported as _require_supported

# PySpark runs without pandas, but refuses the Arrow functions that this package requires. The Python process that Spark
# starts for a data source also runs this check, possibly with another interpreter.
_missing = [_name for _name in ("pyspark", "pandas", "pyarrow") if _find_spec(_name) is None]
if _missing:
    raise _EngineError(
        f"Spark for Python is not installed, or without its Arrow part: {_sys.executable} lacks {', '.join(_missing)}. "
        f"Run {_install_command('spark')} there, or set PYSPARK_PYTHON to a Python that has it"
    )

import pyspark as _pyspark  # noqa: E402 - an error of ours says that it is missing

_require_supported(_pyspark.__version__)

if _typing.TYPE_CHECKING:
    from metastore.spark.connection import connect as connect
    from metastore.spark.engine import SparkEngine as SparkEngine
    from metastore.spark.merging import merge as merge
    from metastore.spark.pruned_table import read_table as read_table
    from metastore.spark.query import select as select
    from metastore.spark.query_engine import SparkQueryEngine as SparkQueryEngine
    from metastore.spark.reading import read_files as read_files
    from metastore.spark.registration import register as register
    from metastore.spark.registration import register_source as register_source
    from metastore.spark.session import spark_session as spark_session
    from metastore.spark.views import register_views as register_views

__getattr__, __dir__ = _loaded_on_use(
    __name__,
    {
        "SparkEngine": "engine",
        "SparkQueryEngine": "query_engine",
        "connect": "connection",
        "merge": "merging",
        "read_files": "reading",
        "read_table": "pruned_table",
        "register": "registration",
        "register_source": "registration",
        "register_views": "views",
        "select": "query",
        "spark_session": "session",
    },
)

__all__ = [
    "SparkEngine",
    "SparkQueryEngine",
    "connect",
    "merge",
    "read_files",
    "read_table",
    "register",
    "register_source",
    "register_views",
    "select",
    "spark_session",
]
