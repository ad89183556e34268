"""The notifier as a whole, on a topic and receivers in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.alert_log import MemoryAlertLog, MemoryAlertTopic
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Unavailable
from tocsin.domain.instants import SECOND
from tocsin.engine.notification_desk import ANY_TENANT, OPERATOR, NotificationLimits
from tocsin.ports.webhooks import Post, PostEnd
from tocsin.roles.notifier.loop import NotifierLoop
from tocsin.roles.notifier.rendering import alert_body, alert_headers, alert_id

CODEC = AvroCodec()
T0 = 1_800_000_000 * SECOND


class Receivers:
    """Fulfils ``ports.webhooks.WebhookPoster``: answers at once, or when it is told to."""

    def __init__(self) -> None:
        self.got: list[Post] = []
        self.broken: dict[str, PostEnd] = {}
        """By tenant, how posts for it end."""
        self.silent = False
        self._ended: list[PostEnd] = []

    def start(self, posts: Sequence[Post]) -> None:
        for post in posts:
            self.got.append(post)
            tenant_id = json.loads(post.body)["tenant_id"]
            end = self.broken.get(tenant_id, PostEnd(None, status=200))
            if not self.silent:
                self._ended.append(end._replace(ref=post.ref))

    def answer(self) -> None:
        """Answer all that was posted, well, also twice."""
        self._ended += [PostEnd(post.ref, status=200) for post in self.got]

    def ended(self) -> list[PostEnd]:
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Nothing is open."""

    def jobs(self) -> list[str]:
        return [json.loads(post.body)["job_id"] for post in self.got]


class Bench:
    """A topic with one notifier after another."""

    def __init__(self) -> None:
        self.topic = MemoryAlertTopic()
        self.receivers = Receivers()
        self.now = T0
        self.start()

    def start(self) -> None:
        self.log = MemoryAlertLog(self.topic)
        self.meter = PrometheusMeter(CollectorRegistry())
        self.loop = NotifierLoop(
            self.log,
            self.receivers,
            CODEC,
            (ANY_TENANT, OPERATOR),
            NotificationLimits(give_up_after_s=60.0),
            self.meter,
        )
        self.log.assign()
        self.step()

    def tell(self, tenant_id: str | None, job_id: str) -> None:
        self.topic.values.append(CODEC.encode_alert(Alert("dead_letter", self.now, tenant_id, job_id, message="x")))

    def step(self, count: int = 1, seconds: float = 0.0) -> None:
        for _ in range(count):
            self.loop.step(self.now, 0.0)
            self.now += round(seconds * SECOND)

    def count(self, fate: str) -> float | None:
        return self.meter.registry.get_sample_value("tocsin_notifications_total", {"outcome": fate})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_alerts_are_posted_counted_and_committed(bench: Bench) -> None:
    bench.tell("a", "a@1")
    bench.tell(None, "b@2")
    bench.step(3, seconds=1)
    assert bench.receivers.jobs() == ["a@1", "b@2"]
    assert bench.count("delivered") == 2 and bench.topic.committed is not None and bench.topic.committed.offset == 2


def test_every_outcome_counts_from_nothing(bench: Bench) -> None:
    fates = ("delivered", "failed", "dropped", "unrouted", "unreadable")
    assert [bench.count(fate) for fate in fates] == [0] * 5


def test_where_it_began_is_committed_before_anything_comes(bench: Bench) -> None:
    """Else what comes while the first notifier is down would be past the end at which its successor begins."""
    bench.tell("a", "a@before")
    fresh = Bench()
    fresh.topic.values.append(None)
    fresh.start()
    assert fresh.topic.committed is not None
    bench.log.take_away()
    bench.tell("a", "a@while-away")
    bench.start()
    bench.step(2)
    assert "a@while-away" in bench.receivers.jobs()


def test_a_broken_receiver_is_tried_again_and_keeps_nobody_waiting(bench: Bench) -> None:
    bench.receivers.broken["a"] = PostEnd(None, "500 Internal Server Error", 500)
    bench.tell("a", "a@1")
    bench.tell("b", "b@1")
    bench.step(3)
    assert bench.receivers.jobs() == ["a@1", "b@1"]
    bench.receivers.broken.clear()
    bench.step(4, seconds=1)
    assert bench.receivers.jobs() == ["a@1", "b@1", "a@1"]
    first, _, again = bench.receivers.got
    assert first.id == again.id and first.body == again.body, "receivers may tell repetitions by the id"
    assert (bench.count("failed"), bench.count("delivered")) == (1, 2)


def test_what_nobody_takes_is_given_up_with_a_line_and_a_count(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.receivers.broken["a"] = PostEnd(None, "connection refused")
    bench.tell("a", "a@1")
    bench.step(80, seconds=1)
    assert bench.count("dropped") == 1 and bench.loop._desk is not None and bench.loop._desk.waiting == 0
    told = capsys.readouterr().out
    assert told.count("notifier.dropped") == 1 and "a@1" in told


def test_a_kill_between_the_post_and_its_commit_posts_again_and_loses_nothing(bench: Bench) -> None:
    bench.log.refuses_commits = True
    bench.tell("a", "a@1")
    bench.step(3, seconds=2)
    bench.start()
    bench.step(3, seconds=2)
    assert bench.receivers.jobs() == ["a@1", "a@1"]
    assert bench.receivers.got[0].id == bench.receivers.got[1].id


def test_an_answer_to_a_former_assignment_settles_nothing(bench: Bench) -> None:
    bench.receivers.silent = True
    bench.tell("a", "a@1")
    bench.step(2)
    bench.log.take_away()
    bench.log.assign()
    bench.receivers.answer()
    bench.step(2, seconds=1)
    assert bench.topic.committed is not None and bench.topic.committed.offset == 0
    assert bench.receivers.jobs() == ["a@1", "a@1"]


def test_damaged_records_are_counted_and_passed_over(bench: Bench) -> None:
    bench.topic.values.append(b"no alert")
    bench.topic.values.append(None)
    bench.tell("a", "a@1")
    bench.step(3, seconds=1)
    assert bench.receivers.jobs() == ["a@1"] and bench.count("unreadable") == 2


def test_without_the_log_what_was_read_is_still_posted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.receivers.broken["a"] = PostEnd(None, "500", 500)
    bench.tell("a", "a@1")
    bench.step(2)

    def away(limit: int, wait_s: float) -> Any:
        raise Unavailable("kafka", "no broker")

    monkeypatch.setattr(bench.log, "poll", away)
    bench.receivers.broken.clear()
    bench.step(5, seconds=1)
    assert bench.receivers.jobs() == ["a@1", "a@1"] and bench.count("delivered") == 1


def test_the_form_of_what_is_posted() -> None:
    alert = Alert("suspended", T0, "acme", "acme@é", None, 3, "why\n\ud800", 2, "missed")
    name = alert_id(alert, 17)
    body = json.loads(alert_body(alert, name))
    assert body == {
        "id": f"alert-{T0}-17",
        "kind": "suspended",
        "at": "2027-01-15T08:00:00Z",
        "tenant_id": "acme",
        "job_id": "acme@é",
        "execution_id": None,
        "shard": 3,
        "message": "why\n?",
        "count": 2,
        "alert_on": "missed",
    }
    headers = alert_headers(alert, name)
    assert headers["ce-type"] == "tocsin.alert.suspended" and headers["ce-id"] == body["id"]
    assert headers["ce-time"] == body["at"] and headers["Content-Type"] == "application/json"


def test_no_text_of_an_alert_breaks_a_header() -> None:
    """Job ids are checked where jobs are made, but a record of the topic may hold anything."""
    alert = Alert("dead\r\nX-Evil: 1", T0, "a", "j\r\nX: 2\u00e9")
    headers = alert_headers(alert, alert_id(alert, 1))
    assert all(text.isascii() and text.isprintable() for text in headers.values())
