"""Calls as Spark's, Trino's and Presto's documentation print them are understood as they stand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.procedures.framework.binding import GivenArgument, bind
from metastore.procedures.framework.spellings import in_our_words
from metastore.session import Session

PRINTED = [
    # Spark
    "CALL catalog_name.system.rollback_to_snapshot('db.sample', 1)",
    "CALL catalog_name.system.set_current_snapshot('db.sample', 1)",
    "CALL catalog_name.system.set_current_snapshot(table => 'db.sample', ref => 's1')",
    "CALL catalog_name.system.cherrypick_snapshot(snapshot_id => 1, table => 'db.sample')",
    "CALL catalog_name.system.publish_changes(wap_id => 'wap_id_2', table => 'db.sample')",
    "CALL catalog_name.system.fast_forward('db.sample', 'main', 'audit-branch')",
    "CALL catalog_name.system.expire_snapshots(table => 'db.sample', snapshot_ids => ARRAY(123))",
    "CALL catalog_name.system.remove_orphan_files(table => 'db.sample', dry_run => true)",
    "CALL catalog_name.system.remove_orphan_files(table => 'db.sample', location => 'tablelocation/data')",
    "CALL catalog_name.system.rewrite_data_files('db.sample')",
    (
        "CALL catalog_name.system.rewrite_data_files(table => 'db.sample', strategy => 'sort', "
        "sort_order => 'id DESC NULLS LAST,name ASC NULLS FIRST')"
    ),
    (
        "CALL catalog_name.system.rewrite_data_files(table => 'db.sample', options => map('min-input-files', '2', "
        "'remove-dangling-deletes', 'true'))"
    ),
    "CALL catalog_name.system.rewrite_data_files(table => 'db.sample', where => 'id = 3 and name = \"foo\"')",
    (
        "CALL catalog_name.system.rewrite_data_files(table => 'db.sample', strategy => 'sort', sort_order => "
        "'zorder(c1,c2)')"
    ),
    (
        "CALL catalog_name.system.rewrite_data_files(table => 'db.sample', strategy => 'sort', sort_order => "
        "'hilbert(c1,c2)')"
    ),
    "CALL catalog_name.system.rewrite_manifests('db.sample')",
    "CALL catalog_name.system.rewrite_manifests('db.sample', false)",
    "CALL catalog_name.system.rewrite_manifests(table => 'db.sample', use_caching => false, spec_id => 0)",
    "CALL catalog_name.system.expire_snapshots(table => 'db.sample', stream_results => true, retain_last => 5)",
    "CALL catalog_name.system.register_table(table => 'db.tbl', metadata_file => '/path/to/00001-a.metadata.json')",
    (
        "CALL catalog_name.system.register_table(schema_name => 'db', table_name => 'tbl', table_location => '/t', "
        "metadata_file_name => '00001-a.metadata.json')"
    ),
    "CALL catalog_name.system.rewrite_position_delete_files('db.sample')",
    (
        "CALL catalog_name.system.rewrite_position_delete_files(table => 'db.sample', options => "
        "map('rewrite-all', 'true'))"
    ),
    (
        "CALL catalog_name.system.rewrite_position_delete_files(table => 'db.sample', options => "
        "map('min-input-files', '2'))"
    ),
    "CALL catalog_name.system.rollback_to_timestamp('db.sample', TIMESTAMP '2121-06-30 00:00:00.000')",
    "CALL catalog_name.system.expire_snapshots('db.sample', TIMESTAMP '2021-06-30 00:00:00.000', 100)",
    "CALL catalog_name.system.compute_table_stats('db.sample')",
    (
        "CALL catalog_name.system.create_changelog_view(table => 'db.sample', options => "
        "map('start-snapshot-id','1','end-snapshot-id', '2'))"
    ),
    (
        "CALL catalog_name.system.create_changelog_view(table => 'db.sample', options => map('start-timestamp', "
        "'1678335750489','end-timestamp', '1678992105265'), changelog_view => 'my_changelog_view')"
    ),
    (
        "CALL catalog_name.system.create_changelog_view(table => 'db.sample', options => map('start-snapshot-id','1', "
        "'end-snapshot-id', '2'), identifier_columns => array('id', 'name'))"
    ),
    "CALL catalog_name.system.compute_table_stats(table => 'db.sample', snapshot_id => 1, columns => array('id'))",
    "CALL catalog_name.system.ancestors_of('catalog_name.db.sample', 1)",
    "CALL catalog_name.system.ancestors_of(snapshot_id => 1, table => '`db`.`sample`')",
    (
        "CALL catalog_name.system.remove_orphan_files(table => 'db.sample', older_than => TIMESTAMP "
        "'2020-01-01 00:00:00+00:00', prefix_listing => true, dry_run => true)"
    ),
    # Presto and Trino
    "CALL catalog_name.system.rewrite_delete_files('db', 'sample')",
    "CALL catalog_name.system.rewrite_delete_files(schema => 'db', table_name => 'sample', filter => 'id = 3')",
    "CALL catalog_name.system.invalidate_statistics_file_cache()",
    "CALL catalog_name.system.invalidate_manifest_file_cache()",
    "CALL catalog_name.system.rollback_to_snapshot('db', 'sample', 1)",
    "CALL catalog_name.system.rollback_to_snapshot(schema_name => 'db', table_name => 'sample', snapshot_id => 1)",
    "CALL catalog_name.system.fast_forward('db', 'sample', 'branch1', 'main')",
    (
        "CALL catalog_name.system.expire_snapshots(schema => 'db', table_name => 'sample', older_than => "
        "TIMESTAMP '2023-08-31 00:00:00.000 UTC')"
    ),
    "CALL catalog_name.system.expire_snapshots(schema => 'db', table_name => 'sample', retention_threshold => '7d')",
    "CALL catalog_name.system.remove_orphan_files(schema => 'db', table_name => 'sample', older_than => '10.5 days')",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session with the table ``catalog_name.db.sample``."""
    folder = tmp_path_factory.mktemp("lake")
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
    settings = {"iceberg.location.base_path": str(folder / "m"), "catalogs.catalog_name": lake}
    with metastore.connect(Settings.from_mapping({"drill.metastore": settings}, environ={})) as opened:
        catalog = opened.catalogs.open("catalog_name")
        catalog.create_namespace("db")
        rows = pa.table({"id": [1], "name": ["a"], "c1": [2], "c2": [3]})
        catalog.create_table("db.sample", rows.schema).append(rows)
        yield opened


@pytest.mark.parametrize("call", PRINTED)
def test_calls_as_they_are_printed(session: Session, call: str) -> None:
    """Each is bound to arguments of the declared types, and planned on the table that it names."""
    assert session.sql(f"EXPLAIN {call}").num_rows


def bound(session: Session, name: str, *values: Any, **named: Any) -> dict[str, Any]:
    """The arguments of a call at noon of a day."""
    found = session.procedures.find(f"catalog_name.system.{name}")
    given = [*map(GivenArgument, values), *(GivenArgument(value, own) for own, value in named.items())]
    noon = datetime(2024, 5, 6, 12, tzinfo=timezone.utc)
    words = in_our_words(found.procedure, found.catalog, given, lambda: int(noon.timestamp() * 1000))
    return bind(found.procedure, words)


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("db.sample", "db", "sample"),
        ("a.b.sample", "a.b", "sample"),
        ("CATALOG_NAME.db.sample", "db", "sample"),
        ("`db`.`a.b`", "db", "a.b"),
    ],
)
def test_one_text_is_schema_and_name(session: Session, text: str, schema: str, name: str) -> None:
    """By name and by position."""
    for found in (bound(session, "ancestors_of", table=text), bound(session, "ancestors_of", text, 1)):
        assert (found["schema"], found["table_name"]) == (schema, name)


def test_two_texts_stay_schema_and_name(session: Session) -> None:
    """Also where the schema has a dot."""
    found = bound(session, "ancestors_of", "a.b", "t")
    assert (found["schema"], found["table_name"]) == ("a.b", "t")


@pytest.mark.parametrize(("text", "back"), [("7d", timedelta(days=7)), ("36 hours", timedelta(hours=36))])
def test_durations_count_back_from_now(session: Session, text: str, back: timedelta) -> None:
    """Under Trino's name and under ours."""
    noon = datetime(2024, 5, 6, 12, tzinfo=timezone.utc)
    for name in ("retention_threshold", "older_than"):
        found = bound(session, "expire_snapshots", schema="db", table_name="t", **{name: text})
        assert found["older_than"] == noon - back


@pytest.mark.parametrize(
    ("source", "format_", "location"),
    [
        ("`parquet`.`s3://bucket/path to/t.v1`", "parquet", "s3://bucket/path to/t.v1"),
        ("ORC.`/data/t`", "ORC", "/data/t"),
        ('avro."/data/t"', "avro", "/data/t"),
    ],
)
def test_files_have_sparks_name(session: Session, source: str, format_: str, location: str) -> None:
    """By format and path; duplicates are checked by a flag, as there."""
    found = bound(session, "add_files", table="db.t", source_table=source, check_duplicate_files=False)
    assert (found["format"], found["location"], found["duplicate_file"]) == (format_, location, "ALLOW")
    assert (
        bound(session, "add_files", table="db.t", source_table=source, check_duplicate_files=True)["duplicate_file"]
        == "ERROR"
    )


@pytest.mark.parametrize("source", ["`csv`.`/data/t`", "t"])
def test_other_sources_of_files_are_refused(session: Session, source: str) -> None:
    """Neither files of a format that is read, nor a table with its schema."""
    with pytest.raises(InvalidRequestError, match="add_files_from_hive"):
        bound(session, "add_files", table="db.t", source_table=source)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"table": "sample"}, "table 'sample' names no schema"),
        ({"table": "db.t", "schema": "db"}, "Duplicate procedure argument: schema"),
        ({"table": "db.t", "where": "id = 1"}, "Unknown argument name: where"),
        ({"table": "db.t", "retention_threshold": "7 parsecs"}, "'7 parsecs' is no duration"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(session: Session, named: dict[str, Any], said: str) -> None:
    """As it was given."""
    with pytest.raises(InvalidRequestError, match=said):
        bound(session, "expire_snapshots", **named)


@pytest.mark.parametrize(
    ("threshold", "options"),
    [
        ("128MB", {"min-file-size-bytes": "134217728"}),
        ("10B", {"min-file-size-bytes": "10"}),
        ("1GB", {"min-file-size-bytes": "1073741824", "target-file-size-bytes": "2147483648"}),
    ],
)
def test_a_threshold_of_trino_becomes_options(session: Session, threshold: str, options: dict[str, str]) -> None:
    """Two smaller files are merged, and so is a file with a delete file; own options stay."""
    common = {"min-input-files": "2", "delete-file-threshold": "1"}
    found = bound(session, "optimize", table="db.t", file_size_threshold=threshold)
    assert found["options"] == {**common, **options}
    own = {"min-input-files": "7"}
    found = bound(session, "optimize", table="db.t", file_size_threshold=threshold, options=own)
    assert found["options"] == {**common, **options, **own}


def test_a_threshold_is_a_size(session: Session) -> None:
    """Other texts are refused by their name."""
    with pytest.raises(InvalidRequestError, match="file_size_threshold is a size such as '128MB', not '10 parsecs'"):
        bound(session, "optimize", table="db.t", file_size_threshold="10 parsecs")


def test_files_of_a_hive_table_have_their_own_procedure(session: Session) -> None:
    """Spark's ``add_files`` names the table by one text; EXPLAIN asks Hive, which this catalog has not."""
    with pytest.raises(MetastoreError, match="is not on a Hive Metastore"):
        session.sql("CALL catalog_name.system.add_files(table => 'db.sample', source_table => 'db.src_tbl')")
