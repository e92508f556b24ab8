"""ANALYZE TABLE … REFRESH METADATA and DROP METADATA: list, decide, read on an engine, roll up, commit once.

A run is one transaction. Readers see the metadata from before or after it. A run that fails, for example at a corrupt
file, leaves nothing behind. A commit succeeds only on top of the very metadata that the decision was based on. If a
concurrent run over the same table commits first, the decision is made again, so the result is that of one run. Commits
to other tables only cost one more check.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from metastore.analyze.changes import (
    Decision,
    Full,
    KnownTable,
    NothingToDo,
    WantedMetadata,
    decide,
)
from metastore.analyze.execution import Execution
from metastore.analyze.found_files import FoundFiles
from metastore.analyze.named_parts import NamedParts, found_parts, whole_is_needed
from metastore.analyze.reading import Progress, Reading
from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.analyze.table_survey import TableSurvey
from metastore.analyze.tasks.chunks import Limits
from metastore.analyze.units.rollup import refuse_unknown_columns
from metastore.components.operations.versions import on_newest
from metastore.components.requests import of_table
from metastore.components.tables import Tables
from metastore.engines.engine import Engine
from metastore.errors import ConflictError, FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.ground.user import user_name
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import KNOWN, PARQUET, format_of_files, format_record
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import CASE_SENSITIVE, TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

_DECISIONS = 5
"""How often a run starts over because a concurrent run analyzed the same table."""


def analyze(
    tables: Tables,
    source: SourceTable,
    engine: Engine | Callable[[int], Engine],
    request: AnalyzeRequest | None = None,
    *,
    parts: NamedParts | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_progress: Progress | None = None,
    limits: Limits | None = None,
) -> AnalyzeResult:
    """Brings the metadata of ``source`` up to date with its files; ``engine`` may be a function of the number to read.

    Unchanged data: nothing is written. Changed data: only top-level segments with changes are written again, and only
    changed files are read. Another level, other columns or new statistics: only what is missing is read of unchanged
    files. Everything is rebuilt if the table moved, or has another format or another declared schema.

    With ``parts``, only these are looked at, and all other files count as the last run found them. The level is then
    the table's own, unless the request has another than the default. Raises InvalidRequestError if the table was not
    analyzed before, or if all its files are affected.

    Raises NotFoundError if nothing lies at the location, and InvalidRequestError for a view or an unknown column, level
    or format. Raises FormatError naming a corrupt file, and ConflictError if concurrent runs over this table keep
    committing first. On any error the metadata stays as it was. ``limits`` default to the values that measured best.
    """
    began = clock()
    asked = (request or AnalyzeRequest()).to_wanted_metadata()
    lost = ConflictError(f"other runs kept analyzing {source.table}; nothing was changed by this one, run it again")
    result = on_newest(
        tables.metadata,
        lambda version: _analyze_once(tables, version, source, engine, asked, parts, on_progress, limits or Limits()),
        lost,
        attempts=_DECISIONS,
    )
    return replace(result, seconds=clock() - began)


def _analyze_once(
    tables: Tables,
    version: int,
    source: SourceTable,
    engine: Engine | Callable[[int], Engine],
    request: WantedMetadata,
    parts: NamedParts | None,
    on_progress: Progress | None,
    limits: Limits,
) -> AnalyzeResult | ConflictError:
    """Runs :func:`analyze` on top of ``version``.

    Returns the conflict if others have changed the table's metadata since, or a surveyed directory has lost its files.
    """
    stored = StoredMetadata(tables, source.table, version)
    modify = tables.modify()
    try:
        survey = TableSurvey.of_large(source, stored, limits) if parts is None and _is_of_footers(request) else None
        if survey is not None:
            # The engine that reads is chosen later, by the number of files to read.
            lister = engine(0) if callable(engine) else engine
            files = survey.files_by(lister, source, stored, modify.reach(), limits)
        elif parts is None:
            files = FoundFiles.whole(source.files_beside(lambda: stored.known_table))
        else:
            files = found_parts(source, stored, parts)
            request = _at_own_level(request, stored.known_table)
        decision = _decide_with_format(source, stored, files, request)
        if isinstance(decision, NothingToDo):
            if files.states and request.named:
                refuse_unknown_columns(request.named, stored.schema)
            return AnalyzeResult("up to date", source.table, version, files.count, passed_over=files.passed_over)
        if parts is not None and decision.reason is not None:
            raise whole_is_needed(source, decision.reason)
        if survey is not None and not _is_of_footers(decision.wanted):
            files = FoundFiles.whole(source.files())
        reading = Reading(source, decision.wanted, engine, on_progress, limits)
        execution = Execution(modify, files, reading, source=source, request=decision.wanted, limits=limits)
        owner = source.owner or _owner(source.location)
        try:
            if isinstance(decision, Full):
                outcome = execution.rebuild_table(owner=owner, replaces=stored.known_table is not None)
            else:
                outcome = execution.rebuild_changes(decision, stored, owner=owner)
        except ConflictError as error:
            return error
        committed = modify.execute_unless_changed(version, of_table(source.table))
    finally:
        modify.abandon()
    if isinstance(committed, ConflictError):
        return committed
    return AnalyzeResult(
        status="analyzed",
        table=source.table,
        version=committed,
        files=files.count,
        **outcome.files._asdict(),
        segments_written=outcome.segments,
        segments_removed=len(outcome.removed),
        units=outcome.units,
        rows=outcome.rows,
        reason=decision.reason,
        engine=reading.engine_name,
        without_bounds=outcome.without_bounds,
        passed_over=files.passed_over,
    )


def _is_of_footers(request: WantedMetadata) -> bool:
    """Whether footers may suffice; the format is empty before the files determine it."""
    return request.describing is None and request.format in ("", PARQUET)


def _decide_with_format(
    source: SourceTable, stored: StoredMetadata, files: FoundFiles, request: WantedMetadata
) -> Decision:
    """Decides what to do with the files found. Raises InvalidRequestError for what the table's keeper rules out."""
    known = stored.known_table
    found = _with_format(source, files.samples(source.location), known, request)
    if source.provided is not None and request.describing is not None:
        raise InvalidRequestError(
            f"{source.table} is {found.format}: its statistics come with its metadata, and none are computed"
        )
    if source.provided is not None and request.bounds is not None:
        raise InvalidRequestError(
            f"{source.table} is {found.format}: its bounds come with its metadata; leave BOUNDS out"
        )
    return decide(
        known,
        files.states,
        location=source.location,
        request=found,
        other_columns=known is not None and _has_other_columns(source, stored.schema, request),
        lacks_bounds=stored.lacks_bounds,
    )


def _at_own_level(request: WantedMetadata, known_table: KnownTable | None) -> WantedMetadata:
    """``request`` at the level of the table's metadata, if it has the default level."""
    if known_table is None or known_table.level is None or request.level is not MetadataType.ROW_GROUP:
        return request
    return replace(request, level=known_table.level)


def _has_other_columns(source: SourceTable, stored: TupleSchema, request: WantedMetadata) -> bool:
    """Whether the table's catalog names other columns than the ``stored`` ones, or case-sensitivity changed.

    Case-sensitivity counts only for tables of files, if the run sets it.
    """
    if not source.says_columns:
        return (CASE_SENSITIVE in stored.properties) != request.case_sensitive
    now = [(column.name, column.type) for column in source.schema(stored).columns]
    return now != [(column.name, column.type) for column in stored.columns]


def drop_metadata(tables: Tables, table: TableInfo, *, if_exists: bool = False) -> bool:
    """Deletes the metadata of ``table``, whose data stays; returns True if there was any.

    Raises NotFoundError if there was none, unless ``if_exists``. Works even if files of the table's metadata are lost.
    """
    if _is_known(tables, table):
        tables.modify().delete(of_table(table), MetadataType.ALL).execute()
        return True
    if if_exists:
        return False
    raise NotFoundError(f"there is no metadata of {table}; analyze the table first")


def _is_known(tables: Tables, table: TableInfo) -> bool:
    """Whether there is metadata of ``table``, even if one of its files is lost: only reading needs the file."""
    read = tables.read().metadata_types(MetadataType.ALL).columns("metadataKey").filter(of_table(table))
    try:
        return read.to_arrow().num_rows > 0
    except (FormatError, StorageError):
        return True


def _with_format(
    source: SourceTable, files: Sequence[SourceFile], known_table: KnownTable | None, request: WantedMetadata
) -> WantedMetadata:
    """``request``, with the table's own format and text options where the request has none."""
    format_ = request.format or _format(source, files, known_table)
    text = request.text
    if text is None and not (
        known_table is not None and known_table.format == format_ and known_table.state.text_is_own
    ):
        text = source.text_options(files)
    if text is not None and not format_record(format_).takes_text_options:
        if request.text is not None:
            taking = ", ".join(each.name for each in KNOWN if each.takes_text_options)
            raise InvalidRequestError(f"{source.table} is {format_}; options of text are for {taking}")
        text = None
    bounds = request.bounds or source.bounds
    if bounds is not None and bounds.columns and source.bounds is not None:
        bounds = BoundsFrom(source.bounds.source, bounds.columns)
    return replace(request, format=format_, text=text, text_is_own=request.text is not None, bounds=bounds)


def _format(source: SourceTable, files: Sequence[SourceFile], known_table: KnownTable | None) -> str:
    """The format by the table's keeper, else by the files' suffixes and the configuration, else as before."""
    if source.provided is not None:
        return source.provided.format
    configured = {suffix: format_ for suffix, (format_, _) in source.by_suffix.items()}
    return (
        source.format or format_of_files(files, configured) or (PARQUET if known_table is None else known_table.format)
    )


def _owner(location: str) -> str:
    """The owner of the location on the local disk, else the user of this process."""
    if location.startswith("/"):
        with suppress(KeyError, OSError):
            return pwd.getpwuid(os.stat(location).st_uid).pw_name
    return user_name()
