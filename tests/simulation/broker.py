"""A simulated log: partitions with transactions, fencing, markers, and ends that an open transaction hides.

What is committed is told to a listener in the order of the commits; readers see it only as a broker would show it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tocsin.domain.instants import SECOND, Micros
from tocsin.ports.shard_log import LogRecord, NewRecord, ShardTurn

TRANSACTION_TIMEOUT: Final[Micros] = 6 * SECOND
MARKERS_WITHIN: Final[Micros] = 10 * SECOND
"""However slow markers are, they are there so long after the decision: else people are to be alerted."""
"""A transaction's own limit of 5 s, and the brokers' sweep."""

Place = tuple[str, int]
"""Topic and partition."""


class Violation(AssertionError):
    """Something happened that must never happen."""


class Transaction:
    """One transaction: what it wrote and where, and how far its end has come."""

    __slots__ = ("began_at", "decided", "decided_at", "handle", "late", "offsets", "places", "turns")

    def __init__(self, handle: Handle | None, began_at: Micros) -> None:
        self.handle = handle
        self.began_at = began_at
        self.decided: bool | None = None
        """None: open. Then: whether it was committed. Markers may follow later."""
        self.decided_at = began_at
        self.places: set[Place] = set()
        """Where its marker is still missing."""
        self.offsets: frozenset[int] = frozenset()
        """Shards whose group offsets it carries, until their marker is written."""
        self.late = False
        """Its producer has given up waiting for the answer to a commit, which may yet arrive."""
        self.turns: Sequence[ShardTurn] = ()


class Handle:
    """A transactional producer, as of its ``init``."""

    __slots__ = ("broken", "epoch", "producer_id")

    def __init__(self, producer_id: str, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.broken = False
        """An error left it in a state in which the client library refuses to go on."""


class Partition:
    """A partition's records in order, gaps for markers, and the transactions that hide what is behind them."""

    __slots__ = ("end", "offsets", "open", "records", "start", "transactions")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.offsets: list[int] = []
        self.records: list[LogRecord] = []
        self.transactions: list[Transaction | None] = []
        self.open: dict[Transaction, int] = {}
        """Transactions without a marker here, with their first offset."""

    def stable_end(self) -> int:
        """Return the last stable offset: what read_committed clients take for the end."""
        return min(self.open.values(), default=self.end)

    def read(self, position: int, limit: int) -> tuple[list[LogRecord], int]:
        """Return what a read_committed client reads from a position on, and its position after that."""
        stable = self.stable_end()
        found: list[LogRecord] = []
        at = bisect_left(self.offsets, position)
        for index in range(at, len(self.offsets)):
            offset = self.offsets[index]
            if offset >= stable:
                return found, max(position, stable)
            transaction = self.transactions[index]
            if transaction is None or transaction.decided:
                if len(found) >= limit:
                    return found, offset
                found.append(self.records[index])
        return found, max(position, stable)


class Broker:
    """All topics, and who may still write.

    Attributes:
        now: the one true time, µs.
        slow_markers: whether markers of decided transactions come later, each by itself.
    """

    def __init__(self, now: Micros) -> None:
        self.now = now
        self.slow_markers = False
        self._partitions: dict[Place, Partition] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}
        """By producer: the transaction that is not decided."""
        self._unmarked: list[Transaction] = []
        self.on_commit: Callable[[Transaction], None] = lambda _: None
        self.on_append: Callable[[str, LogRecord], None] = lambda _topic, _record: None

    def partition(self, topic: str, number: int) -> Partition:
        place = (topic, number)
        found = self._partitions.get(place)
        if found is None:
            found = self._partitions[place] = Partition()
        return found

    def append(
        self,
        topic: str,
        number: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: Micros | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """Append a record and return its offset; brokers keep whole milliseconds."""
        partition = self.partition(topic, number)
        offset = partition.end
        at = (self.now if timestamp is None else timestamp) // 1000 * 1000
        record = LogRecord(number, offset, at, key, value)
        partition.offsets.append(offset)
        partition.records.append(record)
        partition.transactions.append(transaction)
        partition.end = offset + 1
        if transaction is not None and transaction not in partition.open:
            partition.open[transaction] = offset
            transaction.places.add((topic, number))
        if transaction is None:
            self.on_append(topic, record)
        return offset

    # Producers

    def init(self, producer_id: str) -> Handle:
        """Begin a producer: whoever had its id before can write nothing more, and what it left open is aborted."""
        epoch = self._epochs.get(producer_id, -1) + 1
        self._epochs[producer_id] = epoch
        left = self._open.get(producer_id)
        if left is not None:
            self._decide(left, False)
        for transaction in [t for t in self._unmarked if t.handle and t.handle.producer_id == producer_id]:
            self._mark_all(transaction)
        return Handle(producer_id, epoch)

    def is_current(self, handle: Handle) -> bool:
        return self._epochs.get(handle.producer_id) == handle.epoch

    def begin(self, handle: Handle) -> Transaction:
        """Begin a transaction; its producer's last one is decided, and its markers are there."""
        for former in [t for t in self._unmarked if t.handle is handle]:
            self._mark_all(former)
        former_open = self._open.get(handle.producer_id)
        if former_open is not None:
            raise Violation(f"{handle.producer_id} begins a transaction while its last one is open")
        transaction = Transaction(handle, self.now)
        self._open[handle.producer_id] = transaction
        return transaction

    def produce(self, transaction: Transaction, record: NewRecord) -> int:
        key = record.key.encode()
        return self.append(record.topic, record.partition, key, record.value, record.timestamp, transaction)

    def end(self, transaction: Transaction, commit: bool) -> None:
        """Decide a transaction whose producer asks for it, and was not fenced."""
        self._decide(transaction, commit)

    def foreign(self) -> Transaction:
        """Begin a transaction of some client that is not ours."""
        transaction = Transaction(None, self.now)
        self._unmarked.append(transaction)
        return transaction

    def end_foreign(self, transaction: Transaction, commit: bool) -> None:
        if transaction.decided is None:
            transaction.decided = commit
            self._mark_all(transaction)

    def _decide(self, transaction: Transaction, commit: bool) -> None:
        assert transaction.handle is not None and transaction.decided is None
        del self._open[transaction.handle.producer_id]
        transaction.decided, transaction.decided_at = commit, self.now
        self._unmarked.append(transaction)
        if commit:
            self.on_commit(transaction)
        if not self.slow_markers or not commit:
            self._mark_all(transaction)

    # Markers and time

    def pending_offsets(self, shards: Sequence[int]) -> bool:
        """Tell whether a transaction that carries group offsets of these shards is not done with them."""
        wanted = set(shards)
        return any(t.offsets & wanted for t in [*self._open.values(), *self._unmarked])

    def _mark_all(self, transaction: Transaction) -> None:
        for place in list(transaction.places):
            self._mark(transaction, place)
        transaction.offsets = frozenset()
        if transaction in self._unmarked:
            self._unmarked.remove(transaction)

    def _mark(self, transaction: Transaction, place: Place) -> None:
        partition = self._partitions[place]
        partition.open.pop(transaction, None)
        partition.end += 1
        transaction.places.discard(place)

    def progress(self, chance: Random, share: float) -> None:
        """Let some markers be written, late commits arrive, and abort what lasted too long."""
        for transaction in list(self._unmarked):
            if transaction.decided is None:
                continue
            if transaction.offsets and chance.random() < share:
                transaction.offsets = frozenset()
            for place in sorted(transaction.places):
                if chance.random() < share:
                    self._mark(transaction, place)
            if not transaction.places and not transaction.offsets:
                self._unmarked.remove(transaction)
        for transaction in list(self._open.values()):
            if transaction.late and chance.random() < share:
                self.land(transaction)
        self._sweep()

    def land(self, transaction: Transaction) -> None:
        """A commit that was under way arrives; a fenced producer's is refused."""
        if transaction.decided is None and transaction.handle and self.is_current(transaction.handle):
            transaction.late = False
            self._decide(transaction, True)

    def time_passed(self) -> None:
        """Do what a broker does by itself, however long nobody turned to it."""
        self._sweep()
        for transaction in list(self._unmarked):
            if transaction.decided is not None and self.now - transaction.decided_at > MARKERS_WITHIN:
                self._mark_all(transaction)

    def _sweep(self) -> None:
        """Abort what lasts longer than its limit; its producer cannot go on with it."""
        for producer_id, transaction in list(self._open.items()):
            if self.now - transaction.began_at > TRANSACTION_TIMEOUT:
                self._epochs[producer_id] += 1
                self._decide(transaction, False)
        for transaction in list(self._unmarked):
            if transaction.decided is None and self.now - transaction.began_at > TRANSACTION_TIMEOUT:
                self.end_foreign(transaction, False)
