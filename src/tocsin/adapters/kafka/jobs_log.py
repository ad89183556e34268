"""Reading jobs logs beside the turns: one thread, one partition at a time, asked again until it succeeds."""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Unavailable
from tocsin.ports.jobs_log import JobsPage, JobsRecord

log = structlog.get_logger()

ANSWER_S: Final = 10.0
PATIENCE_S: Final = 60.0
"""How long a partition may bring nothing before the reading is begun anew."""
PAGE_BYTES_MAX: Final = 4_000_000
FETCHED_MAX: Final = 500
"""Records taken from the client at once."""
PAUSE_MAX_S: Final = 5.0
SEEN_BITS: Final = 1 << 27


class LastOffsets:
    """Tells which record of a key is its last, of the records of one partition, in bounded memory.

    Keys that come once, which are nearly all of a compacted log, cost a bit. A key that may have come before is
    remembered with its offset; should the bit be another key's, then it is remembered needlessly.
    """

    def __init__(self, bits: int = SEEN_BITS) -> None:
        self._seen = bytearray(bits // 8)
        self._bits = bits
        self._last: dict[str, int] = {}

    def note(self, key: str, offset: int) -> None:
        """Take a record in; offsets grow."""
        byte, bit = divmod(hash(key) % self._bits, 8)
        if self._seen[byte] >> bit & 1:
            self._last[key] = offset
        else:
            self._seen[byte] |= 1 << bit

    def is_last(self, key: str, offset: int) -> bool:
        """Tell whether no later record of a key was taken in."""
        return self._last.get(key, offset) == offset


class _Asked(NamedTuple):
    shard: int
    generation: int
    start: int
    records_max: int


class _Reading:
    """One partition, surveyed once and then read page by page."""

    def __init__(self, base: dict[str, Any], topic: str, prefix: str, shard: int) -> None:
        self._topic = topic
        self._shard = shard
        self.end = _true_end(base, topic, prefix, shard)
        self.next = -1
        self._last = LastOffsets()
        self._consumer = Consumer(
            {
                **base,
                "group.id": f"{prefix}jobs",
                "client.id": f"{base['client.id']}-{uuid.uuid4().hex[:6]}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "message.max.bytes": 3_000_000,
                "queued.max.messages.kbytes": 16_384,
            }
        )
        self._records: Iterator[tuple[int, str, bytes | None]] = iter(())

    def survey(self, is_wanted: Any) -> None:
        for offset, key, _value in self._from(0):
            self._last.note(key, offset)
            if offset % FETCHED_MAX == 0 and not is_wanted():
                return

    def page(self, start: int, records_max: int) -> JobsPage:
        if start != self.next:
            self._records = self._from(start)
        found: list[JobsRecord] = []
        size = 0
        self.next = self.end
        for looked_at, (offset, key, value) in enumerate(self._records, 1):
            if value is not None and self._last.is_last(key, offset):
                found.append(JobsRecord(offset, key, value))
                size += len(value)
            if looked_at >= records_max or size >= PAGE_BYTES_MAX:
                self.next = offset + 1
                break
        return JobsPage(self._shard, start, found, self.next, self.end)

    def close(self) -> None:
        self._consumer.close()

    def _from(self, start: int) -> Iterator[tuple[int, str, bytes | None]]:
        """Yield the committed records from an offset to the end."""
        if self.end <= start:
            return
        self._consumer.assign([TopicPartition(self._topic, self._shard, start or OFFSET_BEGINNING)])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
            first = self._consumer.poll(0.5)
            for message in [first, *self._consumer.consume(FETCHED_MAX, 0)] if first is not None else []:
                error = message.error()
                offset = place(message)[1] if error is None or error.code() == KafkaError._PARTITION_EOF else -1
                if offset >= self.end:
                    return
                if error is None:
                    yield offset, (message.key() or b"").decode(), message.value()
                    if offset + 1 >= self.end:
                        return
                    # Whoever asks for the pages may take a while.
                    deadline = time.monotonic() + PATIENCE_S
                elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                    raise unavailable(error)
        raise Unavailable("kafka", f"{self._topic} partition {self._shard} could not be read to {self.end}")


def _true_end(base: dict[str, Any], topic: str, prefix: str, shard: int) -> int:
    looker = Consumer({**base, "group.id": f"{prefix}look", "isolation.level": "read_uncommitted"})
    try:
        return looker.get_watermark_offsets(TopicPartition(topic, shard), timeout=ANSWER_S)[1]
    finally:
        looker.close()


class KafkaJobsLog:
    """Fulfils ``ports.jobs_log.JobsLog``. Its thread begins with the first request."""

    def __init__(self, bootstrap_servers: str, names: TopicNames, client_id: str, extra: dict[str, str]) -> None:
        self._base = base_config(bootstrap_servers, f"{client_id}-jobs", extra)
        self._names = names
        self._asked: deque[_Asked] = deque()
        self._done: deque[tuple[int, JobsPage]] = deque()
        self._generations: defaultdict[int, int] = defaultdict(int)
        self._readings: dict[int, tuple[int, _Reading]] = {}
        """By shard, each with its generation; touched by the thread only."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def begin_read(self, shard: int, start: int, records_max: int) -> None:
        with self._changed:
            self._asked.append(_Asked(shard, self._generations[shard], start, records_max))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobs-log", daemon=True)
                self._thread.start()
            self._changed.notify()

    def completed(self) -> list[JobsPage]:
        found: list[JobsPage] = []
        while self._done:
            generation, page = self._done.popleft()
            if generation == self._generations[page.shard]:
                found.append(page)
        return found

    def forget(self, shard: int) -> None:
        with self._changed:
            self._generations[shard] += 1
            self._asked = deque(asked for asked in self._asked if asked.shard != shard)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=ANSWER_S)

    # On the thread.

    def _run(self) -> None:
        failures = 0
        while (asked := self._next()) is not None:
            try:
                page = self._read(asked)
                failures = 0
            except (KafkaException, Unavailable) as error:
                log.warning("a jobs log cannot be read; asking again", action="jobs_log.retry", error=str(error))
                self._drop(asked.shard)
                failures += 1
                with self._changed:
                    self._asked.append(asked)
                    self._changed.wait(min(PAUSE_MAX_S, 0.1 * 2.0 ** min(failures, 10)))
                continue
            if page.next >= page.end:
                self._drop(asked.shard)
            self._done.append((asked.generation, page))
        for shard in list(self._readings):
            self._drop(shard)

    def _next(self) -> _Asked | None:
        with self._changed:
            while not self._closed:
                for shard, (generation, _) in list(self._readings.items()):
                    if generation != self._generations[shard]:
                        self._drop(shard)
                if self._asked:
                    asked = self._asked.popleft()
                    if self._is_wanted(asked):
                        return asked
                    continue
                self._changed.wait()
        return None

    def _is_wanted(self, asked: _Asked) -> bool:
        return not self._closed and asked.generation == self._generations[asked.shard]

    def _read(self, asked: _Asked) -> JobsPage:
        known = self._readings.get(asked.shard)
        if known is None or known[1].next != asked.start:
            self._drop(asked.shard)
            reading = _Reading(self._base, self._names.jobs, self._names.prefix, asked.shard)
            self._readings[asked.shard] = asked.generation, reading
            reading.survey(lambda: self._is_wanted(asked))
        return self._readings[asked.shard][1].page(asked.start, asked.records_max)

    def _drop(self, shard: int) -> None:
        known = self._readings.pop(shard, None)
        if known is not None:
            known[1].close()
