"""The message lane in memory: its group, tenants' topics and reports. Fulfils ``ports.message_log``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tocsin.adapters.memory.dispatch_log import MemoryDispatchLog, MemoryLane
from tocsin.domain.errors import Unavailable
from tocsin.domain.executions import AttemptError
from tocsin.ports.dispatch_log import AssignmentListener, CommitOutcome, Delivery, Mark
from tocsin.ports.message_log import Message, Report, Settlement, TransactionOutcome, TransactionResult


class Fault(Enum):
    """What befalls a transaction."""

    ABORTED = "aborted"
    UNKNOWN_BUT_COMMITTED = "unknown, committed"
    UNKNOWN_AND_LOST = "unknown, not committed"


@dataclass
class MemoryTopic:
    """A tenant's topic. ``looks_fine``: what forbids a message shows only when it is written."""

    bytes_max: int = 1_000_000
    needs_key: bool = False
    looks_fine: bool = False
    records: list[Message] = field(default_factory=list)


class MemoryMessageBroker:
    """The lane and all that transactions write.

    Attributes:
        lane: the executions, their group and what it committed.
        topics: of tenants, by name.
        reports: in the order of their commits.
        faults: what befalls the next transactions; None: nothing.
        fences_fail: so many of the next calls of ``fence`` are not answered.
        interruptions: called with the log that begins a transaction, one for each: what happens meanwhile.
    """

    def __init__(self, partitions: int, prefix: str = "tocsin.") -> None:
        self.lane = MemoryLane(partitions)
        self.topics: dict[str, MemoryTopic] = {}
        self.reports: list[Report] = []
        self.faults: deque[Fault | None] = deque()
        self.fences_fail = 0
        self.interruptions: deque[Callable[[MemoryMessageLog], None]] = deque()
        self._prefix = prefix

    def refusal(self, message: Message) -> AttemptError | None:
        """Return what forbids a message in truth."""
        topic = self.topics.get(message.topic)
        if message.topic.startswith(("__", self._prefix)):
            return AttemptError("reserved_topic", message.topic)
        if topic is None:
            return AttemptError("topic_missing", message.topic)
        if len(message.key or b"") + len(message.value or b"") > topic.bytes_max:
            return AttemptError("too_large", message.topic)
        if topic.needs_key and message.key is None:
            return AttemptError("invalid_record", message.topic)
        return None

    def examine(self, message: Message) -> AttemptError | None:
        """Return what is known to forbid a message."""
        topic = self.topics.get(message.topic)
        return None if topic is not None and topic.looks_fine else self.refusal(message)

    def write(self, settlement: Settlement) -> None:
        if settlement.message is not None:
            self.topics[settlement.message.topic].records.append(settlement.message)
        if settlement.report is not None:
            self.reports.append(settlement.report)


class MemoryMessageLog:
    """Fulfils ``ports.message_log.MessageLog``: one member."""

    def __init__(self, broker: MemoryMessageBroker) -> None:
        self.member = MemoryDispatchLog(broker.lane)
        self.transactions: list[int] = []
        """How many records each transaction was to settle."""
        self._broker = broker
        self._fenced = False

    def join(self, listener: AssignmentListener) -> None:
        self.member.join(listener)

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        return self.member.poll(limit, wait_s)

    def pause(self, partitions: Collection[int]) -> None:
        self.member.pause(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self.member.resume(partitions)

    def examine(self, messages: Sequence[Message]) -> list[AttemptError | None]:
        return [self._broker.examine(message) for message in messages]

    def transact(self, settlements: Sequence[Settlement]) -> TransactionResult:
        assert self._fenced, "fence first"
        self.transactions.append(len(settlements))
        if self._broker.interruptions:
            self._broker.interruptions.popleft()(self)
        refusals = [self._broker.refusal(s.message) for s in settlements if s.message is not None]
        if any(refusals):
            refusal = refusals[0] if len(settlements) == 1 else None
            return TransactionResult(TransactionOutcome.ABORTED, refusal)
        fault = self._broker.faults.popleft() if self._broker.faults else None
        if fault is Fault.ABORTED:
            return TransactionResult(TransactionOutcome.ABORTED)
        if fault is Fault.UNKNOWN_AND_LOST:
            return self._unknown()
        last = {settlement.partition: settlement for settlement in settlements}
        marks = [Mark(partition, one.offset + 1, one.metadata) for partition, one in last.items()]
        if self._broker.lane.write(self.member, marks) is not CommitOutcome.ACCEPTED:
            return TransactionResult(TransactionOutcome.MOVED_ON)
        for settlement in settlements:
            self._broker.write(settlement)
        if fault is Fault.UNKNOWN_BUT_COMMITTED:
            return self._unknown()
        return TransactionResult(TransactionOutcome.COMMITTED)

    def _unknown(self) -> TransactionResult:
        self._fenced = False
        return TransactionResult(TransactionOutcome.UNKNOWN)

    def fence(self, partitions: Collection[int]) -> Mapping[int, int | None]:
        if self._broker.fences_fail:
            self._broker.fences_fail -= 1
            raise Unavailable("kafka", "no answer")
        self._fenced = True
        committed = self._broker.lane.committed
        return {partition: committed.get(partition, (None, ""))[0] for partition in partitions}

    def close(self) -> None:
        self.member.close()
