"""Known faults of Parquet and ORC writers in the statistics of their footers: one register, looked up by writer.

Place in the flow: readers of footers look up the doubts about a column before they trust a null count or a bound. A
doubted number is treated as unknown, so it prunes nothing and answers no aggregate. Each entry names the public report
of the fault. A fault that is visible in the numbers themselves (a smallest value above the largest) needs no entry:
:mod:`metastore.lake.formats.claims` checks every number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from functools import lru_cache
from typing import Final

PARQUET, ORC = "PARQUET", "ORC"

Version = tuple[int, ...]


class Doubt(Flag):
    """The part of a column's statistics that is not trusted."""

    NOTHING = 0
    NULLS = auto()
    """The null count, and with it the number of values."""
    BOUNDS = auto()
    """Both bounds: values may lie beyond them."""
    EXACTNESS = auto()
    """The bounds hold, but need not be values of the column."""


@dataclass(frozen=True)
class WrittenColumn:
    """The column properties on which a fault may depend: Drill's minor type, Parquet's physical type, Arrow's storage.

    ``dictionary``: Arrow wrote it from a dictionary array, or may have. ``in_struct``: a struct around it can be null;
    in ORC, it is in a struct within a struct. ``right_dates``: the file's own metadata says that its dates are right.
    """

    type: str
    physical: str = ""
    dictionary: bool = False
    in_struct: bool = False
    right_dates: bool = False

    @property
    def in_bytes(self) -> bool:
        """Whether values are byte strings, which some writers compare as text."""
        return self.physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


@dataclass(frozen=True)
class WriterFault:
    """One fault: ``writer`` (a regular expression for the whole name) from version ``since``, until ``before``.

    ``doubt`` is the part of the statistics that is not trusted, for the columns that ``concerns`` accepts.
    """

    writer: str
    concerns: Callable[[WrittenColumn], bool]
    doubt: Doubt
    reference: str
    since: Version = ()
    before: Version | None = None
    format: str = PARQUET

    def is_of(self, writer: Writer) -> bool:
        """Whether a file of ``writer`` has this fault. A writer without a version may have any fault."""
        if re.fullmatch(self.writer, writer.name, re.IGNORECASE) is None:
            return False
        return not writer.version or (
            self.since <= writer.version and (self.before is None or writer.version < self.before)
        )


_NAME: Final = re.compile(r"(.*?)(?=\s+(?:version\b|v?\d|\()|\s*$)", re.DOTALL)
_VERSION: Final = re.compile(r"\sv?(\d+(?:\.\d+)*)(\S*)")


@dataclass(frozen=True)
class Writer:
    """The writer of a file: a name, and a version (empty if unknown)."""

    name: str
    version: Version = ()

    @classmethod
    @lru_cache(maxsize=64)
    def of_parquet(cls, created_by: str | None) -> Writer:
        """Returns the writer that ``created_by`` of a Parquet footer names."""
        text = (created_by or "").strip()
        named, numbered = _NAME.match(text), _VERSION.search(text.partition("(build")[0])
        name = named.group(1) if named else text
        if numbered is None:
            return cls(name)
        if name == "parquet-mr" and "-drill" in numbered.group(2):
            name = "parquet-mr of Drill"
        return cls(name, tuple(map(int, numbered.group(1).split("."))))

    @classmethod
    def of_orc(cls, number: int, version: int) -> Writer:
        """Returns the writer with this ``number`` in an ORC footer, at the ``version`` of its postscript."""
        return cls(_ORC_WRITERS.get(number, f"writer {number}"), (version,))

    def doubts(self, column: WrittenColumn, format_: str = PARQUET) -> Doubt:
        """Returns the doubts about ``column`` in a file of this writer."""
        doubt = Doubt.NOTHING
        for fault in faults_of(self, format_):
            if fault.concerns(column):
                doubt |= fault.doubt
        return doubt

    def why_doubted(self, column: WrittenColumn) -> str | None:
        """Returns which statistics of ``column`` in Parquet are not trusted, and why, in a few words; None if all are.

        Bounds that hold, but need not be values of the column, are trusted.
        """
        faults = [fault for fault in faults_of(self, PARQUET) if fault.concerns(column) and fault.doubt & _UNTRUE]
        if not faults:
            return None
        doubt = self.doubts(column)
        reasons = [words for kind, words in _WORDS.items() if kind in doubt]
        reports = ", ".join(dict.fromkeys(fault.reference for fault in faults))
        return f"{' and '.join(reasons)} in footers of {self} are not believed ({reports})"

    def __str__(self) -> str:
        """Name and version."""
        return f"{self.name or 'a writer without a name'} {'.'.join(map(str, self.version))}".strip()

    @property
    def keeps_bounds_whole(self) -> bool:
        """Whether bounds of text and bytes are values of the data; other writers may shorten long ones.

        Footers can mark shortened bounds, but pyarrow does not expose the mark. So only a writer that never shortens is
        trusted.
        """
        return self.name == "parquet-cpp-arrow"

    @property
    def bounds_show_nans(self) -> bool:
        """Whether a column with a NaN would have no bounds.

        parquet-mr orders NaN above all numbers since 1.10, and then writes no bounds. Earlier releases, and most other
        writers, skip NaNs. Releases from 1.18 may count NaNs separately, and are not trusted until they are known.
        """
        return self.name == "parquet-mr" and (1, 10) <= self.version < (1, 18)


_WORDS: Final = {Doubt.BOUNDS: "bounds", Doubt.NULLS: "null counts"}
_UNTRUE: Final = Doubt.BOUNDS | Doubt.NULLS

_ORC_WRITERS: Final = {0: "ORC Java", 1: "ORC C++", 2: "Presto", 3: "Go", 4: "Trino", 5: "CUDF"}


@lru_cache(maxsize=64)
def faults_of(writer: Writer, format_: str = PARQUET) -> tuple[WriterFault, ...]:
    """Returns the faults of files of ``writer``."""
    return tuple(fault for fault in WRITER_FAULTS if fault.format == format_ and fault.is_of(writer))


def _of_types(*types: str) -> Callable[[WrittenColumn], bool]:
    return lambda column: column.type in types


def _all(_column: WrittenColumn) -> bool:
    return True


def _decimals_in_bytes(column: WrittenColumn) -> bool:
    return column.type == "VARDECIMAL" and column.in_bytes


def _decimals_of_any_length(column: WrittenColumn) -> bool:
    return column.type == "VARDECIMAL" and column.physical == "BYTE_ARRAY"


def _shifted_dates(column: WrittenColumn) -> bool:
    return column.type == "DATE" and not column.right_dates


def _dictionaries(column: WrittenColumn) -> bool:
    return column.dictionary


def _in_structs(column: WrittenColumn) -> bool:
    return column.in_struct


def _dictionaries_in_structs(column: WrittenColumn) -> bool:
    return column.dictionary and column.in_struct


_TEXTS: Final = _of_types("VARCHAR", "VARBINARY")
_UNSIGNED: Final = _of_types("UINT1", "UINT2", "UINT4", "UINT8")
_FLOATS: Final = _of_types("FLOAT4", "FLOAT8")
_TIMES: Final = _of_types("TIMESTAMP", "TIME")
_DECIMALS: Final = _of_types("VARDECIMAL")

_ARROW_CPP: Final = r"parquet-cpp(-arrow)?"
"""Arrow for C++ and everything built on it: its name since version 4, and its earlier name."""
_GO: Final = r"parquet-go"
"""Two writers until version 7 (xitongsys and fraugster), then that of Arrow for Go."""

_N, _B, _E = Doubt.NULLS, Doubt.BOUNDS, Doubt.EXACTNESS

WRITER_FAULTS: Final[tuple[WriterFault, ...]] = (
    # Arrow for C++: pyarrow, R, Ruby, ParquetSharp
    WriterFault(r"parquet-cpp-arrow", _dictionaries_in_structs, _N, "apache/arrow#11281"),
    WriterFault(_ARROW_CPP, _dictionaries, _N, "apache/arrow#10729 (ARROW-12513)", before=(6,)),
    WriterFault(_ARROW_CPP, _dictionaries, _B, "apache/arrow#15042", before=(11,)),
    WriterFault(_ARROW_CPP, _dictionaries, _E, "apache/arrow#42930 (PARQUET-1783)", before=(6,)),
    WriterFault(r"parquet-cpp", _decimals_in_bytes, _B, "apache/parquet-java#1615 (PARQUET-1655)"),
    WriterFault(r"parquet-cpp", _decimals_in_bytes, _B, "G-Research/ParquetSharp#68 (ARROW-6149)"),
    WriterFault(r"parquet-cpp", _TEXTS, _B, "apache/arrow#42572 (PARQUET-793)", before=(1, 3)),
    WriterFault(r"parquet-cpp", _UNSIGNED, _B, "apache/arrow#42562 (PARQUET-686)", before=(1, 3)),
    WriterFault(r"parquet-cpp", _FLOATS, _B, "PARQUET-1225", before=(1, 4)),
    # Java: Hive, Spark, Drill, Impala's tools
    WriterFault(r"parquet-mr( of Drill)?", _TEXTS, _B, "trinodb/trino#1798 (PARQUET-251)", before=(1, 8, 2)),
    WriterFault(r"parquet-mr( of Drill)?", _TEXTS, _B, "apache/parquet-java#367 (PARQUET-686)", before=(1, 10)),
    WriterFault(r"parquet-mr( of Drill)?", _UNSIGNED, _B, "apache/parquet-java#362 (PARQUET-686)", before=(1, 10)),
    WriterFault(r"parquet-mr( of Drill)?", _decimals_in_bytes, _B, "PARQUET-1025", before=(1, 10)),
    WriterFault(r"parquet-mr of Drill", _shifted_dates, _B, "DRILL-4203"),
    WriterFault(r"parquet-mr( of Drill)?", _FLOATS, _B, "PARQUET-1246", before=(1, 10)),
    # Impala
    WriterFault(r"impala", _FLOATS, _B, "IMPALA-6527", before=(2, 12)),
    # Rust
    WriterFault(r"parquet-rs", _TEXTS, _B, "apache/datafusion#1433", before=(8,)),
    WriterFault(r"parquet-rs", _all, _N, "apache/arrow-rs#2022", before=(19,)),
    WriterFault(r"parquet-rs", _decimals_of_any_length, _B, "apache/arrow-rs#10860, #11073"),
    WriterFault(
        r"parquet-rs", lambda column: column.in_bytes and _FLOATS(column), _B, "apache/arrow-rs#5075", before=(50,)
    ),
    WriterFault(r"Arrow2.*", _all, _B, "pola-rs/polars#7842"),
    WriterFault(r"Arrow2.*", _UNSIGNED, _B, "pola-rs/polars#15323"),
    WriterFault(r"Arrow2.*", _all, _N, "jorgecarleitao/arrow2#1414"),
    WriterFault(r"Polars", _decimals_in_bytes, _B, "pola-rs/polars#29347"),
    WriterFault(r"Polars", _in_structs, _N, "pola-rs/polars#20621", before=(2, 1)),
    WriterFault(r"Polars", _dictionaries_in_structs, _N, "pola-rs/polars#29140", since=(2, 1)),
    WriterFault(r"Polars", _UNSIGNED, _B, "pola-rs/polars#15323", before=(1,)),
    WriterFault(r"Polars", _of_types("BIT"), _E, "pola-rs/polars#26667"),
    WriterFault(r"Polars", _TEXTS, _E, "pola-rs/polars#18867"),
    # Go
    WriterFault(_GO, _all, _N, "fraugster/parquet-go#69", before=(7,)),
    WriterFault(_GO, _all, _B, "xitongsys/parquet-go#587", before=(7,)),
    WriterFault(_GO, _all, _N, "apache/arrow-go#489", since=(7,), before=(18, 5)),
    # .NET and JavaScript
    WriterFault(r"Parquet\.Net", _TIMES, _B, "aloneguid/parquet-dotnet#769"),
    WriterFault(r"hyparquet.*", _DECIMALS, _B, "hyparam/hyparquet-writer#38"),
    WriterFault(r"hyparquet.*", _TEXTS, _B, "hyparam/hyparquet-writer#31"),
    WriterFault(r"parquet\.?js", _all, _B, "ironSource/parquetjs#53"),
    # Databases and GPUs
    WriterFault(r"ClickHouse", _decimals_in_bytes, _B, "ClickHouse/ClickHouse#83754", before=(25, 8)),
    WriterFault(r"DuckDB", _TEXTS, _E, "duckdb/duckdb#22548"),
    WriterFault(r"fastparquet.*", _TEXTS, _B, "dask/fastparquet#776", before=(2022,)),
    WriterFault(r"cudf.*", _all, _N, "NVIDIA/cudf#9221, #12938", before=(23, 4)),
    WriterFault(r"cudf.*", _FLOATS, _E, "NVIDIA/cudf#22817"),
    # ORC
    WriterFault(r"ORC Java", _TEXTS, _B, "HIVE-8732", before=(1,), format=ORC),
    WriterFault(r".*", _FLOATS, _B, "prestodb/presto#2295", format=ORC),
    WriterFault(r".*", _of_types("TIMESTAMP"), _B, "apache/orc#91 (ORC-135)", before=(6,), format=ORC),
    WriterFault(r".*", _of_types("TIMESTAMP"), _E, "apache/orc#497 (ORC-611)", format=ORC),
    WriterFault(r".*", _TEXTS, _E, "apache/orc#342 (ORC-203)", format=ORC),
    WriterFault(r"ORC Java", _DECIMALS, _B, "apache/orc#405 (ORC-517)", since=(6,), before=(7,), format=ORC),
    WriterFault(r"CUDF", _of_types("TIMESTAMP"), _B, "NVIDIA/cudf#14325", format=ORC),
    # Arrow counts zeros for the fields of a null struct within a struct.
    WriterFault(r"ORC C\+\+", _in_structs, _N | _E, "apache/orc#368 (ORC-471)", format=ORC),
)
"""The register. Entries are added, never weakened, because existing files do not change."""
