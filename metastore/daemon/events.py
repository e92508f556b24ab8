"""Events of S3 as hints: a message names objects, and the table whose folder holds them is analyzed at the next pass.

Place in the flow: the loop takes messages from the queue at the start of a pass. :class:`EventHints` finds the tables,
and :mod:`metastore.daemon.decide` makes their action ``analyze`` due. What a message says of an object is not
believed: ANALYZE lists the folder.

Promises: a message is deleted after each of its tables was analyzed by a run that began after the message had come, so
a daemon that dies between the two only looks again. A message that is no event of S3 stays in the queue, whose own
rules end it. A message that names no table is deleted and counted.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit

from metastore.config.plugins import StoragePluginSettings
from metastore.daemon.decide import Situation
from metastore.daemon.policy import Action, TableName
from metastore.daemon.workspaces import table_info
from metastore.errors import MetastoreError, StorageError
from metastore.ground.optional import library
from metastore.lake.stores.locations import one_spelling
from metastore.sources.naming import resolve

_log: Final = logging.getLogger(__name__)

_AT_ONCE: Final = 10
"""The most messages of one request, by SQS's own limit."""

_REQUESTS: Final = 100
"""The most requests for messages of one pass. What is left is for the next pass."""

_KEPT: Final = 100_000
"""The most messages that are kept in memory: those of tables whose ANALYZE fails stay until it succeeds."""

_SETTLED: Final = ("done", "nothing")
_REGION: Final = re.compile(r"(?:^|\.)sqs\.([a-z0-9-]+)\.")


@dataclass
class EventMessage:
    """A message with the objects that it names, as ``s3://bucket/key``, and the tables that it makes due.

    ``tables`` is None until they have been looked for. ``handle`` is the latest one by which it can be deleted.
    """

    id: str
    handle: str
    places: frozenset[str] | None
    tables: set[TableName] | None = field(default=None)


class EventQueue:
    """The SQS queue at ``url``, reached with AWS's usual chain of credentials."""

    def __init__(self, url: str) -> None:
        self._url = url

    def batches(self) -> Iterator[Sequence[EventMessage]]:
        """Yields the messages that wait, up to a bound. Raises StorageError, InvalidRequestError without boto3."""
        for _ in range(_REQUESTS):
            asked = {"MaxNumberOfMessages": _AT_ONCE, "WaitTimeSeconds": 1}  # A wait asks all servers of the queue.
            found = self._ask("receive_message", **asked).get("Messages", ())
            if not found:
                return
            yield [EventMessage(each["MessageId"], each["ReceiptHandle"], places_of(each["Body"])) for each in found]

    def delete(self, handles: Sequence[str]) -> None:
        """Delete messages by their handles. Raises StorageError; a handle that is too old has no effect."""
        for start in range(0, len(handles), _AT_ONCE):
            some = enumerate(handles[start : start + _AT_ONCE])
            self._ask("delete_message_batch", Entries=[{"Id": str(n), "ReceiptHandle": handle} for n, handle in some])

    def _ask(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        errors = library("botocore.exceptions", "aws")
        try:
            found: Mapping[str, Any] = getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        except (errors.BotoCoreError, errors.ClientError) as error:
            raise StorageError(f"the queue {self._url} (drill.metastore.daemon.events.queue): {error}") from error
        return found

    @cached_property
    def _client(self) -> Any:
        parts = urlsplit(self._url)
        region = _REGION.search(parts.netloc)
        bounded = {"connect_timeout": 5, "read_timeout": 10, "retries": {"total_max_attempts": 2}}
        return library("boto3", "aws").client(
            "sqs",
            endpoint_url=f"{parts.scheme}://{parts.netloc}",
            region_name=region.group(1) if region else None,
            config=library("botocore.config", "aws").Config(**bounded),
        )


class EventHints:
    """The messages that have come and are not deleted yet. ``counts`` counts objects by what became of them."""

    def __init__(self, queue: EventQueue | None, counts: Counter[str]) -> None:
        self.queue = queue
        self._counts = counts
        self._messages: dict[str, EventMessage] = {}

    def take(self, messages: Iterable[EventMessage]) -> None:
        """Take messages as they were received. One that comes again keeps its tables, and has a new handle."""
        for message in messages:
            if message.places is None:
                self._counts["unreadable"] += 1
                _log.warning("message %s of the queue is no event of S3; it stays there", message.id)
            elif (known := self._messages.setdefault(message.id, message)) is not message:
                known.handle = message.handle
        for key in list(self._messages)[:-_KEPT]:
            del self._messages[key]  # It comes again.

    def mark(
        self, found: Sequence[Situation], storage: Mapping[str, StoragePluginSettings], *, all_listed: bool
    ) -> list[Situation]:
        """Returns the situations ``found``, where those of ANALYZE have the messages that name their table's objects.

        With ``all_listed``, messages that name no table are deleted; otherwise its table may only be missing now.
        """
        new = [message for message in self._messages.values() if message.tables is None]
        if new:
            folders = _folders((each.table for each in found if each.policy.action is Action.ANALYZE), storage)
            for message in new:
                self._find_tables(message, folders, all_listed=all_listed)
            self._delete([message for message in new if message.tables is not None and not message.tables])
        named: dict[TableName, set[str]] = {}
        for message in self._messages.values():
            for table in message.tables or ():
                named.setdefault(table, set()).add(message.id)
        return [
            replace(each, hints=frozenset(named[each.table]))
            if each.policy.action is Action.ANALYZE and each.table in named
            else each
            for each in found
        ]

    def settle(self, situation: Situation, status: str | None) -> None:
        """Delete the messages of a run that ended, unless another of their tables is still to be analyzed."""
        if not situation.hints or status not in _SETTLED:
            return
        looked = [self._messages[key] for key in situation.hints if key in self._messages]
        for message in looked:
            (message.tables or set()).discard(situation.table)
        self._delete([message for message in looked if not message.tables])

    def _find_tables(self, message: EventMessage, folders: Mapping[str, set[TableName]], *, all_listed: bool) -> None:
        of_places = [_tables_at(place, folders) for place in message.places or ()]
        if all_listed or all(of_places):
            message.tables = set().union(*of_places)
            self._counts["named"] += sum(map(bool, of_places))
            self._counts["ignored"] += sum(not tables for tables in of_places)

    def _delete(self, messages: Sequence[EventMessage]) -> None:
        for message in messages:
            del self._messages[message.id]
        if messages and self.queue is not None:
            try:
                self.queue.delete([message.handle for message in messages])
            except StorageError as error:
                _log.warning("%s; the messages come again, and the tables are looked at again", error)


def places_of(body: str) -> frozenset[str] | None:
    """Returns the objects that a message names; none for S3's test, None for a message that is no event of S3.

    The forms are S3's own, the same in a notification of SNS, and EventBridge's. Only S3 escapes keys.
    """
    try:
        event = json.loads(body)
        if event.get("Type") == "Notification":
            event = json.loads(event["Message"])
        if event.get("Event") == "s3:TestEvent":
            return frozenset()
        if event.get("source") == "aws.s3":
            return frozenset([_place(event["detail"])])
        return frozenset(unquote_plus(_place(record["s3"])) for record in event["Records"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _place(event: Mapping[str, Any]) -> str:
    bucket, key = event["bucket"]["name"], event["object"]["key"]
    if not (isinstance(bucket, str) and isinstance(key, str)):
        raise TypeError
    return f"s3://{bucket}/{key}"


def _folders(tables: Iterable[TableName], storage: Mapping[str, StoragePluginSettings]) -> Mapping[str, set[TableName]]:
    """Returns the tables by their location; a table of a plugin that is not configured has none."""
    found: dict[str, set[TableName]] = {}
    for table in tables:
        try:
            location = one_spelling(resolve(storage, table_info(table)).location)
        except MetastoreError:
            continue
        found.setdefault(location, set()).add(table)
    return found


def _tables_at(place: str, folders: Mapping[str, set[TableName]]) -> set[TableName]:
    """Returns the tables that have ``place`` in their folder, or that are this file."""
    found: set[TableName] = set()
    while place:
        found |= folders.get(place, set())
        place = place.rpartition("/")[0]
    return found
