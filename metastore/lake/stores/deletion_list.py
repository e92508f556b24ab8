"""The list of files whose deletion is put off, in small files beside the metastore.

Place in the flow: :class:`~metastore.lake.stores.deletion.Deletion` asks a :class:`PutOff` which files it may delete
now. With a delay, a file is written to the list first. It is due when it has been on the list for that time. Being due
proves nothing: each pass proves first that the file is still unneeded, and then asks here.

Promises: an entry is durable before it counts. An entry that an operator took back protects its file, in any spelling
that :func:`_keys` knows, until it is released. If the list cannot be read or written, no file may be deleted.

A file of the list never changes. A change writes a new file, and then removes the old one. If a process dies between
the two, or two processes change one file, an entry stands twice. Then one that was taken back wins, or the one that is
due later.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Final

from metastore.errors import FormatError, MetastoreError, NotFoundError, StorageError
from metastore.ground.epoch import MILLISECOND, moment_of_millis
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local, one_spelling
from metastore.lake.stores.pointer_store import PointerStore

_SUFFIX: Final = ".json"
_MOST_BYTES: Final = 1 << 30
_ENTRIES_A_FILE: Final = 50_000
_LOOKS: Final = 10


@dataclass(frozen=True, slots=True)
class PutOffFile:
    """One entry: a file of ``table`` that the procedure ``reason`` wants to delete below ``roots``.

    ``bytes`` is None if unknown. Times are epoch milliseconds; ``due_ms`` is None if an operator took the entry back.
    ``identity`` is that of :mod:`metastore.lake.stores.listed_files`, for files of the local disk.
    """

    table: str
    path: str
    bytes: int | None
    since_ms: int
    due_ms: int | None
    reason: str
    roots: tuple[str, ...] = ()
    identity: str | None = None

    @property
    def why_held(self) -> str:
        """Why the file is not deleted now, for the user."""
        if self.due_ms is None:
            return "taken back by an operator"
        return f"until {moment_of_millis(self.due_ms)}"

    def is_due(self, now_ms: int) -> bool:
        """Whether the file may be deleted at ``now_ms``, if nothing needs it."""
        return self.due_ms is not None and self.due_ms <= now_ms


class DeletionList:
    """The list in ``folder``. ``store`` opens its store; ``delay`` is the time that new entries wait."""

    def __init__(
        self, store: Callable[[], PointerStore], folder: str, delay: timedelta, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._folder = folder
        self.delay: Final = delay
        self.now_ms: Final = now_ms

    def entries(self) -> list[PutOffFile]:
        """Returns one entry for each file, the earliest first. Raises StorageError, FormatError."""
        return sorted(self._by_key().values(), key=lambda each: (each.since_ms, each.table, each.path))

    def keep(self, *names: str) -> list[PutOffFile]:
        """Take back the entries of these paths or tables; returns them.

        No pass that begins later deletes the files. Raises NotFoundError for a name without an entry; then nothing is
        changed. Raises StorageError, FormatError.
        """
        return self._set(names, lambda entry: replace(entry, due_ms=None))

    def release(self, *names: str) -> list[PutOffFile]:
        """Put entries that were taken back on the list anew, so that they are due after the delay; returns them.

        Raises as :meth:`keep`.
        """
        now_ms = self.now_ms()
        return self._set(names, lambda entry: self._begin(entry, now_ms) if entry.due_ms is None else entry)

    def hold(self, candidates: Iterable[PutOffFile], renewed: Collection[str] = ()) -> dict[str, PutOffFile]:
        """Put ``candidates`` on the list; returns the entries of those that may not be deleted yet, by location.

        A file that is on the list keeps its time, unless it is another file now, or it is among ``renewed``: it was
        needed in the meantime. Raises StorageError, FormatError.
        """
        known = self._by_key()
        if not (known or self.delay):
            return {}
        now_ms, wanted = self.now_ms(), list(candidates)
        held: dict[str, PutOffFile] = {}
        new: list[PutOffFile] = []
        for key, asked in zip(_keys(each.path for each in wanted), wanted, strict=True):
            entry = known.get(key)
            if entry is None or (
                entry.due_ms is not None and (asked.path in renewed or not is_one_file(entry.identity, asked.identity))
            ):
                if not self.delay:
                    continue
                entry = self._begin(asked, now_ms)
                new.append(entry)
            if not entry.is_due(now_ms):
                held[asked.path] = entry
        self._write(new)
        return held

    def forget(self, locations: Collection[str]) -> None:
        """Remove the entries of these files, which are gone or needed. Entries that were taken back stay.

        Raises StorageError, FormatError.
        """
        if not locations:
            return
        gone = set(_keys(locations))
        self._rewrite(lambda key, entry: None if key in gone and entry.due_ms is not None else entry)

    def _begin(self, entry: PutOffFile, now_ms: int) -> PutOffFile:
        return replace(entry, since_ms=now_ms, due_ms=now_ms + self.delay // MILLISECOND)

    def _set(self, names: Sequence[str], change: Callable[[PutOffFile], PutOffFile]) -> list[PutOffFile]:
        """Change the entries of files and tables in ``names`` and return them; NotFoundError if a name has none."""
        keys = dict(zip(_keys(names), names, strict=True))
        known = self._by_key()
        tables = {entry.table for entry in known.values()}
        for key, name in keys.items():
            if key not in known and name not in tables:
                raise NotFoundError(
                    f"{name} is on no list of deletions: neither as a file nor as a table. `metastore deletions` shows "
                    "what is; nothing was changed"
                )
        named = set(names)

        def change_entry(key: str, entry: PutOffFile) -> PutOffFile:
            return change(entry) if key in keys or entry.table in named else entry

        self._rewrite(change_entry)
        return [change_entry(key, entry) for key, entry in known.items() if key in keys or entry.table in named]

    def _by_key(self) -> dict[str, PutOffFile]:
        found: dict[str, PutOffFile] = {}
        entries = [entry for file in self._files().values() for entry in file]
        for key, entry in zip(_keys(each.path for each in entries), entries, strict=True):
            other = found.get(key)
            if other is None or _precedence(entry) > _precedence(other):
                found[key] = entry
        return found

    def _files(self) -> dict[str, list[PutOffFile]]:
        """Returns the entries of each file of the list."""
        for _ in range(_LOOKS):
            # Another process may replace a file between the listing and the reading: then look again.
            with suppress(FileNotFoundError):
                try:
                    names = sorted(self._store().files_after(self._folder, ""))
                    return {name: self._load_file(name) for name in names if name.endswith(_SUFFIX)}
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise StorageError(f"the list of deletions in {self._folder} cannot be read: {error}") from error
        raise StorageError(f"the list of deletions in {self._folder} kept changing; try again later")

    def _load_file(self, name: str) -> list[PutOffFile]:
        location = f"{self._folder}/{name}"
        content = self._store().read(location, _MOST_BYTES)
        try:
            rows = [json.loads(line) for line in content.splitlines()]
            return [PutOffFile(**{**row, "roots": tuple(row["roots"])}) for row in rows]
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f"{location} is no list of deletions: {error!r}. No file is deleted until you move it away"
            ) from error

    def _write(self, entries: Sequence[PutOffFile]) -> None:
        for start in range(0, len(entries), _ENTRIES_A_FILE):
            lines = (json.dumps(asdict(each)) for each in entries[start : start + _ENTRIES_A_FILE])
            location = f"{self._folder}/{uuid.uuid4()}{_SUFFIX}"
            try:
                self._store().create_if_absent(location, "\n".join(lines).encode())
            except OSError as error:
                raise StorageError(f"the list of deletions {location} cannot be written: {error}") from error

    def _rewrite(self, change: Callable[[str, PutOffFile], PutOffFile | None]) -> None:
        """Replace each file of the list that ``change`` changes; entries for which it returns None are removed."""
        for name, entries in self._files().items():
            after = [change(*each) for each in zip(_keys(entry.path for entry in entries), entries, strict=True)]
            if after == entries:
                continue
            self._write([entry for entry in after if entry is not None])
            location = f"{self._folder}/{name}"
            try:
                self._store().remove(location)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise StorageError(f"the list of deletions {location} cannot be replaced: {error}") from error


@dataclass
class PutOff:
    """What one run of ``reason``, a procedure on ``table``, may not delete yet.

    ``sizes`` are bytes by location. ``renewed`` are files that were needed until this run: their delay begins now.
    Afterwards, :attr:`held` has the files that were put off, each with the reason.
    """

    deletions: DeletionList
    table: str
    reason: str
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    renewed: Collection[str] = ()
    held: dict[str, str] = field(default_factory=dict)

    def put_off(self, locations: Sequence[str], roots: Roots, listed: Mapping[str, str]) -> Sequence[str]:
        """Returns those of ``locations`` that may be deleted now, in their order. Raises StorageError, FormatError.

        A file outside of ``roots`` cannot be deleted, and does not wait for it.
        """
        entries = (
            PutOffFile(self.table, each, self.sizes.get(each), 0, 0, self.reason, roots.folders, listed.get(each))
            for each in locations
            if roots.hold(each)
        )
        held = self.deletions.hold(entries, self.renewed)
        self.held.update((location, entry.why_held) for location, entry in held.items())
        return [location for location in locations if location not in held]

    def forget(self, locations: Collection[str]) -> None:
        """Remove the entries of deleted files. A failure is left to the next run, which finds the files gone."""
        with suppress(MetastoreError):
            self.deletions.forget(locations)


def _precedence(entry: PutOffFile) -> tuple[bool, int]:
    return entry.due_ms is None, entry.due_ms or 0


def is_one_file(known: str | None, found: str | None) -> bool:
    """Whether two identities are of one file; machines number the devices of a network disk differently."""
    return known is None or found is None or known.rsplit(":")[-1] == found.rsplit(":")[-1]


def _keys(locations: Iterable[str]) -> list[str]:
    """Returns for each location a text that is the same for its spellings: links of the local disk are followed."""
    real: dict[str, str] = {}
    keys = []
    for location in locations:
        if not is_local(location):
            keys.append(one_spelling(location))
            continue
        with suppress(MetastoreError, ValueError):
            folder, name = os.path.split(local_path(location))
            if folder not in real:
                real[folder] = os.path.realpath(folder)
            keys.append(os.path.join(real[folder], name))
            continue
        keys.append(location)
    return keys
