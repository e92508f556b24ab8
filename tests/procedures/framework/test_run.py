"""A distributed run: begun, its tasks done on an engine, finished once; and what happens when something of it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.errors import ConflictError, EngineError, MetastoreError, OutcomeUnknownError, ProcedureError
from metastore.procedures import (
    Argument,
    CallContext,
    DistributedProcedureType,
    Plan,
    Procedure,
    TableImportDistributedProcedure,
    columns,
)
from metastore.session import Session

FRAGMENT = columns(number=pa.int64(), file=pa.string())


def write(folder: str, fail_at: int | None, number: int) -> Iterator[pa.RecordBatch]:
    """The task: write one file, and tell its name."""
    if number == fail_at:
        raise ValueError(f"{number} is one too many")
    path = Path(folder, f"{number}.txt")
    path.write_text(str(number))
    yield pa.RecordBatch.from_pylist([{"number": number, "file": str(path)}], schema=FRAGMENT)


@dataclass
class Job:
    """One call: where it writes, and what was done."""

    folder: str
    count: int
    steps: list[str] = field(default_factory=list)


class WriteFiles(TableImportDistributedProcedure[Job]):
    """Writes ``count`` files; ``fail_at`` makes a task fail, ``failing`` is raised by its finish."""

    def __init__(self, folder: Path, *, fail_at: int | None = None, failing: Exception | None = None) -> None:
        arguments = (
            Argument("schema"),
            Argument("table_name"),
            Argument("count", "INTEGER"),
            Argument("filter", required=False),
        )
        super().__init__("system", "write_files", arguments, result=columns(files=pa.int64(), sum=pa.int64()))
        self.folder = folder
        self.fail_at = fail_at
        self.failing = failing
        self.jobs: list[Job] = []

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> Job:
        """A new job."""
        assert call.catalog == "lake"
        self.jobs.append(Job(str(self.folder), arguments["count"]))
        return self.jobs[-1]

    def begin(self, context: Job) -> Plan:
        """One file a number."""
        context.steps.append("begin")
        task = partial(write, context.folder, self.fail_at)
        return Plan(range(context.count), task, FRAGMENT, pinned=7, describe=f"{context.count} files")

    def finish(self, context: Job, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        """Sum up."""
        context.steps.append("finish")
        numbers = [number for batch in fragments for number in batch["number"].to_pylist()]
        if self.failing is not None:
            raise self.failing
        return {"files": len(numbers), "sum": sum(numbers)}

    def abort(self, context: Job, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Remove what arrived."""
        context.steps.append("abort")
        for batch in fragments:
            for path in batch["file"].to_pylist():
                Path(str(path)).unlink()


Make = Callable[..., WriteFiles]


@pytest.fixture
def make(session: Session, tmp_path: Path) -> Make:
    """Register the procedure in ``lake``; what it writes is in the folder ``out``."""
    (tmp_path / "out").mkdir()

    def register(**wrong: Any) -> WriteFiles:
        procedure = WriteFiles(tmp_path / "out", **wrong)
        session.procedures.register("lake", procedure)
        return procedure

    return register


def call(session: Session, count: int, **more: Any) -> list[dict[str, Any]]:
    """Call it."""
    return session.call("lake.system.write_files", "db", "t", count, **more).to_pylist()


def test_begin_tasks_finish(session: Session, make: Make) -> None:
    """Each work item once; the answer has the declared columns, and progress reaches the end."""
    procedure, seen = make(), []
    rows = call(session, 5, on_progress=lambda done, total: seen.append((done, total)))
    assert rows == [{"files": 5, "sum": 10}]
    assert seen == [(done, 5) for done in range(1, 6)]
    assert [job.steps for job in procedure.jobs] == [["begin", "finish"]]


def test_nothing_planned(session: Session, make: Make) -> None:
    """No engine is asked; finish tells so."""
    procedure = make(fail_at=0)
    assert call(session, 0) == [{"files": 0, "sum": 0}]
    assert procedure.jobs[0].steps == ["begin", "finish"]


def test_a_task_that_fails(session: Session, make: Make) -> None:
    """Nothing is finished, and what had arrived is removed; the error is the task's."""
    procedure = make(fail_at=0)
    with pytest.raises(EngineError, match="0 is one too many"):
        call(session, 4)
    assert procedure.jobs[0].steps == ["begin", "abort"]
    assert list(procedure.folder.iterdir()) == []


def test_a_finish_that_surely_committed_nothing(session: Session, make: Make) -> None:
    """What the tasks wrote is removed."""
    procedure = make(failing=ConflictError("others won"))
    with pytest.raises(ConflictError, match="others won"):
        call(session, 3)
    assert procedure.jobs[0].steps == ["begin", "finish", "abort"]
    assert list(procedure.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("failing", "error"),
    [(OutcomeUnknownError("who knows"), OutcomeUnknownError), (KeyError("a defect"), ProcedureError)],
)
def test_a_finish_of_which_nobody_knows(
    session: Session, make: Make, failing: Exception, error: type[MetastoreError]
) -> None:
    """What the tasks wrote may be in use, and stays."""
    procedure = make(failing=failing)
    with pytest.raises(error, match="who knows|lake.system.write_files failed: KeyError: 'a defect'"):
        call(session, 3)
    assert procedure.jobs[0].steps == ["begin", "finish"]
    assert len(list(procedure.folder.iterdir())) == 3


def test_an_abort_that_fails(
    session: Session, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first error is the one that is raised; the other one is logged."""

    def broken(*_: object) -> None:
        raise OSError("the store is away")

    monkeypatch.setattr(WriteFiles, "abort", broken)
    make(failing=ConflictError("others won"))
    with pytest.raises(ConflictError, match="others won"):
        call(session, 1)
    assert "system.write_files failed, and some of what its tasks wrote could not be removed" in caplog.text


def test_explain_begins_and_changes_nothing(session: Session, make: Make) -> None:
    """The plan as a tree, the source at the bottom, with the snapshot and the number of work items."""
    procedure = make()
    text = "EXPLAIN CALL lake.system.write_files(schema => 'db', table_name => 't', count => 3, filter => 'a > 1')"
    lines = session.sql(text)["plan"].to_pylist()
    assert lines == [
        "Output[files, sum]",
        "└─ TableFinish[3 files]",
        "   └─ CallDistributedProcedure[lake.system.write_files]",
        "        schema => 'db', table_name => 't', count => 3, filter => 'a > 1'",
        "      └─ Filter[a > 1]",
        "         └─ FileListing[snapshot 7, 3 work items]",
    ]
    assert procedure.jobs[0].steps == ["begin"]
    assert list(procedure.folder.iterdir()) == []
    assert session.procedures.explain("lake.system.write_files", "db", "t", 3)["plan"].to_pylist()[4:] == [
        "      └─ Filter[TRUE]",
        "         └─ FileListing[snapshot 7, 3 work items]",
    ]


def test_explain_of_a_kind_of_its_own(session: Session, tmp_path: Path) -> None:
    """Whoever brings a kind brings the nodes of its plan; those that say nothing more stand alone."""

    class Sweep(WriteFiles):
        type = DistributedProcedureType("SWEEP", ("Listing", "Shuffle", "CallDistributedProcedure", "Output"))

    session.procedures.register("lake", Sweep(tmp_path))
    assert session.procedures.explain("lake.system.write_files", "db", "t", 3)["plan"].to_pylist() == [
        "Output[files, sum]",
        "└─ CallDistributedProcedure[lake.system.write_files]",
        "     schema => 'db', table_name => 't', count => 3",
        "   └─ Shuffle",
        "      └─ Listing[snapshot 7, 3 work items]",
    ]


def test_explain_of_a_normal_one(session: Session) -> None:
    """It has no work to show: the call itself, which is not made."""
    plan = session.sql("EXPLAIN CALL lake.system.drop_tag('db', 'nowhere', 'v1')")
    assert plan["plan"].to_pylist() == [
        "Output[ref, type, previous_snapshot_id, snapshot_id]",
        "└─ Call[lake.system.drop_tag]",
        "     schema => 'db', table_name => 'nowhere', tag => 'v1', if_exists => False, dry_run => False",
    ]


def rows_of(kind: Any) -> Callable[[CallContext], Any]:
    """A function that returns ``kind``."""

    def function(context: CallContext) -> Any:
        assert context.now_ms() > 0
        return kind

    return function


@pytest.mark.parametrize(
    ("returned", "expected"),
    [({"x": 1}, [{"x": 1}]), ([], []), (({"x": each} for each in (1, None)), [{"x": 1}, {"x": None}])],
)
def test_one_row_or_rows(session: Session, returned: Any, expected: list[dict[str, Any]]) -> None:
    """A function returns either; they come as a table of the declared columns, also when there are none."""
    procedure = Procedure("system", "p", function=rows_of(returned), result=columns(x=pa.int64()))
    session.procedures.register("lake", procedure)
    table = session.call("lake.system.p")
    assert table.schema == procedure.result
    assert table.to_pylist() == expected


@pytest.mark.parametrize("returned", [{"y": 1}, {}, [{"x": 1, "y": 2}], {"x": "a"}])
def test_rows_that_were_not_declared(session: Session, returned: Any) -> None:
    """Other columns, or values of another type, are the procedure's defect, and it is named."""
    session.procedures.register(
        "lake", Procedure("system", "p", function=rows_of(returned), result=columns(x=pa.int64()))
    )
    with pytest.raises(ProcedureError, match=r"system\.p (declares|failed)"):
        session.call("lake.system.p")
