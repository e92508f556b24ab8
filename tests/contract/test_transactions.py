"""A transaction: any number of operations, in the order given, become one version, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.expressions import And, EqualTo, NotEqualTo, StartsWith

from metastore.components.metastore import Metastore
from metastore.errors import ConflictError, InvalidRequestError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
ALL, TABLE = MetadataType.ALL, MetadataType.TABLE


def tables(metastore: Metastore) -> str:
    """Owners of the units that stand, sorted: tests name what they wrote by its owner."""
    return "".join(sorted(u.owner or "" for u in metastore.tables.read().metadata_types(ALL).execute()))


def versions(metastore: Metastore) -> int:
    """How many versions there are."""
    return len(metastore.tables.metadata.history())


class Transactions:
    """Holds for the tables component on any catalog; a subclass brings ``metastore``, never written to."""

    def test_overwrite_replaces_the_partition_whole(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Units that are not written again are gone; other partitions stay."""
        old = [unit(key="1", metadata_identifier=f"1/{n}", owner="o") for n in range(3)]
        metastore.tables.modify().overwrite([*old, unit(key="2", owner="k"), unit(owner="g")]).execute()
        metastore.tables.modify().overwrite([unit(key="1", owner="n")]).execute()
        assert tables(metastore) == "gkn"

    def test_all_operations_are_one_version(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Its summary says what it did, and it is the version that ``execute`` gives."""
        metastore.tables.modify().overwrite([unit("a", owner="a"), unit("b", owner="b")]).execute()
        modify = metastore.tables.modify()
        for n in range(10):
            modify.overwrite([unit(f"t{n}", owner=str(n))])
        version = modify.delete("tableName = 'a'").overwrite([unit("b", owner="B")]).execute()
        newest, oldest = metastore.tables.metadata.history()
        assert newest.version == version == metastore.tables.metadata.version
        assert newest.parent == oldest.version
        assert newest.operation == "overwrite"
        assert (newest.summary["added-data-files"], newest.summary["deleted-data-files"]) == ("11", "2")
        assert newest.summary["total-data-files"] == newest.summary["total-records"] == "11"
        assert tables(metastore) == "0123456789B"

    def test_only_added_is_append_and_only_removed_is_delete(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Tools that follow changes go by the operation."""
        metastore.tables.modify().overwrite([unit()]).execute()
        metastore.tables.modify().delete("tableName = 'nation'").execute()
        assert [v.operation for v in metastore.tables.metadata.history()] == ["delete", "append"]

    @pytest.mark.parametrize(
        ("operations", "left"),
        [
            (["-a", "+a"], "a"),
            (["+a", "+A"], "A"),
            (["+a", "-a", "+A"], "A"),
            (["+a", "+b", "-b", "+c"], "ac"),
            (["-x", "+x"], "x"),
            (["+X", "-x"], ""),
            (["-x", "-x"], ""),
        ],
        ids="".join,
    )
    def test_the_later_operation_wins(
        self, metastore: Metastore, unit: MakeUnit, operations: list[str], left: str
    ) -> None:
        """``+A`` writes table ``a`` with owner ``A``, ``-a`` deletes it; ``x`` stood before."""
        metastore.tables.modify().overwrite([unit("x", owner="x")]).execute()
        modify = metastore.tables.modify()
        for operation in operations:
            owner = operation[1:]
            if operation[0] == "+":
                modify.overwrite([unit(owner.lower(), owner=owner)])
            else:
                modify.delete(f"tableName = '{owner}'")
        modify.execute()
        touched = {operation[1:].lower() for operation in operations}
        assert tables(metastore) == (left if "x" in touched else "".join(sorted(left + "x")))
        assert versions(metastore) == 2

    def test_a_transaction_that_ends_where_it_began_writes_no_unit(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Written and deleted again, over a partition that was not there: nothing is left to commit."""
        before = metastore.tables.modify().overwrite([unit("x")]).execute()
        after = metastore.tables.modify().overwrite([unit("a")]).delete("tableName = 'a'").execute()
        assert after == before
        assert versions(metastore) == 1

    @pytest.mark.parametrize(
        ("filter_", "left"),
        [
            ("tableName = 'a'", "b1p"),
            ("metadataKey = '1'", "abp"),
            ("tableName in ('a', 'b')", "p"),
            ("not tableName = 'a'", "a"),
            ("tableName >= 'b' and storagePlugin = 'dfs'", "ap"),
            ("tableName = 'a' or storagePlugin = 's3'", "b1"),
            ("tableName is null", "ab1p"),
            (And(EqualTo("storagePlugin", "dfs"), NotEqualTo("metadataKey", "1")), "1p"),
            (StartsWith("storagePlugin", "s"), "ab1"),
            ("workspace not in ('tmp')", "ab1p"),
        ],
        ids=str,
    )
    def test_delete_removes_what_its_filter_matches(
        self, metastore: Metastore, unit: MakeUnit, filter_: str, left: str
    ) -> None:
        """As text or as expression, over partition columns."""
        written = [unit("a", owner="a"), unit("b", owner="b"), unit("b", "1", owner="1")]
        written.append(unit("p", storage_plugin="s3", owner="p"))
        metastore.tables.modify().overwrite(written).execute()
        metastore.tables.modify().delete(filter_).execute()
        assert tables(metastore) == "".join(sorted(left))

    def test_delete_of_type_table_leaves_segments(self, metastore: Metastore, unit: MakeUnit) -> None:
        """TABLE means the partition of general information; ALL, or no type, means every partition."""
        metastore.tables.modify().overwrite([unit(owner="g"), unit(key="1", owner="s")]).execute()
        metastore.tables.modify().delete("tableName = 'nation'", TABLE).execute()
        assert tables(metastore) == "s"
        metastore.tables.modify().delete("tableName = 'nation'", ALL).execute()
        assert tables(metastore) == ""

    @pytest.mark.parametrize("part", sorted(set(MetadataType) - {ALL, TABLE}))
    def test_delete_of_a_part_of_a_partition_is_refused(self, metastore: Metastore, part: MetadataType) -> None:
        """A partition's file goes whole."""
        with pytest.raises(InvalidRequestError, match=part.value):
            metastore.tables.modify().delete("tableName = 'nation'", part)

    @pytest.mark.parametrize("filter_", ["owner = 'me'", "tableName = 'a' and path = 'b'", EqualTo("location", "/")])
    def test_delete_by_other_than_partition_columns_is_refused(self, metastore: Metastore, filter_: str) -> None:
        """The message names those that may be used."""
        with pytest.raises(InvalidRequestError, match="storagePlugin, workspace, tableName, metadataKey"):
            metastore.tables.modify().delete(filter_)

    @pytest.mark.parametrize(
        ("filter_", "reason"), [("noSuchColumn = 1", "unknown column"), ("tableName =", "syntax error")]
    )
    def test_delete_by_a_filter_that_does_not_fit_is_refused(
        self, metastore: Metastore, filter_: str, reason: str
    ) -> None:
        """Where it is given, whether or not anything stands."""
        with pytest.raises(InvalidRequestError, match=reason):
            metastore.tables.modify().delete(filter_)

    def test_nothing_to_do_makes_no_version(self, metastore: Metastore, unit: MakeUnit) -> None:
        """No operation, no unit, or a filter that matches nothing: the version stays what it was."""
        version = metastore.tables.modify().overwrite([unit()]).execute()
        assert metastore.tables.modify().execute() == version
        assert metastore.tables.modify().overwrite([]).execute() == version
        assert metastore.tables.modify().delete("tableName = 'other'").execute() == version
        assert versions(metastore) == 1

    def test_nothing_to_do_in_an_empty_metastore(self, metastore: Metastore) -> None:
        """Neither deletes nor purge make a first version."""
        assert metastore.tables.modify().execute() == 0
        assert metastore.tables.modify().overwrite([]).execute() == 0
        assert metastore.tables.modify().delete("tableName = 'a'").execute() == 0
        assert metastore.tables.modify().purge() == 0
        assert metastore.tables.metadata.history() == []

    def test_a_transaction_is_carried_out_once(self, metastore: Metastore, unit: MakeUnit) -> None:
        """What was executed is not executed again."""
        modify = metastore.tables.modify().overwrite([unit()])
        assert modify.execute() == modify.execute()
        assert versions(metastore) == 1

    def test_purge_removes_all_rows_and_keeps_history(self, metastore: Metastore, unit: MakeUnit) -> None:
        """As one version; the earlier ones can still be read."""
        before = metastore.tables.modify().overwrite([unit(str(n), owner=str(n)) for n in range(5)]).execute()
        after = metastore.tables.modify().purge()
        assert tables(metastore) == ""
        assert [v.version for v in metastore.tables.metadata.history()] == [after, before]
        assert len(metastore.tables.read().metadata_types(ALL).at(before).execute()) == 5
        assert metastore.tables.modify().purge() == after
        assert versions(metastore) == 2

    def test_purge_stands_alone(self, metastore: Metastore, unit: MakeUnit) -> None:
        """It is refused beside other operations, and these are kept."""
        modify = metastore.tables.modify().overwrite([unit(owner="a")])
        with pytest.raises(InvalidRequestError, match="combined"):
            modify.purge()
        modify.execute()
        assert tables(metastore) == "a"

    def test_if_version_commits_on_that_version_only(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Compare-and-set: the second of two who saw the same version is told so, and nothing is changed."""
        first = metastore.tables.modify().overwrite([unit(owner="a")]).execute(if_version=0)
        second = metastore.tables.modify().overwrite([unit(owner="b")]).execute(if_version=first)
        for version in (0, first, 42):
            with pytest.raises(ConflictError, match=str(second)):
                metastore.tables.modify().overwrite([unit(owner="c")]).execute(if_version=version)
        assert tables(metastore) == "b"
        assert metastore.tables.metadata.version == second

    def test_if_version_is_checked_even_when_nothing_is_to_do(self, metastore: Metastore, unit: MakeUnit) -> None:
        """An answer without a change still says which version it is about."""
        version = metastore.tables.modify().overwrite([unit()]).execute()
        assert metastore.tables.modify().execute(if_version=version) == version
        with pytest.raises(ConflictError):
            metastore.tables.modify().delete("tableName = 'none'").execute(if_version=0)


class TestOnFileSystem(Transactions):
    """The default catalog."""
