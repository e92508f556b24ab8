"""A filter of rows: Spark SQL, read as everywhere, that chooses exactly the rows it asks for or is refused."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression, EqualTo, In, IsNull, StartsWith

from metastore.errors import InvalidRequestError
from metastore.model.mapping.filters import bind_filter, to_arrow_filter
from metastore.model.mapping.null_semantics import as_sql
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.rows import to_arrow
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.predicates.exact_filter import exact_filter
from metastore.predicates.given_filter import expression_of

SCHEMA = iceberg_schema(TableMetadataUnit)
UNITS = [
    TableMetadataUnit(plugin, "tmp", table, owner=owner, metadata_key=key, last_modified_time=time)
    for plugin in ("dfs", "s3")
    for table in ("a", "ab", "b")
    for key, owner, time in (("GENERAL_INFO", "a", 1), ("1994", None, 2), ("1994", "ab", None))
]
ROWS = to_arrow(TableMetadataUnit, UNITS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one predicate is expected"),
        ("tableName = 'a' and", "syntax error at line 1, column 19"),
        ("tableName = 'a' tableName = 'b'", "syntax error at line 1, column 25"),
        ("   tableName ~ 'a'", "syntax error at line 1"),
        ("tableName = 'a' or (owner = 'b'", "syntax error at line 1"),
        ("tablname = 'a'", "unknown column 'tablname'.*tableName"),
        ("lower(owner) = 'a'", "lower of a column is not unwrapped"),
        ("owner like '%a'", "does not begin with letters"),
        ("owner like 'a%b'", "cannot be carried out"),
        ("left(owner, 1) = 'a'", "it has a function of a column"),
        ("lastModifiedTime = 9007199254740993e0", "a constant that is rounded beside it"),
        ("lastModifiedTime NOT IN (9007199254740993e0)", "a constant that is rounded beside it"),
        ("lastModifiedTime < 9007199254740993e0", "a constant that is rounded beside it"),
        ("owner = tableName", "columns are compared with each other"),
    ],
)
def test_what_is_no_exact_filter_is_refused(text: str, message: str) -> None:
    """With the place where reading stopped, or with the part that would pass other rows too."""
    with pytest.raises(InvalidRequestError, match=message):
        exact_filter(text, SCHEMA)


def test_expressions_pass() -> None:
    """As they are."""
    expression = EqualTo("owner", "a")
    assert expression_of(expression, SCHEMA) is expression
    assert expression_of("owner = 'a'", SCHEMA) == expression


@pytest.mark.parametrize("owner", ["it's", "''", '"', "%", "東京 🗼", ""])
def test_a_quoted_text_is_any_text(owner: str) -> None:
    """A quote within is written twice."""
    doubled = owner.replace("'", "''")
    assert exact_filter(f"owner = '{doubled}'", SCHEMA) == EqualTo("owner", owner)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("TABLENAME = 'a'", EqualTo("tableName", "a")),
        ("`tableName` = 'a'", EqualTo("tableName", "a")),
        ("\"tableName\" = 'a'", EqualTo("tableName", "a")),
        ('tableName = "a"', EqualTo("tableName", "a")),
        ("tableName == 'a'", EqualTo("tableName", "a")),
        ("hostAffinity IS NULL", IsNull("hostAffinity")),
        ("column = 'a'", EqualTo("column", "a")),
        ("tableName IN ('a', 'b')", In("tableName", {"a", "b"})),
        ("startswith(tableName, 'a')", StartsWith("tableName", "a")),
        ("lastModifiedTime = CAST('7' AS BIGINT)", EqualTo("lastModifiedTime", 7)),
    ],
)
def test_spellings(text: str, asked: BooleanExpression) -> None:
    """Names in any case and any quotes."""
    assert exact_filter(text, SCHEMA) == asked


_TEXTS = ("storagePlugin", "tableName", "metadataKey", "owner")
_values = st.sampled_from(["dfs", "a", "ab", "b", "1994", ""])


def _combined(leaf: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("not ({})".format, inner),
        ),
        max_leaves=5,
    )


_comparison = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_sql = _combined(
    st.one_of(
        st.builds("{} {} '{}'".format, st.sampled_from(_TEXTS), _comparison, _values),
        st.builds("lastModifiedTime {} {}".format, _comparison, st.integers(0, 3)),
        st.builds("{} is {}".format, st.sampled_from([*_TEXTS, "path"]), st.sampled_from(["null", "not null"])),
        st.builds("{} like '{}%'".format, st.sampled_from(_TEXTS), _values),
        st.builds("{} in ('{}', '{}')".format, st.sampled_from(_TEXTS), _values, _values),
        st.builds("{} not in ('{}', '{}')".format, st.sampled_from(_TEXTS), _values, _values),
        st.builds("{} between '{}' and '{}'".format, st.sampled_from(_TEXTS), _values, _values),
        st.builds("{} is distinct from '{}'".format, st.sampled_from(_TEXTS), _values),
        st.builds("lastModifiedTime {} {}.5".format, _comparison, st.integers(0, 3)),
        st.builds("lastModifiedTime in (1, null, {})".format, st.integers(0, 3)),
        st.sampled_from(["true", "false", "owner = null", "lastModifiedTime = 3000000000000000000000"]),
    )
)


@given(_sql)
@example("lastModifiedTime = 2")
@example("lastModifiedTime in (1, 2) and tableName = 'a'")
@example("owner = 'a' and tableName in ('a', 'b')")
def test_a_filter_means_what_sql_says(text: str) -> None:
    """DuckDB chooses the same rows by the same text, null by null.

    Of rows in memory, where terms that are plain are compared without Arrow's expression, and of rows that Arrow reads.
    """
    numbered = ROWS.append_column("n", [list(range(ROWS.num_rows))])
    test = RowTest(bind_filter(SCHEMA, as_sql(exact_filter(text, SCHEMA))))
    ours = test.passing(numbered).column("n").to_pylist()
    assert ours == numbered.filter(to_arrow_filter(test.bound)).column("n").to_pylist()
    with duckdb.connect() as database:
        database.register("units", numbered)
        theirs = [n for (n,) in database.execute(f"select n from units where {text} order by n").fetchall()]
    assert ours == theirs
