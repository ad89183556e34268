"""The message lane in a world of memory."""

from __future__ import annotations

from typing import Any

from tests.unit.worker.worker_world import CODEC, CountingMeter, HandClock
from tocsin.adapters.memory.cancel_log import MemoryCancelLog
from tocsin.adapters.memory.message_log import MemoryMessageBroker, MemoryMessageLog, MemoryTopic
from tocsin.domain.executions import AttemptHead, AttemptReport, dispatch_key
from tocsin.domain.fleet import Cancel
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import MessageTarget, Target
from tocsin.roles.worker.message_loop import MessageLimits, MessageLoop


class MessageWorker:
    """One worker's message lane."""

    def __init__(self, world: MessageWorld, name: str, join: bool) -> None:
        self.log = MemoryMessageLog(world.broker)
        self.meter = CountingMeter()
        clock = world.clock
        self.loop = MessageLoop(
            name, self.log, CODEC, clock, clock.monotonic_s, self.meter, world.limits, MemoryCancelLog(world.cancels)
        )
        if join:
            self.loop.join()

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.step()


class MessageWorld:
    """The lane, tenants' topics and reports that all workers share. ``orders`` is a topic that takes everything."""

    def __init__(self, partitions: int = 1, **limits: Any) -> None:
        self.broker = MemoryMessageBroker(partitions)
        self.broker.topics["orders"] = MemoryTopic()
        self.clock = HandClock()
        self.cancels: list[Cancel] = []
        self.limits = MessageLimits(**limits)

    def worker(self, name: str = "w1", *, join: bool = True) -> MessageWorker:
        return MessageWorker(self, name, join)

    def dispatch(self, *jobs: str, topic: str = "orders", value: str | None = None, partition: int = 0) -> None:
        """Write executions; the message's key is the job, so that it can be told in its topic."""
        for job in jobs:
            self.dispatch_target(job, MessageTarget(topic, job, {"colour": "blue"}, value or job), partition)

    def dispatch_target(self, job: str, target: Target, partition: int = 0) -> None:
        identity = execution_id(job, 7, 5_000_000)
        head = AttemptHead(2, 3, 0, identity, job, "acme", 7, 5_000_000, 5_000_000)
        key = dispatch_key("acme", identity, 2, 3).encode()
        self.broker.lane.append(partition, key, CODEC.encode_execution(head, target))

    def written(self, topic: str = "orders") -> list[str]:
        """Return the jobs whose messages are in a topic."""
        return [(message.key or b"").decode() for message in self.broker.topics[topic].records]

    @property
    def reports(self) -> list[AttemptReport]:
        return [CODEC.decode_report(report.value) for report in self.broker.reports]

    def ends(self) -> list[tuple[str, str]]:
        """Return job and kind, or class of error, of every report."""
        return [(r.head.job_id, r.error.error_class if r.error else r.kind) for r in self.reports]

    def settled_upto(self, partition: int = 0) -> int:
        return self.broker.lane.committed.get(partition, (0, ""))[0]
