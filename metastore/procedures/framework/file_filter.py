"""The ``filter`` of a procedure: a condition that chooses files of an Iceberg table.

It is read as ``ms.prune`` reads one: Spark SQL, times without a zone in UTC. A filter chooses files and never rows. A
part that cannot choose files is refused, since more files would be chosen than were asked for.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.predicates.exact_filter import condition_in
from metastore.predicates.iceberg_filter import iceberg_filter


def files_by(text: str, schema: Schema) -> BooleanExpression:
    """The expression over columns of ``schema`` that files are chosen by.

    Raises InvalidRequestError for what is no condition, an unknown column, and a part that files cannot be chosen by.
    """
    chosen = iceberg_filter(condition_in(text, schema), schema)
    if chosen.unusable:
        reasons = "; ".join(note for note in chosen.notes if note.startswith("not usable"))
        raise InvalidRequestError(
            f"the filter {text!r} cannot choose files: {reasons}. Compare columns with constants of their types"
        )
    return chosen.expression
