"""Events of S3 by SQS: they make the daemon look at a table out of turn, and no message is lost or stops the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from daemon.conftest import Site
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import S3Store
from services.counting import Seen, counting
from services.processes import free_port
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

from metastore.config.daemon import DaemonSettings
from metastore.daemon.decide import LastRun, Situation, decide, due
from metastore.daemon.events import EventHints, EventMessage, places_of
from metastore.daemon.policy import Action, TableName, policies
from metastore.errors import ConfigError

WEEKLY = {"analyze": {"enabled": True, "schedule": "7 days", "quiet": "0 s"}}
POLICIES = {"catalogs": {"s3": WEEKLY}}
LOCAL = {"catalogs": {"dfs": WEEKLY}}


@dataclass
class Events:
    """A bucket whose events come to a queue, and a deployment whose daemon reads it through a proxy that counts."""

    site: Site
    store: S3Store
    queue: str
    sqs: Any
    seen: Seen

    def write(self, key: str, content: bytes | None = None) -> None:
        """Put an object; a Parquet file with one row by default."""
        file = BytesIO()
        pq.write_table(pa.table({"id": [1]}), file)
        self.store.put(key, content or file.getvalue())

    def runs(self) -> list[tuple[str | None, str | None, str | None]]:
        """Table, status and reason of each run of one pass a minute later."""
        self.site.later(minutes=1)
        return [(run.table, run.status, run.reason) for run in self.site.daemon().once()]

    def left(self) -> int:
        """Messages that the queue has, whether or not somebody has received them."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        return sum(
            map(int, self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=names)["Attributes"].values())
        )


@pytest.fixture
def events(
    make_site: Callable[..., Site], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Events]:
    """One analyzed and published table in a bucket, whose policy has its next turn in a week."""
    chain = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in chain.items():
        monkeypatch.setenv(name, value)
    bucket = f"events-{abs(hash(request.node.nodeid))}"
    store = s3_server.create(bucket)
    sqs = boto3.client("sqs", endpoint_url=s3_server.endpoint)
    queue = sqs.create_queue(QueueName=bucket, Attributes={"VisibilityTimeout": "2"})["QueueUrl"]
    with counting(s3_server.endpoint) as seen:
        here = f"{seen.endpoint}/{queue.rpartition('/')[0].rpartition('/')[2]}/{bucket}"
        site = make_site(of_daemon={"events": {"queue": here}}, **POLICIES)
        keys = {f'"{key}"': value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
        workspace = {"location": "/lake", "publish": "lake.shop"}
        site.of_storage["s3"] = {
            "type": "file",
            "connection": f"s3a://{bucket}",
            "workspaces": {"w": workspace},
            "config": keys,
        }
        made = Events(site, store, queue, sqs, seen)
        made.write("lake/sales/day=1/a.parquet")
        assert made.runs() == [("s3.w.sales", "done", "never ran")]
        notify(s3_server, bucket, queue, sqs)
        seen.clear()
        yield made


def notify(server: S3Server, bucket: str, queue: str, sqs: Any) -> None:
    """Send the bucket's events to the queue. S3 sends a test first."""
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    wanted = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}]}
    boto3.client("s3", endpoint_url=server.endpoint).put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration=wanted
    )


def files(events: Events) -> int:
    """Files of the published table, as PyIceberg plans them."""
    return len(list(events.site.lake.load_table(("shop", "sales")).scan().plan_files()))


def test_an_object_makes_its_table_be_analyzed_and_published_out_of_turn(events: Events) -> None:
    """Three requests: for messages, for no more, and to delete. The next pass has one, and nothing to do."""
    events.write("lake/sales/day=1/a b+c ü.parquet")
    assert events.runs() == [("s3.w.sales", "done", "an event names one of its files")]
    assert files(events) == 2
    assert (events.left(), len(events.seen.requests)) == (0, 4)  # S3's test has a deletion of its own
    events.seen.clear()
    assert (events.runs(), len(events.seen.requests)) == ([], 1)


def test_a_deleted_object_is_an_event_too(events: Events) -> None:
    """And an event of a file that the table has already finds nothing to do."""
    events.write("lake/sales/day=1/b.parquet")
    events.runs()
    events.store.delete("lake/sales/day=1/b.parquet")
    assert events.runs() == [("s3.w.sales", "done", "an event names one of its files")]
    assert files(events) == 1


def test_what_is_no_event_or_of_no_table_stops_nothing(events: Events) -> None:
    """The one stays for the queue's own rules; the other is deleted. Both are counted."""
    for body in ("no JSON", json.dumps({"Records": [{"s3": {"bucket": 1}}]}), "[]"):
        events.sqs.send_message(QueueUrl=events.queue, MessageBody=body)
    events.write("elsewhere/sales/a.parquet")
    events.write("lake/sales_of_others")
    events.write("lake/sales/day=1/b.parquet")
    events.site.later(minutes=1)
    daemon = events.site.daemon()
    assert [run.status for run in daemon.once()] == ["done"]
    assert daemon.state.events == {"named": 1, "ignored": 2, "unreadable": 3}
    assert events.left() == 3


def test_a_message_stays_until_its_table_could_be_analyzed(events: Events) -> None:
    """A failure is tried again after its wait, not by each message."""
    events.write("lake/sales/day=1/b.parquet", b"no Parquet")
    assert [status for _, status, _ in events.runs()] == ["failed"]
    assert (events.runs(), events.left()) == ([], 1)
    events.store.delete("lake/sales/day=1/b.parquet")
    events.site.later(minutes=5)
    assert [status for _, status, _ in events.runs()] == ["nothing"]
    while events.left():
        events.runs()


@pytest.mark.integration
def test_a_daemon_that_is_killed_before_it_deletes_the_message_only_looks_again(events: Events) -> None:
    """The next one finds the table as it should be, and deletes the message."""
    events.runs()  # S3's test is gone.
    events.write("lake/sales/day=1/b.parquet")
    events.seen.clear()
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in events.site.document.items())
    (events.site.folder / "site.conf").write_text(text.replace('"\\"', '"').replace('\\""', '"'))
    daemon: list[subprocess.Popen[bytes]] = []

    def dies_at(number: int) -> bool:
        if number == 3:
            daemon[0].send_signal(signal.SIGKILL)
        return number == 3

    events.seen.drops = dies_at
    command = [sys.executable, "-m", "metastore", "--conf", str(events.site.folder / "site.conf"), "daemon", "--once"]
    daemon.append(subprocess.Popen(command, env=dict(os.environ)))
    assert daemon[0].wait(60) == -signal.SIGKILL
    assert (files(events), events.left()) == (2, 1)
    events.seen.drops = lambda _: False
    events.site.later(minutes=2)  # its lease ends
    found = []
    while events.left():
        found += events.runs()
    assert [status for _, status, _ in found] == ["nothing"]
    assert files(events) == 2


def test_a_queue_that_is_not_there_delays_its_hints_alone(make_site: Callable[..., Site]) -> None:
    """The daemon says so, and does what its schedules say."""
    queue = f"http://127.0.0.1:{free_port()}/1/none"
    site = make_site(of_daemon={"events": {"queue": queue}}, **LOCAL)
    (site.folder / "data" / "sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), site.folder / "data" / "sales" / "a.parquet")
    daemon = site.daemon()
    assert [run.status for run in daemon.once()] == ["done"]
    assert queue in str(daemon.state.trouble)


def test_a_setting_that_is_no_queue_is_refused(make_site: Callable[..., Site]) -> None:
    """With its key, and what is expected."""
    with pytest.raises(ConfigError, match=r"drill.metastore.daemon.events.queue.*the URL of an SQS queue"):
        make_site(of_daemon={"events": {"queue": "lake"}}).session.close()


TABLE = TableName("dfs", "w", "sales")


def situation(
    site: Site, last: LastRun | None, table: TableName = TABLE, hints: frozenset[str] = frozenset()
) -> Situation:
    """ANALYZE of a table, which ran last at ``last``."""
    [policy] = [each for each in policies(site.settings.policies, table) if each.action is Action.ANALYZE]
    return Situation(table, policy, last, hints=hints)


def test_a_hint_shortens_no_wait_after_a_failure_and_goes_first(make_site: Callable[..., Site]) -> None:
    """Before actions that are overdue."""
    site, now, settings = make_site(**LOCAL), 1_000_000_000, DaemonSettings()
    hinted = frozenset("m")
    failed = situation(site, LastRun(now, failures=1), hints=hinted)
    ended = situation(site, LastRun(now), hints=hinted)
    assert [decide(each, settings, now).due for each in (failed, ended, situation(site, LastRun(now)))] == [
        False,
        True,
        False,
    ]
    overdue = situation(site, None, TableName("dfs", "w", "a"))
    assert [each.situation.table.name for each in due([overdue, ended], settings, now)] == ["sales", "a"]


def test_a_message_that_comes_during_a_run_is_not_settled_by_it(make_site: Callable[..., Site]) -> None:
    """The run may have listed the folder before the object came."""
    site = make_site(**POLICIES)
    site.of_storage["s3"] = {"type": "file", "connection": "s3a://b", "workspaces": {"w": {"location": "/w"}}}
    table = TableName("s3", "w", "sales")
    hints, storage = EventHints(None, Counter()), site.settings.storage
    hints.take([EventMessage("1", "h", frozenset(["s3://b/w/sales/a"]))])
    [running] = hints.mark([situation(site, None, table)], storage, all_listed=True)
    hints.take([EventMessage("2", "h", frozenset(["s3://b/w/sales/b"]))])
    hints.settle(running, "done")
    [after] = hints.mark([situation(site, None, table)], storage, all_listed=True)
    assert [each.hints for each in (running, after)] == [frozenset("1"), frozenset("2")]


def test_a_message_waits_while_tables_could_not_be_listed(make_site: Callable[..., Site]) -> None:
    """Its table may be among them."""
    site = make_site(**POLICIES)
    site.of_storage["s3"] = {"type": "file", "connection": "s3a://b", "workspaces": {"w": {"location": "/w"}}}
    hints, storage = EventHints(None, Counter()), site.settings.storage
    hints.take([EventMessage("1", "h", frozenset(["s3://b/w/sales/a"]))])
    assert hints.mark([], storage, all_listed=False) == []
    [found] = hints.mark([situation(site, None, TableName("s3", "w", "sales"))], storage, all_listed=True)
    assert found.hints == {"1"}


RECORD = {"s3": {"bucket": {"name": "b"}, "object": {"key": "a+b%2Bc%C3%BC/d"}}}
OF_S3 = json.dumps({"Records": [RECORD]})


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (OF_S3, {"s3://b/a b+cü/d"}),
        (json.dumps({"Type": "Notification", "Message": OF_S3}), {"s3://b/a b+cü/d"}),
        (
            json.dumps({"source": "aws.s3", "detail": {"bucket": {"name": "b"}, "object": {"key": "a+b%2B c"}}}),
            {"s3://b/a+b%2B c"},
        ),
        (json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}), set()),
        (json.dumps({"Records": []}), set()),
        ("[" * 100_000, None),
        ("{}", None),
        (json.dumps({"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": ["k"]}}}]}), None),
    ],
)
def test_each_form_names_its_objects(body: str, places: set[str] | None) -> None:
    """S3 escapes keys as forms do; EventBridge has them as they are."""
    assert places_of(body) == places


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["Records", "s3", "bucket", "object", "name", "key", "Type", "Message", "source", "detail"]
            ),
            inner,
        )
    ),
)


@given(JSON.map(json.dumps) | st.text())
def test_no_body_is_an_error(body: str) -> None:
    """Whatever others send, it names objects or none."""
    found = places_of(body)
    assert found is None or all(place.startswith("s3://") for place in found)
