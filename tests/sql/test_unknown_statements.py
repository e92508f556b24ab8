"""A text that no statement begins with names the nearest three, or the way to what another engine's statement does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session, connect
from metastore.sql.other_engines import WAYS


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """An empty metastore."""
    folder: Path = tmp_path_factory.mktemp("m")
    with connect(Settings.from_mapping({"drill.metastore.iceberg.location.base_path": str(folder)}, environ={})) as it:
        yield it


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELEKT 1", "SELECT"),
        ("INSRT INTO t VALUES (1)", "INSERT INTO"),
        ("SHWO TABLES", "SHOW TABLES"),
        ("SHOW TABELS", "SHOW TABLES"),
        ("DELET FROM t", "DELETE FROM"),
        ("CRAETE TABLE t (a INT)", "CREATE TABLE"),
        ("ANALYSE TABLE t", "ANALYZE TABLE"),
        ("DESCIRBE t", "DESCRIBE"),
        ("drop tabel t", "DROP TABLE"),
        ("MERGE t USING s", "MERGE INTO"),
        ("INSERT t VALUES (1)", "INSERT INTO"),
    ],
)
def test_a_slip_names_what_was_meant(session: Session, text: str, meant: str) -> None:
    """Among three, and not all fifty."""
    with pytest.raises(
        InvalidRequestError, match=r"^line 1, column 1: no statement begins with .*; did you mean "
    ) as told:
        session.sql(text)
    suggested = str(told.value).partition("did you mean ")[2].removesuffix("?").replace(" or ", ", ").split(", ")
    assert len(suggested) == 3
    assert meant in suggested


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("START TRANSACTION", "branches"),
        ("BEGIN", "branches"),
        ("COMMIT", "transaction of its own"),
        ("ROLLBACK", "transaction of its own"),
        ("SET x = 1", "USE chooses a schema"),
        ("SET SESSION x = 1", "ms.sql"),
        ("RESET x", "configuration"),
        ("REFRESH TABLE t", "nothing is cached"),
        ("SHOW FILES IN dfs.tmp", "metastore files"),
        ("CACHE TABLE t", "CREATE MATERIALIZED VIEW"),
        ("MSCK REPAIR TABLE t", "REFRESH METADATA"),
    ],
)
def test_statements_of_other_engines_name_the_way(session: Session, text: str, way: str) -> None:
    """What the statement is for is done otherwise, and the message says how."""
    with pytest.raises(InvalidRequestError, match=rf"^line 1, column 1: .* is no statement here: .*{way}"):
        session.sql(text)


@pytest.mark.parametrize("words", WAYS)
def test_every_one_of_them_is_refused_with_its_way(session: Session, words: tuple[str, ...]) -> None:
    """In any case of letters; a table of such a name can be described."""
    text = " ".join(words)
    with pytest.raises(InvalidRequestError, match=f"^line 1, column 1: {text} is no statement here: ") as told:
        session.sql(f"{text.lower()} x")
    assert WAYS[words] in str(told.value)
    if words[0] == "DESCRIBE":
        with pytest.raises(NotFoundError, match=f"unknown table {words[1].lower()}"):
            session.sql(text.lower())


def test_forms_of_explain_in_brackets(session: Session) -> None:
    """Trino's and PostgreSQL's are refused by name; a query in brackets is none of them."""
    for form in ("TYPE DISTRIBUTED", "FORMAT JSON"):
        with pytest.raises(InvalidRequestError, match=rf"EXPLAIN \({form.split()[0]} …\) is no statement here"):
            session.sql(f"EXPLAIN ({form}) SELECT 1")
    assert session.sql("EXPLAIN (SELECT 1)").num_rows > 0
