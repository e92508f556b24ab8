"""The law of the doors: analyzes each data file below a folder, and reads it through every door.

The tested law: if ANALYZE accepts a file, every door (:mod:`support.doctor.doors`) returns equal rows or a typed
error, and the package raises no exception of another library. The folder is not changed: the metadata is written to a
metastore of its own in a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from support.doctor.aggregates import contradictions
from support.doctor.doors import DOORS, RUN_BY_OTHERS, Answer, ReadRows, ask
from support.doctor.same_rows import difference

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.lake.formats.source_file import suffix_of
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.sources.listing import list_files

_FILES_OF_A_METASTORE: Final = 64
"""Number of files that share a temporary metastore; a version lists all previous tables."""

EQUAL, REFUSED, PARTLY, DIFFERENT = "equal", "refused", "partly", "different"
"""Outcomes: all doors returned the same rows; ANALYZE or all doors refused the file with a typed error; some doors
returned the same rows, the others refused with a typed error; or the law is broken."""


@dataclass(frozen=True)
class DoorReport:
    """A door's result for a file: its number of rows, or its error. ``code`` is None for a foreign exception."""

    door: str
    rows: int | None
    code: str | None
    error: str | None


@dataclass(frozen=True)
class FileReport:
    """The result of one file: the outcome, the contradictions, and the result of each door."""

    file: str
    suffix: str
    outcome: str
    contradictions: tuple[str, ...]
    doors: tuple[DoorReport, ...]


@dataclass(frozen=True)
class FolderReport:
    """The results of all files below a folder."""

    folder: str
    files: tuple[FileReport, ...]

    def as_document(self) -> Mapping[str, object]:
        """Returns the folder, the number of files with each outcome, and each file's report."""
        return {"folder": self.folder, "outcomes": self.outcomes, "files": self.files}

    @property
    def outcomes(self) -> Mapping[str, int]:
        """The number of files with each outcome."""
        found = [file.outcome for file in self.files]
        return {outcome: found.count(outcome) for outcome in (EQUAL, PARTLY, REFUSED, DIFFERENT)}


def examine(folder: str | Path, *, doors: Mapping[str, ReadRows] = DOORS) -> FolderReport:
    """Test every data file below ``folder``, each as a table.

    Raises NotFoundError if there are none, InvalidRequestError if ``folder`` is a file, StorageError if it cannot be
    listed. Faults of a file are part of the report.
    """
    root = Path(folder).expanduser().resolve()
    if root.is_file():
        raise InvalidRequestError(f"{root} is a file; give the folder around it")
    paths = [Path(file.path) for file in list_files(str(root)).files]
    reports: list[FileReport] = []
    for start in range(0, len(paths), _FILES_OF_A_METASTORE):
        with _temporary_session() as session:
            portion = paths[start : start + _FILES_OF_A_METASTORE]
            reports += (_report(session, path, str(path.relative_to(root)), doors) for path in portion)
    return FolderReport(str(root), tuple(reports))


@contextmanager
def _temporary_session() -> Iterator[Session]:
    """Yields a session over an empty metastore, which is deleted when the session ends."""
    with TemporaryDirectory(prefix="metastore-doctor-") as folder:
        settings = Settings.from_mapping(
            {
                "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
                "drill.metastore.storage.dfs.connection": "file:///",
                "drill.metastore.engine.kind": "local",
            },
            environ={},
        )
        with Session(Metastore.open(settings)) as session:
            yield session


def _report(session: Session, path: Path, name: str, doors: Mapping[str, ReadRows]) -> FileReport:
    table = session.table_info(path)

    def analyzed(session: Session, _: TableInfo) -> pa.Table:
        return pa.table({"rows": [session.analyze(path).rows]})

    answers = {"analyze": ask(analyzed, session, table)}
    if answers["analyze"].error is None:
        answers.update({door: ask(read, session, table) for door, read in doors.items()})
    found = [*_contradictions(session, table, path, answers)]
    reports = tuple(
        DoorReport(door, _rows(door, answer), answer.code, answer.error) for door, answer in answers.items()
    )
    return FileReport(name, suffix_of(path.name), _outcome(answers, found), tuple(found), reports)


def _rows(door: str, answer: Answer) -> int | None:
    if answer.rows is None:
        return None
    return int(answer.rows["rows"][0].as_py()) if door == "analyze" else answer.rows.num_rows


def _outcome(answers: Mapping[str, Answer], contradictions_: list[str]) -> str:
    if contradictions_:
        return DIFFERENT
    errors = [answer for door, answer in answers.items() if answer.error is not None]
    if not errors:
        return EQUAL
    doors = len(answers) - 1
    return REFUSED if not doors or len(errors) == doors else PARTLY


def _contradictions(session: Session, table: TableInfo, path: Path, answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yields violations of the law, as short texts."""
    doors = [door for door in answers if door != "analyze"]
    # What SQL refuses, DuckDB refuses in its own words when a user runs its relation.
    is_refused = any(answers.get(door, Answer()).code is not None for door in (next(iter(doors), ""), "sql"))
    for door, answer in answers.items():
        if answer.is_foreign and not (is_refused and door in RUN_BY_OTHERS):
            yield f"{door} raises {answer.error}"
    rows = {door: answer.rows for door, answer in answers.items() if answer.rows is not None and door != "analyze"}
    refusals = {door: answer for door, answer in answers.items() if answer.code is not None}
    if not rows:
        if len({answer.code for answer in refusals.values()}) > 1:
            yield "engines refuse the file with different errors"
        for door, answer in refusals.items():
            # such an error names the column, which does not depend on the file
            is_of_columns = answer.code == InvalidRequestError.code
            if not is_of_columns and path.name not in str(answer.error):
                yield f"{door} refuses the file without naming it: {answer.error}"
        return
    first, expected = next(iter(rows.items()))
    for door, found in rows.items():
        if (text := difference(expected, found)) is not None:
            yield f"{door} differs from {first}: {text}"
    known = _rows("analyze", answers["analyze"])
    if known != expected.num_rows:
        yield f"ANALYZE counts {known} rows, and {expected.num_rows} are read"
    try:
        yield from contradictions(session, table, expected)
    except MetastoreError as error:
        yield f"an aggregate or a condition is refused, though the rows are read: {error}"
    except Exception as error:  # noqa: BLE001 - that no other library's error comes out is what is tried
        yield f"an aggregate or a condition raises {type(error).__module__}.{type(error).__name__}: {error}"
