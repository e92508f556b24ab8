"""Texts that are cast, and what Spark makes of them in both modes: asked of Spark, and kept as a table for tests.

``python -m tests.support.spark_texts`` asks PySpark and writes ``spark_texts.json`` anew; a test with Spark checks that
the table is what Spark says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

TABLE: Final = Path(__file__).with_name("spark_texts.json")


def _listed(texts: str) -> list[str]:
    return texts.split("|")


_NUMBERS: Final = _listed(
    "0|1|-1|+4| 3 |\t7\n|\x007\x7f|007|-0|12a|a|| |+|-|1 2|1_000|1,000|127|128|-128|-129|32767|32768|-32769|2147483647|"
    "2147483648|-2147483648|-2147483649|9223372036854775807|9223372036854775808|-9223372036854775808|"
    "-9223372036854775809|00000000000000000000000000012|1.5|1.|.5|.|-.5|1.9|-1.9|2.4|2.0|1e2|1E2|1e|e1|1e+2|1e-2|"
    "1.5e3|12345e-2|1d|1D|1f|1F|1.5d|1L|1S|1BD|0x10|0x1p3|-0x1.8p1|NaN|nan|NAN|+NaN|-NaN|inf|Inf|INF|+inf|-inf|"
    "infinity|Infinity|+Infinity|-Infinity|-INFINITY|infinit|1e400|-1e400|1e-400|1e39|3.4028235e38|3.4028236e38|"
    "1e308|1.7976931348623157e308|4.9e-324|2e-324|0.1|0.30000000000000004|9007199254740993|16777217|0.05|0.15|0.25|"
    "-0.05|0.049999999999999999999|0.0499999999999999999999999999999999999999999999999|999.94|999.95|9999|99999|"
    "12345678901234567890123456789012345678|123456789012345678901234567890123456789|1e37|1e38|1e-38|1e-50|"
    "0.1e1|10.25e1|-1.25E-1|1e+|1..5|--1|+-1|1-|\u00a01|1\u00a0|\u0661|true|null|NULL|1 d|1e1d|1e1f|1.d|.5f|1e 2|"
    "\v5|\x1c5|5\x85"
)
_TRUTHS: Final = _listed(
    "t|T|true|TRUE| TRUE |tRuE|y|Y|yes|YES|1|f|F|false|FALSE|n|N|no|No|0|on|off|ON|2|-1|00|01|1.0|tru|truee|\ttrue\n|"
    "\x00yes\x7f|| |true false|ja|null"
)
_DAYS: Final = _listed(
    "2024-01-05|2024-1-5|2024-01|2024-1|2024|24|024|02024|002024|0002024|00002024|2024-13-01|2024-00-10|2024-02-30|"
    "2024-02-29|2023-02-29|2024-01-00|2024-01-32|2024-001-05|2024-01-005|+2024-01-05|-2024-01-05|-0001-01-01|0000|"
    "-0000-01-01|0000-02-29|0001-01-01|10000-01-01|99999-12-31|290000-01-01|294247-01-10|999999-01-01|9999999-01-01|"
    "5881580-07-11|5881580-07-12|-5877641-06-23|-5877641-06-22| 2024-01-05 |\t2024-01-05\n|\x002024-01-05\x7f|"
    "2024-01-05T|2024-01-05 |2024-01-05Tfoo|2024-01-05 foo|2024-01-05foo|2024-01-05t10|2024-01T|2024T|2024-01 10|"
    "2024-01-05-|2024--05|2024-|-|+||  |20240105|2024/01/05|01/05/2024|Jan 5 2024|2024-01-05Z|2024-01-05+01:00|"
    "2024-01-05\tx|2024-01-05T10:00:00|2024-1-5 1:2:3|epoch|now|today|TODAY|Tomorrow|yesterday|nowhere|null|x|"
    "2024-W01|2024-001|1582-10-04|1582-10-10|1582-10-15|2024-01-05\u00a0|2024\u201301\u201305|1e3|2024.0|2024-1-5 BC"
)
_CLOCKS: Final = _listed(
    "10|1|1:2|10:00|10:|:10|10:00:00|1:2:3|10:00:|10:00:00.|10:00:00.1|10:00:00.123456|10:00:00.1234567|"
    "10:00:00.123456789123|10:00:00.999999999|23:59:59|24:00:00|24:00|23:60|23:59:60|10:00:00Z|10:00:00z|10:00:00 Z|"
    "10:00:00.5Z|10:00:00+01:00|10:00:00+1:00|10:00:00+01:0|10:00:00+1|10:00:00+01|10:00:00+0130|10:00:00+1:5|"
    "10:00:00 +01:00|10:00:00-08:00|10:00:00+18:00|10:00:00+18:01|10:00:00-18:00|10:00:00+19|10:00:00+01:60|"
    "10:00:00+01:30:15|10:00:00+013015|10:00:00UTC|10:00:00 UTC|10:00:00utc|10:00:00GMT|10:00:00UT|10:00:00UTC+1|"
    "10:00:00UTC+01:30|10:00:00GMT-8|10:00:00UTC+0130|10:00:00.123 UTC+3|10:00:00+|10:00:00UTC+|10:00Z|10Z|"
    "10:00:00 Europe/Paris|10:00:00Europe/Paris|10:00:00 PST|10:00:00 EST|10:00:00 xyz|10:00:00 x|10:00:00,5|"
    "10-00-00|100000|10:00:00AM|10:00:00 PM|010:00:00|10:000:00|10:00:000| 10:00:00|  10:00:00|10:00:00 |"
    "10:00:00\n|01:30:00|02:30:00|00:00:00|2:30:00.5"
)
_MOMENTS: Final = (
    *_DAYS,
    *(f"2024-03-05{between}{clock}" for between in " T" for clock in _CLOCKS),
    "10:30", "1:2:3", "T10", "T10:30:00", "10:30:00Z", "T10:30 ", " T10:30", "T", "24:00", "T24:00", "10:60",
    *(f"{day} {clock}" for day in ("2024-03-10", "2024-11-03", "1883-11-18", "2024-03-09") for clock in
      ("01:30:00", "2:30:00", "02:59:59.999999", "12:02:30", "12:00:00")),
    "2023-02-29 10:00:00", "0000-01-01 10:00:00", "-0001-01-01 10:00:00", "1800-01-01 00:00:00",
    "294247-01-10 04:00:54",
    "294247-01-10 04:00:55", "-290308-12-21 19:59:06", "-290309-01-01 00:00:00", "0024-03-05 10:00:00",
    "24-03-05 10:00:00",
)  # fmt: skip

TEXTS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE", "FLOAT"), _NUMBERS),
    **dict.fromkeys(("DECIMAL(10,0)", "DECIMAL(5,1)", "DECIMAL(38,0)", "DECIMAL(38,38)", "DECIMAL(20,10)"), _NUMBERS),
    "BOOLEAN": _TRUTHS,
    "DATE": _DAYS,
    "TIMESTAMP": _MOMENTS,
    "TIMESTAMP_NTZ": _MOMENTS,
}
"""By the type that they are cast to."""

ZONES: Final = ("UTC", "America/New_York")
"""Time zones of sessions; only casts to TIMESTAMP depend on them."""

_SHOWN: Final = {
    "DATE": "CAST(unix_date({}) AS STRING)",
    "TIMESTAMP": "CAST(unix_micros({}) AS STRING)",
    "TIMESTAMP_NTZ": "CAST(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {}) AS STRING)",
}
"""How Spark writes a value down, where not as a text: days and microseconds since 1970."""


def spark_answers(spark: SparkSession) -> dict[str, dict[str, list[str | None]]]:
    """What Spark says, by type and zone: of each text the value in ANSI mode, None for an error, and without it."""
    answers: dict[str, dict[str, list[str | None]]] = {}
    settings = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for zone in ZONES:
            spark.conf.set("spark.sql.session.timeZone", zone)
            for type_, texts in TEXTS.items():
                if zone != "UTC" and type_ != "TIMESTAMP":
                    continue
                rows = [(number, text) for number, text in enumerate(dict.fromkeys(texts))]
                shown = _SHOWN.get(type_, "CAST({} AS STRING)")
                found = []
                for ansi in (True, False):
                    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
                    spark.createDataFrame(rows, "n INT, s STRING").createOrReplaceTempView("texts")
                    cast = f"{'try_cast' if ansi else 'CAST'}(s AS {type_})"
                    asked = spark.sql(f"SELECT {shown.format(cast)} AS v FROM texts ORDER BY n")
                    found.append([row.v for row in asked.collect()])
                key = type_ if zone == "UTC" else f"{type_} in {zone}"
                answers[key] = {text: list(each) for (_, text), *each in zip(rows, *found, strict=True)}
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    return answers


def known_answers() -> dict[str, dict[str, list[str | None]]]:
    """The table as it is kept."""
    found: dict[str, dict[str, list[str | None]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def _write() -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    TABLE.write_text(json.dumps(spark_answers(spark), indent=0, sort_keys=True) + "\n", encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    _write()
