"""Random conditions in words of Spark and DuckDB: columns, functions of them, constants in many spellings."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = ("-1", "0", "1", "4", "5", "6", "5.5", "0.0010", "2147483647", "2147483648", "9223372036854775807", "1e0")
DAYS = ("DATE '2024-01-01'", "'2024-01-31'", "DATE '2023-12-31' + INTERVAL 1 DAY", "CAST('2024-02-29' AS DATE)")
TIMES = (
    "TIMESTAMP '2024-01-01 00:00:00'",
    "TIMESTAMP '2024-02-01 11:00:00'",
    "'2024-01-01 11:00:00'",
    "DATE '2024-02-01'",
    "CAST('2024-03-01' AS TIMESTAMP)",
    "CAST('2024-02-01 10:59:59.9' AS TIMESTAMP(0))",
    "TIMESTAMP '2024-02-01 00:00:00' - INTERVAL 1 MONTH",
    "TIMESTAMP '2024-02-01 00:00:00' + INTERVAL '11' HOUR",
)
TEXTS = ("''", "'a'", "'ab'", "'abc'", "'b'", "'ä'", "'😀'", "'abcde'")
SUBJECTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "number": (
        (
            "i",
            "t",
            "b",
            "dec",
            "f",
            "p.x",
            "i + 1",
            "i - 5",
            "5 - i",
            "-i",
            "t + 1",
            "1 + t",
            "b - 1",
            "i * 2",
            "i * -3",
            "dec + 1",
            "coalesce(i, 5)",
            "coalesce(b, 0)",
            "CAST(i AS BIGINT)",
            "CAST(t AS DOUBLE)",
            "abs(i)",
            "i + t",
        ),
        NUMBERS,
    ),
    "large": (("big", "coalesce(p.x, 4)"), ("0.001", "5", "-1")),
    "text": (("s", "left(s, 1)", "left(s, 2)", "substring(s, 1, 3)", "coalesce(s, 'ab')", "lower(s)"), TEXTS),
    "day": (("day", "date_trunc('month', day)", "CAST(ts AS DATE)", "ts::DATE", "CAST(utc AS DATE)"), DAYS),
    "year": (("year(ts)", "year(day)", "extract(year FROM utc)", "date_part('year', ts)"), ("2023", "2024", "2025")),
    "time": (
        (
            "ts",
            "utc",
            "p.ts",
            "date_trunc('day', ts)",
            "date_trunc('month', utc)",
            "date_trunc('hour', ts)",
            "day",
            "ts + INTERVAL 1 DAY",
            "ts - INTERVAL 2 HOUR",
            "date_trunc('week', ts)",
            "date_trunc('year', ts)",
            "CAST(ts AS TIMESTAMP(0))",
            "CAST(ts AS TIMESTAMP)",
        ),
        TIMES,
    ),
    "part": (
        ("month(ts)", "month(day)", "quarter(ts)", "day(day)", "dayofmonth(ts)", "extract(month FROM utc)"),
        ("1", "2", "12", "4", "31", "0"),
    ),
    "flag": (("flag", "coalesce(flag, FALSE)"), ("TRUE", "FALSE")),
}
TESTS: tuple[str, ...] = (
    "flag",
    "starts_with(s, 'ab')",
    "s LIKE 'ab%'",
    "s LIKE 'a_c'",
    "s LIKE 'ab'",
    "isnan(f)",
    "i IS NULL",
)
TESTS += ("coalesce(flag, TRUE)", "p.x IS NULL", "flag IS TRUE", "i IS DISTINCT FROM 5", "1 = 2", "i = t", "TRUE")


@st.composite
def leaves(draw: st.DrawFn) -> str:
    """One test, of a column or of a function of one."""
    if not draw(st.integers(0, 5)):
        return draw(st.sampled_from(TESTS))
    subjects, literals = SUBJECTS[draw(st.sampled_from(sorted(SUBJECTS)))]
    subject, literal = draw(st.sampled_from(subjects)), st.sampled_from(literals)
    match draw(st.integers(0, 6)):
        case 0:
            return f"{subject} IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
        case 1:
            return f"{subject} BETWEEN {draw(literal)} AND {draw(literal)}"
        case 2:
            return f"{draw(literal)} {draw(st.sampled_from(['=', '<', '>=']))} {subject}"
    return f"{subject} {draw(st.sampled_from(['=', '<', '<=', '>', '>=', '<>']))} {draw(literal)}"


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=3,
)
