"""Statements that change rows of a table, for property tests: the table is ``{t}``, its short name ``{n}``."""

from __future__ import annotations

from hypothesis import strategies as st

COLUMNS = "id BIGINT, k VARCHAR, n INTEGER, x DOUBLE, ts TIMESTAMP, tags VARCHAR[]"
PARTITIONINGS = ["", "PARTITIONED BY (k)", "PARTITIONED BY (bucket(3, id), days(ts))", "PARTITIONED BY (x)"]
ROWS = (
    "(1, 'a', 1, 1.5, TIMESTAMP '2021-04-01 10:00:00', ['x', NULL]), (2, 'b', 2, 'nan'::DOUBLE, NULL, NULL), "
    "(3, NULL, NULL, NULL, TIMESTAMP '1969-12-31 23:59:59', []), (NULL, 'a', 4, -0.0, NULL, ['y']), "
    "(5, 'c', 5, 'inf'::DOUBLE, TIMESTAMP '2021-04-02 00:00:00', NULL)"
)

CONDITIONS = st.sampled_from(
    [
        "id = 1",
        "id > 2",
        "NOT (id > 2)",
        "k = 'a'",
        "k <> 'a'",
        "k IS NULL",
        "x > 1",
        "x = 'nan'::DOUBLE",
        "isnan(x) OR n < 3",
        "ts < '2021-04-02'",
        "ts >= '2021-04-01' AND ts < '2021-04-03'",
        "id IN (SELECT max(id) FROM {t})",
        "k IN (SELECT k FROM {t} WHERE n > 3)",
        "NULL",
        "len(tags) = 0",
        "CASE WHEN id = 1 THEN k = 'b' ELSE n = 5 END",
        "true",
    ]
)
ASSIGNMENTS = st.sampled_from(
    [
        "n = n + 1",
        "k = 'z', x = n",
        "k = NULL",
        "tags = ['new', k]",
        "ts = ts + INTERVAL 1 DAY, id = id",
        "x = CASE WHEN id = 1 THEN 7.25 ELSE x END, n = coalesce(n, 0)",
        "n = (SELECT count(*) FROM {t})::INTEGER",
    ]
)
SOURCES = st.sampled_from(
    [
        "(SELECT * FROM (VALUES (1, 'm'), (7, 'new'), (NULL, 'q')) v(id, k)) AS s",
        "(VALUES (2, 'two'), (8, NULL)) AS s(id, k)",
        "(SELECT max(id) + 1 AS id, 'next' AS k FROM {t}) AS s",
        "(SELECT max(id) AS id, min(k) AS k FROM {t} GROUP BY id HAVING count(*) = 1) AS s",
    ]
)
CLAUSES = st.sampled_from(
    [
        "WHEN MATCHED THEN UPDATE SET k = s.k, n = {n}.n + 10",
        "WHEN MATCHED AND s.k = 'm' THEN DELETE WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)",
        "WHEN NOT MATCHED AND s.id > 5 THEN INSERT (k, id, n) VALUES (s.k, s.id, 9)",
        "WHEN NOT MATCHED BY SOURCE AND {n}.n > 3 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -1 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    ]
)
STATEMENTS = st.one_of(
    st.builds("DELETE FROM {{t}} WHERE {}".format, CONDITIONS),
    st.builds("UPDATE {{t}} SET {} WHERE {}".format, ASSIGNMENTS, CONDITIONS),
    st.builds("MERGE INTO {{t}} AS {{n}} USING {} ON {{n}}.id = s.id {}".format, SOURCES, CLAUSES),
    st.just(f"INSERT INTO {{t}} VALUES {ROWS}"),
    st.just("INSERT INTO {t} (id, n) SELECT id + 100, n FROM {t} WHERE id < 50"),
)

REFUSED = [
    ("INSERT INTO {t} VALUES (1, 'a')", "the query has 2 columns"),
    ("INSERT INTO {t} (id, nope) VALUES (1, 2)", "line 1, column 28: nope is no column of the table; there are id"),
    ("INSERT INTO {t} (id, ID) VALUES (1, 2)", "column ID is given twice"),
    ("INSERT INTO {t} (n) VALUES ('1')", "column n is int, and the query gives string"),
    ("INSERT INTO {t} (n) VALUES (3000000000)", "column n is int: Integer value 3000000000 not in range"),
    ("INSERT INTO {t} (n) VALUES (1.5)", "column n is int, and the query gives decimal"),
    ("INSERT INTO {t} (x) VALUES (9007199254740993)", "column x is double"),
    ("INSERT INTO {t} (k) VALUES (1)", "column k is string, and the query gives int32"),
    ("INSERT INTO {t} (ts) VALUES ('2021-04-01')", "column ts is timestamp"),
    ("INSERT INTO {t} (tags) VALUES ([1])", "column tags is list<string>"),
    ("INSERT INTO {t} BY NAME SELECT 1 AS nope", "nope is no column"),
    ("INSERT INTO {t}", "a query, or VALUES is expected"),
    ("DELETE FROM {t}\nWHERE nope = 1", "line 2, column 7: there is no column nope; "),
    ("DELETE FROM {t} WHERE id = 1 / 0 ORDER", "line 1, column"),
    ("DELETE FROM {t} USING WHERE id = 1", "a table is expected, not WHERE"),
    ("UPDATE {t} SET id = 'x'", "line 1, column 22: column id is long"),
    ("UPDATE {t} SET id = 1, id = 2", "column id is given twice"),
    ("UPDATE {t} SET nope = 1", "nope is no column"),
    ("UPDATE {t} SET\n k = upper(\n nope)", "line 3, column 2: there is no column nope; "),
    ("UPDATE {t} SET t.n.m = 1", "n is int, and has no fields to assign"),
    ("UPDATE {t} SET n = 1 FROM", "a table is expected, not the end"),
    (
        "MERGE INTO {t} USING (SELECT 1 AS id FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
        "several rows of the source change one row",
    ),
    ("MERGE INTO {t} USING (SELECT 1 AS id) ON true WHEN MATCHED THEN DELETE", "an alias of the query is expected"),
    ("MERGE INTO {t} USING (SELECT 1 AS id) s ON true", "WHEN is expected"),
    (
        "MERGE INTO {t} USING (SELECT 8 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)",
        "INSERT",
    ),
    ("MERGE INTO {t} USING lake.db.nope s ON t.id = s.id WHEN MATCHED THEN DELETE", "lake.db.nope does not exist"),
    ("INSERT INTO lake.db.nope VALUES (1)", "table lake.db.nope does not exist"),
    ("DELETE FROM t WHERE id = 1", "a table of a catalog is named by three parts"),
    ("DELETE FROM metastore.components.tables", "is the metastore's own"),
]
"""Statements that are refused, with a part of the message; the table has one file."""
