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
