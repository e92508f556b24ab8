"""The ``filter`` of a procedure: a condition that chooses files of an Iceberg table.

The condition is parsed like that of ``ms.prune``: Spark SQL, times without a zone are UTC. A filter chooses whole
files, never rows. A part that cannot choose files is refused, because ignoring it would choose too many files.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.predicates.exact_filter import condition_in
from metastore.predicates.iceberg_filter import iceberg_filter


def files_by(text: str, schema: Schema) -> BooleanExpression:
    """Returns the expression over columns of ``schema`` that chooses files.

    Raises InvalidRequestError if ``text`` is not a condition, has an unknown column, or has a part that cannot choose
    files.
    """
    chosen = iceberg_filter(condition_in(text, schema), schema)
    if chosen.unusable:
        reasons = "; ".join(note for note in chosen.notes if note.startswith("not usable"))
        raise InvalidRequestError(
            f"the filter {text!r} cannot choose files: {reasons}. Compare columns with constants of their types"
        )
    return chosen.expression
