"""Fifty common mistakes, each with its error: what is wrong, where it is, and the next step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.ran import Ran
from typer.main import get_group
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.cli.command import INSTEAD

LAKE = ("--conf", "lake.conf")

NO_FILE = "No data file is in it; empty files have no rows. Files that end in .avro"

MISTAKES: dict[str, tuple[Sequence[str], str]] = {
    # Commands.
    "a word of another tool": (["ls"], "No such command 'ls'. Run: metastore tables"),
    "a statement as a command": (["SELECT", "1"], "No such command 'SELECT'. Run: metastore sql \"STATEMENT\""),
    "an option that slipped": (
        ["describe", "sales", "--josn"],
        "No such option: --josn (Possible options: --conf, --json)",
    ),
    "an argument too many": (["describe", "sales", "column"], "Got unexpected extra argument(s) (column)"),
    "no condition": (["prune", "./sales"], "Missing argument 'where'."),
    "no table": (["analyze"], "name a table: plugin.workspace.table, a path, a pattern, or --all alone"),
    "no statement": (["sql", ""], "a statement is expected"),
    "no target of a publication": (["publish", "./sales"], "Missing argument 'NAME'."),
    # Paths.
    "no such folder": (["analyze", "./sale"], "there is no file or directory {folder}/sale"),
    "a file that is no Parquet": (["analyze", "./broken"], "broken/x.parquet is no readable Parquet file"),
    "a folder without data files": (
        ["analyze", "./empty"],
        NO_FILE,
    ),
    "a folder of texts": (
        ["analyze", "./texts"],
        NO_FILE,
    ),
    "no keys for a bucket": (["analyze", "s3://nowhere-at-all/x"], "no keys found: set them in the environment"),
    "no such host": (["analyze", "hdfs://nohost.invalid:8020/x"], "cannot reach nohost.invalid:9870"),
    "a store that is not known": (
        ["analyze", "ftp://host/x"],
        "ftp://host/x has a scheme that is not known; there are file, ",
    ),
    # Conditions.
    "a column that slipped": (
        ["prune", "./sales", "amout > 2"],
        "unknown column 'amout' at position 1 of 'amout > 2'; did you mean amount?",
    ),
    "a condition that ends early": (
        ["prune", "./sales", "amount >"],
        "line 1, column 8: a value or a condition is missing at '>'",
    ),
    "a condition with one side": (["prune", "./sales", "id = 1 AND"], "a value or a condition is missing at 'AND'"),
    "an open quote": (["prune", "./sales", "name = 'a"], "a quote may be open"),
    "an assignment": (["prune", "./sales", "id := 1"], "line 1, column 5: nothing can have this here at ':='"),
    # Configuration.
    "no such configuration": (["--conf", "nope.conf", "tables"], "the configuration 'nope.conf' does not exist"),
    "an open brace": (
        ["--conf", "open.conf", "tables"],
        "open.conf:2 is not HOCON: the file ends inside of an object or a list; close it",
    ),
    "a key that slipped": (
        ["--conf", "typo.conf", "tables"],
        "did you mean drill.metastore.iceberg.location.base_path?",
    ),
    "a substitution of nothing": (
        ["--conf", "substitution.conf", "tables"],
        "refers to ${{nowhere}}, which is neither a key nor an environment variable",
    ),
    "a duration": (
        [*LAKE, "expire", "--older-than", "10 lightyears"],
        "'10 lightyears' is no duration: unknown unit 'lightyears'",
    ),
    "no daemon": ([*LAKE, "daemon", "--status"], "no daemon answers at http://127.0.0.1:9464/healthz"),
    # SQL.
    "a first word that slipped": (
        ["sql", "SELEC 1"],
        "no statement begins with SELEC; did you mean SELECT, SET or USE?",
    ),
    "a table that slipped": (["sql", "SELECT * FROM sale"], "unknown table sale; did you mean dfs.my.sales"),
    "a column of a query": (["sql", "SELECT nme FROM sales"], "column 8: there is no column nme; did you mean name?"),
    "a query that ends early": (["sql", "SELECT * FROM sales WHERE"], 'column 21: syntax error at or near "WHERE"'),
    "a reserved word": (
        ["sql", "SELECT order FROM sales"],
        "order is a reserved word: as the name of a column it needs quotes",
    ),
    "a sum of texts": (["sql", "SELECT sum(name) FROM sales"], "there is no function sum(VARCHAR); there are sum("),
    "a function that slipped": (
        ["sql", "SELECT cuont(*) FROM sales"],
        "there is no function cuont; did you mean count?",
    ),
    "an insert into files": (
        ["sql", "INSERT INTO sales VALUES (1)"],
        "dfs is a plugin with tables of files, which are read only here",
    ),
    "a drop of files": (["sql", "DROP TABLE sales"], "CREATE VIEW stores a query over them"),
    # Tables of a catalog.
    "a catalog that slipped": (
        [*LAKE, "sql", "SELECT * FROM lak.s.t"],
        "there is no catalog or plugin lak; did you mean lake?",
    ),
    "a schema that slipped": ([*LAKE, "sql", "SELECT * FROM lake.x.t"], "schema lake.x does not exist"),
    "a table of a schema": ([*LAKE, "sql", "SELECT * FROM lake.s.u"], "column 15: table lake.s.u does not exist"),
    "a type that slipped": (
        [*LAKE, "sql", "CREATE TABLE lake.s.n (a INTT)"],
        "INTT is no type of an Iceberg column; there are BIGINT",
    ),
    "a table twice": ([*LAKE, "sql", "CREATE TABLE lake.s.t (a INT)"], "table lake.s.t exists already"),
    "a text for a number": (
        [*LAKE, "sql", "INSERT INTO lake.s.t VALUES ('x', 'y')"],
        "column a is int, and the query gives string",
    ),
    "a value too few": (
        [*LAKE, "sql", "INSERT INTO lake.s.t VALUES (1)"],
        "the query has 1 columns, and values are expected for 2: a, b",
    ),
    "a required value": (
        [*LAKE, "sql", "INSERT INTO lake.s.t VALUES (NULL, 'y')"],
        "column a is required: 1 rows have no value for it",
    ),
    "a column of an update": (
        [*LAKE, "sql", "UPDATE lake.s.t SET c = 1"],
        "c is no column of the table; there are a, b",
    ),
    "a version that is not there": (
        [*LAKE, "sql", "SELECT * FROM lake.s.t FOR VERSION AS OF 5"],
        "table s.t has no snapshot 5",
    ),
    "a branch that is not there": (
        [*LAKE, "sql", 'SELECT * FROM lake.s."t@dev"'],
        "column 15: table s.t has no branch or tag 'dev'; it has none",
    ),
    "a partition of a new name": (
        [*LAKE, "sql", "ALTER TABLE lake.s.t ADD PARTITION FIELD day(z)"],
        "column 46: there is no column z; there are a, b",
    ),
    # Procedures.
    "a procedure that slipped": (
        [*LAKE, "sql", "CALL lake.system.expire_snapshot('s.t')"],
        "did you mean system.expire_snapshots",
    ),
    "an argument that is missing": (
        [*LAKE, "sql", "CALL lake.system.expire_snapshots()"],
        "Required procedure argument 'schema' is missing",
    ),
    "an argument that slipped": (
        [*LAKE, "sql", "CALL lake.system.expire_snapshots(tabel => 's.t')"],
        "Unknown argument name: tabel; the procedure is",
    ),
    "a time that is none": (
        [*LAKE, "sql", "CALL lake.system.expire_snapshots(table => 's.t', older_than => 'yesterdy')"],
        "argument 'older_than'",
    ),
    "a publication onto a table": (
        [*LAKE, "publish", "dfs.my.sales", "lake.s.t"],
        "lake.s.t is no published table: choose another name for dfs.my.sales",
    ),
}


def run(*arguments: str) -> Ran:
    """A command line in the working directory."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, on a screen of 80 columns, with no keys anywhere."""
    monkeypatch.delenv("METASTORE_CONF_DIR", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of files, a lake beside it, and some things that are wrong."""
    made = tmp_path_factory.mktemp("mistakes")
    for name in ("sales", "empty", "texts", "broken"):
        (made / name).mkdir()
    rows = pa.table({"id": [1, 2, 3], "amount": [1.5, 2.5, 3.5], "name": ["a", "b", "c"]})
    pq.write_table(rows, made / "sales" / "a.parquet")
    (made / "texts" / "readme.md").write_text("hello")
    (made / "broken" / "x.parquet").write_bytes(b"PAR1 this is no Parquet")
    (made / "open.conf").write_text('drill.metastore { iceberg.location.base_path = "m"\n')
    (made / "typo.conf").write_text(f'drill.metastore {{ iceberg.locations.base_path = "{made}/m" }}')
    (made / "substitution.conf").write_text("drill.metastore { iceberg.location.base_path = ${nowhere} }")
    (made / "lake.conf").write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{made}/m"\n'
        f'catalogs.lake {{ type = sql, uri = "sqlite:///{made}/l.db", warehouse = "file://{made}/wh" }}\n'
        f'storage.dfs {{ type = file, workspaces.my {{ location = "{made}" }} }} }}'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made))
        patch.chdir(made)
        for arguments in (
            ("analyze", "./sales"),
            (*LAKE, "analyze", "dfs.my.sales"),
            (*LAKE, "sql", "CREATE SCHEMA lake.s"),
            (*LAKE, "sql", "CREATE TABLE lake.s.t (a INT NOT NULL, b VARCHAR)"),
        ):
            done = run(*arguments)
            assert done.code == 0, done.err
    return made


def test_there_are_fifty() -> None:
    """Each text once."""
    assert len(MISTAKES) >= 50
    assert len({" ".join(arguments) for arguments, _ in MISTAKES.values()}) == len(MISTAKES)


def test_words_of_other_tools_name_commands_and_are_none() -> None:
    """Every text of them is understood by the command line."""
    commands = {each.name for each in get_group(app).commands.values()}
    assert not commands & INSTEAD.keys()
    assert {text.split()[0] for text in INSTEAD.values()} <= commands | {"--help", "--version"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(folder: Path, mistake: str) -> None:
    """The text names what is wrong; no line of a traceback, no name of an exception, no other library's words."""
    arguments, text = MISTAKES[mistake]
    done = run(*arguments)
    words = " ".join((done.out + done.err).replace("│", " ").split())
    assert " ".join(text.format(folder=folder).split()) in words
    assert not any(
        each in words for each in ("Traceback", "Error:", "sqlglot", "pydantic", "<class", "\\t", "Candidate")
    )
    assert len(words) < 900
