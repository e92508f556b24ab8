"""Random programs over DataFrames: rows of odd values, and what plain Spark makes of each step, for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

NAN, INF = float("nan"), float("inf")
DAYS = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]
MOMENTS = [
    datetime(1, 1, 1),
    datetime(1500, 3, 1, 11, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2024, 3, 10, 2, 30),
    datetime(2024, 3, 10, 2, 30, 0, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
TEXTS = [
    "",
    " ",
    "a/b",
    "a b",
    "b",
    "B",
    "ü/%",
    "=x",
    "a%2Fb",
    "..",
    "a+b",
    "😀",
    "a'b",
    'q"',
    "a\\b",
    "x#y?z&",
    "null",
]
VALUES: Final[dict[str, Sequence[Any]]] = {
    "id": [8 - 2**63, -1, 0, 1, 2, 3, 7, 19, 20, 2**63 - 1],
    "s": TEXTS,
    "f": [-INF, -1.5, -0.0, 0.0, 0.1, 16777216.0, INF, NAN],
    "d": [-INF, -0.0, 0.0, 0.1, 0.30000000000000004, 9007199254740993.0, INF, NAN],
    "dec": [Decimal(text) for text in ("-9999999.99", "-0.01", "0.00", "1.50", "9999999.99")],
    "day": DAYS,
    "tz": [moment.replace(tzinfo=timezone.utc) for moment in MOMENTS],
    "ntz": MOMENTS,
    "yes": [True, False],
    "x": [b"", b"\x00", b"/", b"\xff"],
    "st": [{"a": a, "b": b} for a in (None, 1) for b in (None, "", "z")],
    "l": [[], [None], [NAN, -0.0], [1.5]],
    "m": [[], [("a", 1)], [("", None), ("a", 2)]],
}
_ARROW: Final[dict[str, pa.DataType]] = {
    "id": pa.int64(),
    "s": pa.string(),
    "f": pa.float32(),
    "d": pa.float64(),
    "dec": pa.decimal128(9, 2),
    "day": pa.date32(),
    "tz": pa.timestamp("us", "UTC"),
    "ntz": pa.timestamp("us"),
    "yes": pa.bool_(),
    "x": pa.binary(),
    "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "l": pa.list_(pa.float64()),
    "m": pa.map_(pa.string(), pa.int32()),
}
TYPES: Final = pa.schema(_ARROW)
SPARK_TYPES: Final[dict[str, str]] = {
    "id": "BIGINT",
    "s": "STRING",
    "f": "FLOAT",
    "d": "DOUBLE",
    "dec": "DECIMAL(9, 2)",
    "day": "DATE",
    "tz": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "yes": "BOOLEAN",
    "x": "BINARY",
    "st": "STRUCT<a: INT, b: STRING>",
    "l": "ARRAY<DOUBLE>",
    "m": "MAP<STRING, INT>",
}
DDL: Final = ", ".join(f"{name} {type_}" for name, type_ in SPARK_TYPES.items())
NUMBERS = ["-1", "0", "1", "2.5", "0.1", "1e0", "-0.0D", "9007199254740993", "16777217", "0.1F", "DOUBLE('NaN')"]
NAMES = ["''", "'a/b'", "'b'", "'ü/%'", "'😀'", "'null'", '"a\'b"', "'a\\\\b'"]
LITERALS: Final[dict[str, Sequence[str]]] = {
    **dict.fromkeys(("{}id", "{}dec", "{}st.a", "{}id % 5", "abs({}dec)"), NUMBERS[:-1]),
    **dict.fromkeys(("{}f", "{}d", "{}f * 2", "size({}l)"), NUMBERS),
    **dict.fromkeys(("{}s", "{}st.b", "upper({}s)"), NAMES),
    "{}day": ["DATE '1582-10-15'", "DATE '1582-10-04'", "DATE '2024-02-29'", "DATE '0001-01-01'", "DATE '1970-01-01'"],
    "{}tz": [
        f"TIMESTAMP '{text}'" for text in ("2024-03-10 02:30:00Z", "1500-03-02 00:00:00Z", "1970-01-01 00:00:00Z")
    ],
    "{}ntz": [f"TIMESTAMP_NTZ '{text}'" for text in ("2024-03-10 02:30:00", "1500-03-02 00:00:00", "1970-01-01")],
    "{}yes": ["TRUE", "FALSE"],
    "year({}day)": ["1", "1582", "2024"],
    "{}x": ["X'00'", "X''"],
}
TEXTS_OF_ROWS = ("{}s", "{}st.b")
PATTERNS = ["''", "'a%'", "'%/%'", "'_'", "'a!%%' ESCAPE '!'", "'%b'"]
PARTITIONINGS: Final[dict[str, str]] = {
    "": "1",
    "s": "s",
    "day": "day",
    "yes, s": "struct(yes, s)",
    "dec": "dec",
    "d": "CAST(d AS STRING)",
    "f": "CAST(f AS STRING)",
    "tz": "tz",
    "x": "x",
    "days(tz)": "to_date(tz)",
    "hours(ntz)": "date_trunc('HOUR', ntz)",
    "months(ntz)": "date_trunc('MONTH', ntz)",
    "years(day)": "year(day)",
    "truncate(2, s)": "substring(s, 1, 2)",
    "truncate(10, id)": "id - pmod(id, 10)",
    "bucket(3, id), s": "",
}
"""The partitions of a table, and a text of Spark that is equal for rows of one partition; empty: none is at hand."""


def rows(random: Random, most: int = 6) -> pa.Table:
    """A few rows; values are close together, so that partitions and bounds tell something."""
    count = random.randint(0, most)
    columns = {}
    for name, values in VALUES.items():
        some = random.sample([None, *values], k=random.randint(1, min(4, len(values))))
        columns[name] = [random.choice(some) for _ in range(count)]
    return pa.Table.from_pydict(columns, TYPES)


def with_own_ids(random: Random, table: pa.Table) -> pa.Table:
    """The rows with ids that differ."""
    ids = random.sample(VALUES["id"], k=len(VALUES["id"]))[: table.num_rows]
    return table.set_column(0, "id", pa.array(ids, pa.int64()))


def condition(random: Random, depth: int = 2, side: str = "") -> str:
    """A condition in Spark's SQL; ``side`` stands before each column."""
    if depth and random.random() < 0.4:
        left, right = (condition(random, depth - 1, side) for _ in range(2))
        return random.choice([f"({left}) AND ({right})", f"({left}) OR ({right})", f"NOT ({left})"])
    template = random.choice(list(LITERALS))
    subject, literals = template.format(side), LITERALS[template]
    kind = random.randrange(6)
    if kind == 0:
        return f"{subject} IS {random.choice(['', 'NOT '])}NULL"
    if kind == 1:
        return f"{subject} {random.choice(['', 'NOT '])}IN ({', '.join(random.sample(literals, k=2))})"
    if kind == 2 and template in TEXTS_OF_ROWS:
        return f"{subject} LIKE {random.choice(PATTERNS)}"
    sign = random.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    return f"{subject} {sign} {random.choice(literals)}"


@dataclass(frozen=True)
class Clause:
    """A clause of MERGE: what it is about, its condition, and the columns that its row gets; None deletes."""

    about: str
    condition: str
    values: dict[str, str] | None

    @property
    def text(self) -> str:
        """The clause in Spark's SQL."""
        begin = f"WHEN {self.about}" + (f" AND {self.condition}" if self.condition else "")
        if self.values is None:
            return f"{begin} THEN DELETE"
        if self.about == "NOT MATCHED":
            return f"{begin} THEN INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"
        return f"{begin} THEN UPDATE SET " + ", ".join(f"{name} = {value}" for name, value in self.values.items())


def clauses(random: Random) -> list[Clause]:
    """One to four clauses; the first that fits a row applies."""
    found: list[Clause] = []
    for about in random.choices(["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"], k=random.randint(1, 4)):
        side = random.choice({"MATCHED": ["source.", "target."], "NOT MATCHED": ["source."]}.get(about, ["target."]))
        where = condition(random, 1, side) if random.random() < 0.6 else ""
        values: dict[str, str] | None = None
        if about == "NOT MATCHED":
            names = random.sample(list(VALUES), k=random.choice([3, len(VALUES)]))
            values = {name: f"source.{name}" for name in dict.fromkeys(("id", *names))}
        elif random.random() < 0.7:
            some = random.sample(list(VALUES), k=random.randint(1, 4))
            values = (
                {name: f"source.{name}" for name in some} if about == "MATCHED" else {"s": "concat('no ', target.s)"}
            )
        if any(each.about == about and not each.condition for each in found):
            continue
        found.append(Clause(about, where, values))
    return found


def rows_of_merge(target: DataFrame, source: DataFrame, on: str, given: Sequence[Clause]) -> DataFrame:
    """The rows of MERGE, by joins of plain Spark."""
    spark = target.sparkSession
    both = {"target": target, "source": source}
    parts = [_changed(spark, "{target} AS target JOIN {source} AS source ON " + on, "MATCHED", given, both)]
    lonely = "{target} AS target LEFT ANTI JOIN {source} AS source ON " + on
    parts.append(_changed(spark, lonely, "NOT MATCHED BY SOURCE", given, both))
    new = "{source} AS source LEFT ANTI JOIN {target} AS target ON " + on
    parts.append(_changed(spark, new, "NOT MATCHED", given, both))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def _changed(spark: SparkSession, rows_of: str, about: str, given: Sequence[Clause], both: dict[str, Any]) -> DataFrame:
    mine = [clause for clause in given if clause.about == about]
    which = "".join(
        f" WHEN coalesce({clause.condition or 'TRUE'}, FALSE) THEN {place}" for place, clause in enumerate(mine)
    )
    chosen = f"CASE{which} ELSE -1 END" if mine else "-1"
    columns = []
    for name in TYPES.names:
        texts = []
        for place, clause in enumerate(mine):
            old = "NULL" if about == "NOT MATCHED" else f"target.{name}"
            texts.append(f" WHEN {place} THEN CAST({(clause.values or {}).get(name, old)} AS {SPARK_TYPES[name]})")
        rest = f"CAST(NULL AS {SPARK_TYPES[name]})" if about == "NOT MATCHED" else f"target.{name}"
        columns.append(f"CASE {chosen}{''.join(texts)} ELSE {rest} END AS {name}" if texts else f"{rest} AS {name}")
    gone = [str(place) for place, clause in enumerate(mine) if clause.values is None]
    if about == "NOT MATCHED":
        gone.append("-1")
    kept = f" WHERE {chosen} NOT IN ({', '.join(gone)})" if gone else ""
    return spark.sql(f"SELECT {', '.join(columns)} FROM {rows_of}{kept}", **both)


def texts(table: pa.Table) -> list[str]:
    """Rows that compare whatever their order; NaN is a NaN, and zeros have their sign."""
    return sorted(repr({name: row[name] for name in TYPES.names if name in row}) for row in table.to_pylist())
