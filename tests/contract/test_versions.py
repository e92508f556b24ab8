"""Versions: the history is one line, and every kept version can be read by its id or by a point in time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
ALL = MetadataType.ALL
MILLISECOND = timedelta(milliseconds=1)


class Versions:
    """Holds for the tables component on any catalog; a subclass brings ``metastore``, on the test's clock."""

    @pytest.fixture
    def written(self, metastore: Metastore, unit: MakeUnit, now: SimpleNamespace) -> list[int]:
        """Five versions, a second apart; version n holds one unit with n as its modification time."""
        found = []
        for n in range(5):
            found.append(metastore.tables.modify().overwrite([unit(last_modified_time=n)]).execute())
            now.ms += 1_000
        return found

    def test_history_is_one_line(self, metastore: Metastore, written: list[int]) -> None:
        """Newest first; each version's parent is the one before it, the first has none."""
        history = metastore.tables.metadata.history()
        assert [v.version for v in history] == written[::-1]
        assert [v.parent for v in history] == [*written[:-1][::-1], None]
        assert metastore.tables.metadata.version == written[-1]
        assert metastore.tables.metadata.supports_versioning is True

    def test_versions_carry_the_time_of_their_commit(
        self, metastore: Metastore, written: list[int], now: SimpleNamespace
    ) -> None:
        """In UTC, to the millisecond."""
        start = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=now.ms - 5_000)
        times = [v.timestamp for v in metastore.tables.metadata.history()]
        assert times == [start + timedelta(seconds=n) for n in (4, 3, 2, 1, 0)]

    def test_times_rise_even_when_the_clock_does_not(
        self, metastore: Metastore, unit: MakeUnit, now: SimpleNamespace
    ) -> None:
        """So a point in time means one version, also where clocks of writers differ."""
        for n, step in enumerate((0, 0, -60_000)):
            now.ms += step
            metastore.tables.modify().overwrite([unit(last_modified_time=n)]).execute()
        times = [v.timestamp for v in metastore.tables.metadata.history()]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == 3

    def test_each_version_reads_as_it_was(self, metastore: Metastore, written: list[int]) -> None:
        """By its id; 0 is the empty one before the first."""
        read = metastore.tables.read().metadata_types(ALL)
        assert [[u.last_modified_time for u in read.at(v).execute()] for v in written] == [[0], [1], [2], [3], [4]]
        assert read.at(0).execute() == []

    def test_a_point_in_time_is_the_version_that_was_current(self, metastore: Metastore, written: list[int]) -> None:
        """A commit at exactly that time counts; a millisecond before it does not."""
        read = metastore.tables.read().metadata_types(ALL)
        for n, version in enumerate(reversed(metastore.tables.metadata.history())):
            assert [u.last_modified_time for u in read.as_of(version.timestamp).execute()] == [n]
            assert [u.last_modified_time for u in read.as_of(version.timestamp + MILLISECOND).execute()] == [n]
            before = read.as_of(version.timestamp - MILLISECOND).execute()
            assert [u.last_modified_time for u in before] == ([n - 1] if n else [])

    def test_any_zone_names_a_point_in_time(self, metastore: Metastore, written: list[int]) -> None:
        """The same instant is the same version, wherever it is told."""
        [_, _, middle, _, _] = metastore.tables.metadata.history()
        elsewhere = middle.timestamp.astimezone(timezone(timedelta(hours=5, minutes=30)))
        [found] = metastore.tables.read().metadata_types(ALL).as_of(elsewhere).execute()
        assert found.last_modified_time == 2

    def test_a_time_without_zone_is_refused(self, metastore: Metastore) -> None:
        """It would mean another version on another machine."""
        with pytest.raises(InvalidRequestError, match="zone"):
            metastore.tables.read().as_of(datetime(2024, 1, 1))

    def test_an_unknown_version_is_not_found(self, metastore: Metastore, written: list[int]) -> None:
        """Also when the metastore is empty of it by expiration."""
        with pytest.raises(NotFoundError, match="version 42"):
            metastore.tables.read().metadata_types(ALL).at(42).execute()

    def test_an_expired_version_is_not_found(self, metastore: Metastore, written: list[int]) -> None:
        """By its id or by its time; the newest stays."""
        times = [v.timestamp for v in metastore.tables.metadata.history()]
        metastore.tables.expiration.expire()
        read = metastore.tables.read().metadata_types(ALL)
        with pytest.raises(NotFoundError):
            read.at(written[0]).execute()
        with pytest.raises(NotFoundError):
            read.as_of(times[1]).execute()
        assert [u.last_modified_time for u in read.as_of(times[0]).execute()] == [4]
        assert [u.last_modified_time for u in read.at(written[-1]).execute()] == [4]

    def test_another_reader_sees_each_version_at_once(
        self, open_metastore: Callable[..., Metastore], unit: MakeUnit
    ) -> None:
        """A reader that is warm notices what another process's metastore wrote."""
        writer, reader = open_metastore(), open_metastore()
        for n in range(3):
            version = writer.tables.modify().overwrite([unit(last_modified_time=n)]).execute()
            assert reader.tables.metadata.version == version
            assert [u.last_modified_time for u in reader.tables.read().metadata_types(ALL).execute()] == [n]


class TestOnFileSystem(Versions):
    """The default catalog; a server has a clock of its own for what becomes current, or leaves out what came before."""

    def test_a_version_that_was_rolled_back_was_current_then(self, metastore: Metastore, written: list[int]) -> None:
        """SQL and this read answer alike."""
        newest, before, *_ = metastore.tables.metadata.history()
        table = metastore.tables._backing.table.load()
        assert table is not None
        with table.manage_snapshots() as change:
            change.rollback_to_snapshot(before.version)
        read = metastore.tables.read().metadata_types(ALL).columns("lastModifiedTime")
        assert [u.last_modified_time for u in read.execute()] == [3]
        assert [u.last_modified_time for u in read.as_of(newest.timestamp).execute()] == [4]
        assert [u.last_modified_time for u in read.as_of(before.timestamp).execute()] == [3]

    def test_a_time_between_kept_versions_may_have_been_an_expired_ones(
        self, metastore: Metastore, written: list[int]
    ) -> None:
        """A tag keeps an old version; nothing is known of the time after it, until the next one that is kept."""
        history = metastore.tables.metadata.history()
        table = metastore.tables._backing.table.load()
        assert table is not None
        with table.manage_snapshots() as change:
            change.create_tag(history[3].version, "kept")
        metastore.tables.expiration.expire()
        read = metastore.tables.read().metadata_types(ALL)
        assert [u.last_modified_time for u in read.as_of(history[0].timestamp).execute()] == [4]
        assert [u.last_modified_time for u in read.as_of(history[3].timestamp).execute()] == [1]
        for moment, said in ((history[1].timestamp, "is not kept"), (history[4].timestamp, "from .* or before")):
            with pytest.raises(NotFoundError, match=said):
                read.as_of(moment).execute()
