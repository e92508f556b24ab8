"""Folders that nobody configured: places, paths as a shell completes them, short names, and what wins over a place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.ran import Ran
from typer.testing import CliRunner

import metastore
from metastore.cli.app import app
from metastore.config.place import FILE, FOLDER, make, nearest
from metastore.errors import ConfigError, InvalidRequestError, NotFoundError

Type = Callable[..., Ran]
CONDITION = "amount > 950"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the folder ``sales`` of four files and nothing else; no configuration."""
    monkeypatch.delenv("METASTORE_CONF_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    work = tmp_path / "work"
    for part in range(4):
        at = work / "sales" / f"month={part % 2}"
        at.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"amount": range(part * 250, part * 250 + 250)}), at / f"{part}.parquet")
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def type_in(folder: Path) -> Type:  # noqa: ARG001 - the command runs there
    """Run a command line in the working directory, without options."""

    def carry_out(*arguments: str) -> Ran:
        result = CliRunner().invoke(app, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return carry_out


def judged() -> int:
    """How many rows DuckDB finds in the files of the working directory."""
    [(found,)] = duckdb.execute(f"SELECT count(*) FROM 'sales/*/*.parquet' WHERE {CONDITION}").fetchall()
    return int(found)


FIRST = {
    "analyze": ("analyze", "./sales"),
    "prune": ("prune", "./sales", CONDITION),
    "sql": ("sql", "--csv", f"SELECT count(*) AS n FROM sales WHERE {CONDITION}"),
    "init": ("init",),
}


@pytest.mark.parametrize("first", FIRST)
def test_the_first_command_may_be_any(folder: Path, type_in: Type, first: str) -> None:
    """It says in one line where metadata will be; then all of them work, and say it no more."""
    begun = type_in(*FIRST[first])
    assert begun.code == 0, begun.err
    assert begun.err.count(f"made {folder / FOLDER}") == 1
    assert type_in(*FIRST["analyze"]).code == 0
    assert "files              1" in type_in(*FIRST["prune"]).out
    asked = type_in(*FIRST["sql"])
    assert asked.out.splitlines() == ["n", str(judged())]
    assert asked.err == ""


@pytest.mark.parametrize(
    "name", ["my sales", "./my sales", "my sales/", "données", "a=b", "it's", "2026", "-x", "日本"]
)
def test_a_folder_may_have_any_name(folder: Path, type_in: Type, name: str) -> None:
    """The first command makes a place beside it, and the next one finds the table there."""
    (folder / "sales").rename(folder / name.strip("./"))
    given = f"./{name}" if name.startswith("-") else name
    begun = type_in("analyze", given)
    assert (begun.code, begun.err.count(f"made {folder / FOLDER};")) == (0, 1), begun.err
    assert f"dfs.my.{name.strip('./')}: analyzed 4 files" in begun.out
    assert "files              1" in type_in("prune", given, CONDITION).out


@pytest.mark.parametrize("path", ["sales/", "./sales", "sales", "{}/sales", "../work/sales/", "~/../work/sales"])
def test_a_path_is_what_a_shell_completes(folder: Path, type_in: Type, path: str) -> None:
    """Every spelling is the table dfs.my.sales of the place beside it."""
    ran = type_in("analyze", path.format(folder), "--json")
    assert ran.document["table"] == "dfs.my.sales"
    assert (folder / FOLDER / FILE).is_file()


def test_the_nearest_place_above_holds(folder: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder below, and from elsewhere by the table's path; no second place is made."""
    assert type_in("init", str(folder.parent)).code == 0
    assert type_in("analyze", "sales/").code == 0
    monkeypatch.chdir(folder / "sales")
    assert "dfs.my.work/sales" in type_in("tables").out
    monkeypatch.chdir("/")
    assert "dfs.my.work/sales where" in type_in("prune", str(folder / "sales"), CONDITION).out
    assert sorted(folder.parent.rglob(FOLDER)) == [folder.parent / FOLDER]


@pytest.mark.parametrize("by", ["conf/", "--conf", "METASTORE_CONF_DIR"])
def test_a_configuration_wins(folder: Path, type_in: Type, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has its configured name, nothing is made or analyzed unasked, and a place of the folder is not read."""
    make(folder)
    conf = folder / ("conf" if by == "conf/" else "elsewhere")
    conf.mkdir()
    (conf / FILE).write_text(
        f'drill.metastore.iceberg.location.base_path = "{folder}/kept"\n'
        f'drill.metastore.storage.dfs.workspaces.shop.location = "{folder}"\n'
    )
    if by == "METASTORE_CONF_DIR":
        monkeypatch.setenv(by, str(conf))
    given = ("--conf", str(conf)) if by == "--conf" else ()
    refused = type_in(*given, "prune", "./sales", CONDITION)
    assert "dfs.shop.sales has not been analyzed" in refused.err
    assert type_in(*given, "analyze", "./sales", "--json").document["table"] == "dfs.shop.sales"
    assert "would have no effect" in type_in(*given, "init", str(folder)).err
    assert not (folder / FOLDER / "metadata").exists()


def test_a_folder_that_is_not_there_makes_no_place(folder: Path, type_in: Type) -> None:
    """A slip of the keyboard leaves nothing behind."""
    assert "no file or directory" in type_in("analyze", "./salse").err
    assert "unknown table" in type_in("sql", "SELECT * FROM salse").err
    assert not (folder / FOLDER).exists()


def test_short_names_find_the_table_or_say_what_could_be_meant(folder: Path, type_in: Type) -> None:
    """One workspace fits, or the one that has the folder; otherwise the error names those that are there."""
    conf = folder / "two.conf"
    text = "".join(
        f'drill.metastore.storage.dfs.workspaces.{name}.location = "{folder}{below}"\n'
        for name, below in (("a", ""), ("b", "/other"))
    )
    conf.write_text(f'drill.metastore.iceberg.location.base_path = "{folder}/kept"\n{text}')
    for name in ("sales", "a.sales"):
        assert type_in("--conf", str(conf), "analyze", name, "--json").document["table"] == "dfs.a.sales"
    assert type_in("--conf", str(conf), "sql", "--csv", "SELECT count(*) AS n FROM a.sales").out == "n\n1000\n"
    (folder / "other" / "sales").mkdir(parents=True)
    assert "did you mean dfs.a.sales or dfs.b.sales?" in type_in("--conf", str(conf), "analyze", "sales").err
    assert "did you mean dfs.a.nosuch or dfs.b.nosuch?" in type_in("--conf", str(conf), "analyze", "nosuch").err


def test_python_opens_and_scans_a_folder(folder: Path) -> None:
    """Without ANALYZE before, whatever was imported, and after the session is closed; the answer is DuckDB's."""
    found = metastore.scan("./sales", where=CONDITION)
    assert (found.to_arrow().num_rows, len(found.paths)) == (judged(), 1)
    assert metastore.scan(folder / "sales", CONDITION, columns=["amount"]).to_arrow().column_names == ["amount"]
    with metastore.open("./sales") as session:
        assert str(session.table_info("./sales")) == "dfs.my.sales"
        assert session.analyze("sales").status == "up to date"
    with pytest.raises(NotFoundError, match="no file or directory"):
        metastore.scan("./salse")


def test_a_place_of_another_user_is_refused(folder: Path) -> None:
    """Its file chooses code that reads the data, so it needs the user's word: ``--conf`` with the folder."""
    make(folder)
    with pytest.raises(ConfigError, match=f"belongs to another user.*--conf {folder / FOLDER}"):
        nearest([folder / "sales"], trusted=[os.geteuid() + 1])
    assert nearest([folder / "sales"]) == folder


def test_a_place_that_was_edited_stays(folder: Path, type_in: Type) -> None:
    """A second ``init`` keeps what a user wrote; ``--conf`` with the folder reads the same from anywhere."""
    make(folder)
    file = folder / FOLDER / FILE
    file.write_text(file.read_text().replace("workspaces.my", "workspaces.shop"))
    assert type_in("init", str(folder)).code == 0
    assert type_in("--conf", str(folder / FOLDER), "analyze", "shop.sales", "--json").document["status"] == "analyzed"


def test_a_place_that_was_copied_does_not_write_into_the_first(folder: Path, type_in: Type) -> None:
    """Metadata names files by their whole paths, so a copy is refused."""
    assert type_in("analyze", "./sales").code == 0
    copy = folder.parent / "copy"
    copy.mkdir()
    os.rename(folder / FOLDER, copy / FOLDER)
    os.rename(folder / "sales", copy / "sales")
    assert "it is of another metastore" in type_in("analyze", str(copy / "sales")).err


def test_a_short_name_that_fits_nothing_is_an_error_of_this_package(folder: Path) -> None:
    """With the way to name a path."""
    with metastore.open(folder / "sales") as session, pytest.raises(InvalidRequestError, match=r"\./nosuch\.sales"):
        session.analyze("nosuch.sales")
