"""Drill's view files, ``<workspace>/<name>.view.drill``: JSON with the query, its columns and its schema path.

Drill can open the files that are written here. Files that Drill wrote can be imported, after the same checks as any
definition. Drill's file has no place for comments and properties.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.bounded_reading import Limit
from metastore.lake.stores.locations import is_on_object_store
from metastore.lake.stores.opening import open_store
from metastore.model.tuple_schema import TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.sql.views.definition import Definition
from metastore.sql.views.dialects import translate
from metastore.sql.views.fields import fields_of
from metastore.sql.views.text import DEFAULT_DIALECT

DRILL: Final = "drill"
SUFFIX: Final = ".view.drill"


def file_text(unit: ViewMetadataUnit) -> str:
    """Returns the content of the file for ``unit``.

    Raises InvalidRequestError if Drill's SQL cannot express the query.
    """
    sql = (unit.representations or {}).get(DRILL)
    if sql is None:
        translated = translate(unit.sql or "", unit.dialect or DEFAULT_DIALECT, DRILL, pretty=True)
        if translated.unsupported:
            raise InvalidRequestError(
                f"view {unit.info} cannot be written for Drill: {'; '.join(translated.unsupported)}"
            )
        sql = translated.sql
    document = {
        "name": unit.name,
        "sql": sql,
        "fields": fields_of(TupleSchema.from_json(unit.schema or "{}")),
        "workspaceSchemaPath": list(unit.workspace_schema_path or ()),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def definition_of(text: str, where: str) -> Definition:
    """Returns the definition in ``text``, the content of the file ``where``.

    Raises FormatError for any other content.
    """
    try:
        document: dict[str, Any] = json.loads(text)
        sql, path = document["sql"], document.get("workspaceSchemaPath") or ()
        if not isinstance(sql, str) or not all(isinstance(part, str) for part in path):
            raise FormatError(f"{where} is no view file of Drill: sql and workspaceSchemaPath must be texts")
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{where} is no view file of Drill: {error!r}") from error
    # A workspace's path may be one part that contains a dot.
    parts = tuple(part for each in path for part in each.split("."))
    return Definition(sql, DRILL, schema_path=parts)


def path_of(location: str) -> str:
    """Returns the path of the view's file; ``location`` is the workspace's location with the view's name."""
    return location + SUFFIX


def read_file(path: str, options: Mapping[str, str], limit: Limit) -> str:
    """Returns the content of a view file.

    Raises NotFoundError, FormatError for a file larger than ``limit``, and StorageError.
    """
    store, root = open_location(path, options)
    found = store.get_file_info(root)
    if found.type == fs.FileType.NotFound:
        raise NotFoundError(f"there is no view file {path}")
    limit.require(path, found.size or 0)
    try:
        with store.open_input_stream(root) as stream:
            return bytes(stream.read(limit.most)).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is no view file of Drill: it is not UTF-8") from error
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def write_file(path: str, text: str, options: Mapping[str, str], *, replace: bool) -> None:
    """Write a view file. Raises InvalidRequestError if it exists and must not be replaced, and StorageError.

    On the local disk and on HDFS only one writer can create the file, and readers see it whole. On an object store, the
    file is checked first and written afterwards, so two writers may both write it. The workspace's options are
    pyarrow's, and pyarrow cannot create an object conditionally.
    """
    content = text.encode()
    try:
        if not is_on_object_store(path):
            pointers, _ = open_store(path, options)
            if replace:
                pointers.replace(path, content)
                return
            is_new = pointers.create_if_absent(path, content) is not None
        else:
            store, root = open_location(path, options)
            is_new = replace or store.get_file_info(root).type == fs.FileType.NotFound
            if is_new:
                with store.open_output_stream(root) as stream:
                    stream.write(content)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot write {path}: {error}") from error
    if not is_new:
        raise InvalidRequestError(f"{path} exists already; replace it, or choose another workspace")
