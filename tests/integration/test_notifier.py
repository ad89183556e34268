"""Notifiers on a real broker, posting to a real receiver that fails first, and hangs for one tenant."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from tests.http_receiver import HttpReceiver
from tests.kafka_topics import create_topics
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.alert_log import KafkaAlertLog
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.adapters.targets.addresses import AddressRules
from tocsin.adapters.targets.signatures import Signer
from tocsin.adapters.targets.webhooks import HttpWebhookPoster
from tocsin.devcluster import Endpoints
from tocsin.domain.alerts import Alert
from tocsin.engine.notification_desk import ANY_TENANT, OPERATOR, NotificationLimits
from tocsin.roles.notifier.loop import NotifierLoop
from tocsin.testing import SettableClock

pytestmark = pytest.mark.real
CODEC = AvroCodec()
PATIENCE_S = 120.0


class Notifier:
    """One member of the group, turned by the test."""

    def __init__(self, bootstrap: str, topic: str, url: str) -> None:
        self.log = KafkaAlertLog(bootstrap, topic, f"{topic}-group", "notifier")
        urls = {"failing": f"{url}/failing", "hanging": f"{url}/gated", ANY_TENANT: f"{url}/all", OPERATOR: f"{url}/op"}
        rules = AddressRules(allow_private=True)
        self.poster = HttpWebhookPoster(urls, SettableClock(), rules, Signer({}), timeout_s=60.0)
        limits = NotificationLimits(retry_first_s=0.2)
        meter = PrometheusMeter(CollectorRegistry())
        self.loop = NotifierLoop(self.log, self.poster, CODEC, urls, limits, meter)

    def until(self, what: str, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
            self.loop.step(time.time_ns() // 1000, 0.05)

    def die(self) -> None:
        """End without a last word; only the client's threads are ended in order."""
        self.poster.close()
        self.log.close()


class Topic:
    """Alerts, told in transactions as owners do."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.name = name
        create_topics(bootstrap, {name: 1})
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        self._producer.init_transactions(20)

    def tell(self, tenant_id: str | None, job_id: str, *, commit: bool = True) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self.name, CODEC.encode_alert(Alert("dead_letter", 1, tenant_id, job_id)), "", 0)
        self._producer.flush(20)
        if commit:
            self._producer.commit_transaction(20)
        else:
            self._producer.abort_transaction(20)


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    left = [503, 500]

    async def failing(_request: web.Request) -> web.Response:
        return web.Response(status=left.pop() if left else 200)

    made = HttpReceiver({"/failing": failing})
    yield made
    made.gate.set()
    made.close()


def test_alerts_reach_their_webhooks_at_least_once_whoever_dies(
    cluster: Endpoints, unique: str, receiver: HttpReceiver
) -> None:
    bootstrap, topic = cluster.kafka_bootstrap, Topic(cluster.kafka_bootstrap, f"{unique}.alerts")
    topic.tell("acme", "before-the-first")

    def got() -> Counter[str]:
        return Counter(json.loads(call.body)["job_id"] for call in list(receiver.calls))

    first = Notifier(bootstrap, topic.name, receiver.url)
    first.until("the first to have the partition", lambda: first.loop._committed is not None)
    topic.tell("hanging", "hangs")
    topic.tell("failing", "fails-first")
    topic.tell("acme", "aborted", commit=False)
    topic.tell("acme", "well")
    topic.tell(None, "nobodys")
    first.until(
        "all but what hangs to arrive", lambda: got() == {"hangs": 1, "fails-first": 3, "well": 1, "nobodys": 1}
    )
    assert {c.path for c in receiver.calls if json.loads(c.body)["tenant_id"] is None} == {"/op"}
    desk = first.loop._desk
    assert desk is not None
    first.until("that to be committed", lambda: desk.waiting == 1 and first.loop._committed == desk.commit())
    first.die()

    topic.tell("acme", "while-nobody-was-there")
    second = Notifier(bootstrap, topic.name, receiver.url)
    second.until("what came meanwhile", lambda: got()["while-nobody-was-there"] and got()["hangs"] == 2)
    receiver.gate.set()
    second.until("all to be settled", lambda: second.loop._desk is not None and not second.loop._desk.waiting)
    second.die()
    assert got() == {"hangs": 2, "fails-first": 3, "well": 1, "nobodys": 1, "while-nobody-was-there": 1}
    ids = {json.loads(call.body)["id"] for call in receiver.calls if json.loads(call.body)["job_id"] == "hangs"}
    assert len(ids) == 1, "a repetition can be told"
