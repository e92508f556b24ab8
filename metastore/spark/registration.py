"""The metastore in a Spark session: its data source, and temporary views of its tables.

Place in the flow: views of tables of data are :func:`metastore.spark.pruned_table.read_table` by name, so Spark's own
reader reads them where it can. Views of the metastore's own tables are reads of its data source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from pyspark.sql import SparkSession

from metastore.analyze.worklist import analyzed_tables, matching
from metastore.components.information_schema.relations import NAME, RELATIONS
from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.spark.engine import SparkEngine
from metastore.spark.pruned_table import read_table
from metastore.spark.session import adopt, quiet_about_pandas
from metastore.spark.session_keys import OF_HADOOP, session_conf
from metastore.spark.supported_versions import require_data_sources

_COMPONENTS: Final = "components"


def register_source(spark: SparkSession) -> None:
    """Make ``spark.read.format("metastore")`` known to this session, whether the package is installed or not.

    Executors without the package receive it. This call is needed only where Spark does not find the source by itself.
    Spark finds it if the package is installed on the driver's host, for the Python that Spark runs. Only a source that
    was made known by this call has the keys of object stores in the session's configuration. Raises EngineError before
    Spark 4.1.
    """
    require_data_sources(spark.version)
    from metastore.spark.data_source import MetastoreSource  # noqa: PLC0415 - an old PySpark lacks its modules

    SparkEngine(adopt(spark)).prepare()
    keys = {key: value for key, value in session_conf(spark).items() if key.startswith(OF_HADOOP)}
    speculates = spark.conf.get("spark.speculation", "false") == "true"
    known = {"keys_of_session": keys, "speculates": speculates}
    spark.dataSource.register(type(MetastoreSource.__name__, (MetastoreSource,), known))


def register(spark: SparkSession, ms: Session, *patterns: str, prefix: str = "") -> list[str]:
    """Create temporary views in ``spark``; returns their names, sorted. Each name begins with ``prefix``.

    ``patterns`` choose tables by name, such as ``dfs.shop.*`` or ``lake.shop.sales``: analyzed tables, and tables of
    catalogs. A view has the last part of the table's name, with underscores in place of all characters but letters,
    digits and underscores. Without patterns the views are of the metastore's own tables:
    ``information_schema_tables``, ``components_tables`` and so on.

    The views show the newest state at this moment, because Spark's views keep the read that they were made of. Call
    this again to see later changes. Raises InvalidRequestError for a prefix that cannot begin the name of a view, a
    pattern that matches no table, and two tables that would have the same name; and as ``read_table`` does.
    """
    if prefix and not prefix.isidentifier():
        raise InvalidRequestError(f"views cannot be called {prefix!r}…: letters, digits and _ are expected")
    if patterns:
        return _register_tables(spark, ms, patterns, prefix)
    register_source(spark)
    from metastore.spark.source_options import FORMAT, SETTINGS, settings_option  # noqa: PLC0415 - as above

    tables = {f"{NAME}_{name.lower()}": f"{NAME}.{name}" for name in RELATIONS}
    tables |= {f"{_COMPONENTS}_{name}": f"metastore.{_COMPONENTS}.{name}" for name in ms.metastore.components}
    settings = settings_option(ms.settings)
    for view, table in tables.items():
        with quiet_about_pandas():
            frame = spark.read.format(FORMAT).option(SETTINGS, settings).load(table)
            frame.createOrReplaceTempView(prefix + view)
    return sorted(prefix + view for view in tables)


def _register_tables(spark: SparkSession, ms: Session, patterns: Sequence[str], prefix: str) -> list[str]:
    """Names of the views made, by order. InvalidRequestError if a pattern fits nothing, or two tables one name."""
    views: dict[str, str | TableInfo] = {}
    known: list[TableInfo] | None = None
    for pattern in patterns:
        found: list[str | TableInfo] = list(_tables_of_catalogs(ms, pattern))
        if not found:
            known = analyzed_tables(ms.metastore.tables) if known is None else known
            found += matching(known, [pattern])
        if not found:
            raise InvalidRequestError(f"no analyzed table fits {pattern!r}: a name like 'dfs.shop.*' is expected")
        for table in found:
            last = table.name if isinstance(table, TableInfo) else table.rpartition(".")[2]
            view = prefix + re.sub(r"\W", "_", last).lower()
            if (other := views.setdefault(view, table)) != table:
                raise InvalidRequestError(f"{table} and {other} would both be called {view}; use a prefix")
    # All tables are planned before the first view changes.
    frames = {view: read_table(spark, ms, table) for view, table in views.items()}
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    return sorted(frames)


def _tables_of_catalogs(ms: Session, pattern: str) -> Iterator[str]:
    """Yields the names of tables of catalogs that match; a pattern of two parts means all tables of a schema."""
    catalog, _, rest = pattern.partition(".")
    if catalog not in ms.settings.catalogs:
        return
    whole = rest if "." in rest else f"{rest or '*'}.*"
    for schema in ms.catalogs.schemas(catalog):
        if fnmatchcase(schema, whole.rpartition(".")[0]):
            tables = (f"{schema}.{name}" for name in ms.catalogs.tables(catalog, schema))
            yield from (f"{catalog}.{name}" for name in tables if fnmatchcase(name, whole))
