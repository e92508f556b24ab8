"""Variants in Arrow: structs of bytes with a type of their own, so that no struct with such fields is taken for one.

Place in the flow: rows of a query have this type in their variant columns (:mod:`metastore.duck.variants`), and what
stores them tells them from structs by it. The type has Arrow's own name, and is not registered: no file is read as it.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

VARIANT_LABEL: Final[dict[bytes | str, bytes | str]] = {
    "ARROW:extension:name": "arrow.parquet.variant",
    "ARROW:extension:metadata": "",
}
"""Metadata of a field by which Arrow's readers know a variant."""


class VariantArrowType(pa.ExtensionType):
    """Values that have types of their own; the storage is a struct of ``metadata`` and ``value``."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, str(VARIANT_LABEL["ARROW:extension:name"]))

    def __arrow_ext_serialize__(self) -> bytes:
        """Return nothing: the storage says all."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> VariantArrowType:
        """Return the type for ``storage``."""
        return cls(storage)

    def __str__(self) -> str:
        return "variant"


def is_labelled(field: Any) -> bool:
    """Whether a field, or one inside of it, has the label of variants."""
    label = b"ARROW:extension:name"
    if (field.metadata or {}).get(label, b"").decode() == VARIANT_LABEL["ARROW:extension:name"]:
        return True
    kind: Any = field.type
    return pa.types.is_nested(kind) and any(is_labelled(kind.field(place)) for place in range(kind.num_fields))


def typed_schema(schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with the type of variants in labelled columns; the same object without them."""
    if not any(map(is_labelled, schema)):
        return schema
    return pa.schema([_typed_field(field) for field in schema])


def typed_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return ``batch`` with the types of ``schema``, made by :func:`typed_schema` of its own one."""
    if batch.schema is schema or batch.schema.equals(schema):
        return batch
    arrays = [
        pa.ExtensionArray.from_storage(field.type, column) if isinstance(field.type, VariantArrowType) else column
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _typed_field(field: Any) -> Any:
    is_whole = is_labelled(field) and not any(
        is_labelled(field.type.field(place)) for place in range(field.type.num_fields)
    )
    return pa.field(field.name, VariantArrowType(field.type), field.nullable) if is_whole else field
