"""A worker's message lane that dies or falls asleep at a chosen point of a transaction. Run as a process of its own.

Arguments: bootstrap servers, topic prefix, shards, what happens (``die`` or ``sleep``), before which call of the
producer, and in which transaction.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from confluent_kafka.admin import AdminClient

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.dispatch_log import KafkaDispatchLog, consumer_config
from tocsin.adapters.kafka.message_log import KafkaMessageLog, transactions_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.tenant_topics import TenantTopics
from tocsin.adapters.memory.cancel_log import MemoryCancelLog
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.bootstrap.process import SystemClock
from tocsin.ports.dispatch_log import Delivery
from tocsin.roles.worker.message_loop import MessageLimits, MessageLoop

TRANSACTION_S = 2.0


class InterruptedProducer:
    """A producer whose process is struck before one of its calls."""

    def __init__(self, producer: Any, strike: signal.Signals, call: str, countdown: list[int]) -> None:
        self._producer = producer
        self._strike = strike
        self._call = call
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        if name == self._call:
            self._countdown[0] -= 1
            if self._countdown[0] == 0:
                # What was produced is at the broker: the transaction is open there.
                self._producer.flush(10)
                os.kill(os.getpid(), self._strike)
        return getattr(self._producer, name)


class VictimLog(KafkaMessageLog):
    """The lane's log with such a producer."""

    strike: signal.Signals
    call: str
    countdown: list[int]

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        if self.call == "poll" and self._producer is not None:
            self.countdown[0] -= 1
            if self.countdown[0] == 0:
                os.kill(os.getpid(), self.strike)
                # Its client wakes first, learns that it is a member no more, and does what it does about that.
                time.sleep(5)
        return super().poll(limit, wait_s)

    def _renew(self, wait_s: float) -> None:
        super()._renew(wait_s)
        wrapped: Any = InterruptedProducer(self._producer, self.strike, self.call, self.countdown)
        self._producer = wrapped


def main() -> None:
    servers, prefix, shards, what, call, transaction = sys.argv[1:]
    names = TopicNames(prefix)
    topic, group = names.executions("message"), names.group("worker.message")
    log = VictimLog(
        KafkaDispatchLog(topic, consumer_config(servers, group, "victim", "consumer", 10.0, 1_000_000)),
        topic,
        names,
        int(shards),
        transactions_config(servers, "victim", f"{group}.victim", TRANSACTION_S),
        TenantTopics(AdminClient(base_config(servers, "victim")), names, 30.0),
    )
    log.strike = signal.SIGKILL if what == "die" else signal.SIGSTOP
    log.call, log.countdown = call, [int(transaction)]
    limits = MessageLimits(batch_records_max=10)
    loop = MessageLoop(
        "victim", log, AvroCodec(), SystemClock(), time.monotonic, PrometheusMeter(), limits, MemoryCancelLog()
    )
    loop.join()
    while True:
        loop.step()


if __name__ == "__main__":
    main()
