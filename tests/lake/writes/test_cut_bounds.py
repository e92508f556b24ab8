"""Bounds of long texts in entries of new files are cut to valid texts that hold, whatever characters they end in."""

from __future__ import annotations

from pathlib import Path

from metastore.config.settings import Settings
from metastore.session import connect

LAST = ("\x7f", "\u07ff", "\ud7ff", "\ue000", "\uffff", "\U0010ffff")
"""Characters after which UTF-8 changes, or no text follows."""
TEXTS = [start + "b" for last in LAST for start in ("a" * 15 + last, last * 16, "a" * 14 + last + "\U0010ffff")]


def test_a_cut_bound_is_a_text_that_holds(tmp_path: Path) -> None:
    """The lower one is below the text, the upper one above it, or left out if no text is; a row is found by them."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"}
    given = {"iceberg.location.base_path": f"{tmp_path}/md", "catalogs.lake": lake}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as ms:
        ms.sql("CREATE SCHEMA lake.db")
        ms.sql("CREATE TABLE lake.db.t (s VARCHAR, p INTEGER) PARTITIONED BY (p)")
        rows = ", ".join(f"('{text}', {number})" for number, text in enumerate(TEXTS))
        ms.sql(f"INSERT INTO lake.db.t VALUES {rows}")
        table = ms.catalogs.open("lake").load_table("db.t")
        files = [task.file for task in table.scan().plan_files()]
        assert sorted(file.partition[0] for file in files) == list(range(len(TEXTS)))
        for file in files:
            text = TEXTS[file.partition[0]]
            upper = file.upper_bounds.get(1)
            assert file.lower_bounds[1].decode() == text[:16]
            assert (upper is None) == (set(text[:16]) == {"\U0010ffff"})
            assert upper is None or (len(upper.decode()) <= 16 and upper > text.encode())
        assert ms.sql(f"SELECT p FROM lake.db.t WHERE s = '{TEXTS[6]}'").to_pylist() == [{"p": 6}]
