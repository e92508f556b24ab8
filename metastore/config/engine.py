"""Settings of the choice of the engine: this machine or Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from metastore.config.section import Section

EngineKind = Literal["auto", "local", "spark"]
QueryDialect = Literal["duckdb", "spark"]


@dataclass(frozen=True)
class EngineSettings:
    """``auto`` uses Spark for ``spark_threshold_files`` files or more; ``processes`` 0 means one per core.

    Statements use Spark if they read ``spark_threshold_size`` bytes or more, or that many files. ``sql`` is the engine
    whose SQL the queries of statements are, unless a call names another one.
    """

    kind: EngineKind = "auto"
    sql: QueryDialect = "duckdb"
    spark_threshold_files: int = 50_000
    spark_threshold_size: int = 1 << 30
    processes: int = 0
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)


def engine_settings(section: Section) -> EngineSettings:
    """Read the settings below ``drill.metastore.engine``. Raises ConfigError for another kind or a negative number."""
    kinds: dict[str, EngineKind] = {"auto": "auto", "local": "local", "spark": "spark"}
    dialects: dict[str, QueryDialect] = {"duckdb": "duckdb", "spark": "spark"}
    threshold, processes = section.whole("spark_threshold_files", least=0), section.whole("processes", least=0)
    return EngineSettings(
        kind=section.choice("kind", kinds),
        sql=section.choice("sql", dialects),
        spark_threshold_files=section.require("spark_threshold_files", threshold),
        spark_threshold_size=section.require("spark_threshold_size", section.size("spark_threshold_size")),
        processes=section.require("processes", processes),
        spark={name: value for name, value in section.properties("spark").items() if value is not None},
    )
