"""Procedures that Spark, Trino and Presto know by another name, or that have two names here.

Place in the flow: a name that no procedure of a catalog has is looked up here. Trino's ``ALTER TABLE … EXECUTE`` gives
table and arguments apart; :func:`of_table` puts them together. Arguments are translated afterwards (:mod:`spellings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.binding import GivenArgument
from metastore.procedures.framework.model import BaseProcedure
from metastore.procedures.framework.spellings import names_hive_table, parts_of_table

_OPTIMIZE: Final = "system.optimize"
OURS: Final[Mapping[str, str]] = {
    _OPTIMIZE: "system.rewrite_data_files",
    "system.optimize_manifests": "system.rewrite_manifests",
    "system.drop_extended_stats": "system.drop_stats",
    "system.rewrite_delete_files": "system.rewrite_position_delete_files",
    "system.add_files_from_table": "system.add_files_from_hive",
}
"""Names of Trino and Presto, each with our name of the same meaning."""

_THRESHOLD_OF_TRINO: Final = "100MB"
_ADD_FILES: Final = "system.add_files"
_ADD_FILES_FROM_HIVE: Final = "system.add_files_from_hive"
_SOURCE: Final[Mapping[str, str]] = {"schema_name": "source_schema", "table_name": "source_table"}
_POSITIONAL: Final[Mapping[str, tuple[str, ...]]] = {"system.rewrite_data_files": ("file_size_threshold",)}
"""Trino's arguments by position, where their order is not ours."""


def with_defaults(foreign: str | None, arguments: Sequence[GivenArgument]) -> list[GivenArgument]:
    """Returns the arguments with the defaults of a foreign procedure that are not ours; for calls by name."""
    names = {(each.name or "").lower() for each in arguments}
    if foreign == _OPTIMIZE and "" not in names and names.isdisjoint({"file_size_threshold", "options"}):
        return [*arguments, GivenArgument(_THRESHOLD_OF_TRINO, "file_size_threshold")]
    return list(arguments)


def other_name(name: str, arguments: Sequence[GivenArgument], catalog: str) -> tuple[str, list[GivenArgument]]:
    """Returns the procedure that does what a call of ``name`` means, and its arguments.

    Spark's ``add_files`` takes the files of a Hive table, too, which is another procedure here.
    """
    source = next((each for each in arguments if (each.name or "").lower() == "source_table"), None)
    if name.lower() != _ADD_FILES or source is None or not names_hive_table(source.value):
        return name, list(arguments)
    schema, table = parts_of_table(source.value, catalog, source.place)
    others = [each for each in arguments if each is not source]
    return _ADD_FILES_FROM_HIVE, [
        *others,
        replace(source, name="source_schema", value=schema),
        replace(source, name="source_table", value=table),
    ]


def of_table(
    procedure: BaseProcedure, schema: str, table: str, arguments: Sequence[GivenArgument], where: GivenArgument | None
) -> list[GivenArgument]:
    """Returns the arguments of a call on one table, all by name; ``where`` is the condition of the statement.

    Raises InvalidRequestError if the procedure is not about a table, or takes no condition.
    """
    names = [argument.name for argument in procedure.arguments]
    if "table_name" not in names:
        raise InvalidRequestError(f"{procedure.name} is not about one table; use CALL")
    own = [GivenArgument(schema, "schema" if "schema" in names else "schema_name"), GivenArgument(table, "table_name")]
    others = tuple(name for name in names if name not in {each.name for each in own})
    rest = _POSITIONAL.get(procedure.qualified_name, others)
    if len(rest) < sum(each.name is None for each in arguments):
        raise InvalidRequestError(f"{procedure.name} takes at most {len(rest)} arguments by position")
    if "source_table" in names:
        arguments = [replace(each, name=_SOURCE.get((each.name or "").lower(), each.name)) for each in arguments]
    free = iter(rest)
    named = [replace(each, name=next(free)) if each.name is None else each for each in arguments]
    if where is not None:
        if "filter" not in names:
            raise InvalidRequestError(f"{procedure.name} takes no condition; leave WHERE out")
        named.append(where)
    return [*own, *named]
