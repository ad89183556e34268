"""A read_committed reader in a process of its own, which notes when each record of a topic became visible.

It decodes nothing: what it costs is taken from the cores that are measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place

CHUNK: Final = 10_000
ANSWER_S: Final = 20.0
START_S: Final = 60.0


class Seen(NamedTuple):
    """One committed record.

    ``appended_ms`` is the record's timestamp, the broker's where the topic says LogAppendTime; ``visible_us`` is when
    this reader held it, so at or after the transaction's commit. Both since the epoch.
    """

    partition: int
    offset: int
    appended_ms: int
    visible_us: int
    key: bytes
    value: bytes


class Reader:
    """The caller's end of a reader."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def wait_ready(self) -> None:
        """Wait until the reader stands at the end of the topic."""
        if not self._pipe.poll(START_S):
            raise SystemExit("the reader did not get ready")
        self._pipe.recv()

    def seen(self, wait_s: float) -> list[Seen]:
        """Return what was read, once it is as many as asked for or the reader's time is over."""
        if not self._pipe.poll(wait_s):
            raise SystemExit("the reader does not answer")
        count = self._pipe.recv()
        records: list[Seen] = []
        while len(records) < count:
            records += [Seen(*fields) for fields in self._pipe.recv()]
        return records


@contextmanager
def reading(bootstrap: str, topic: str, count: int, until_s: float, quiet_s: float) -> Iterator[Reader]:
    """Run a reader from the present end of a topic on.

    Args:
        bootstrap, topic: what to read.
        count: it stops reading ``quiet_s`` after it has seen so many, to notice what comes on top.
        until_s: it stops at this Unix time in any case.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_read, args=(theirs, bootstrap, topic, count, until_s, quiet_s), daemon=True)
    process.start()
    try:
        yield Reader(ours)
    finally:
        process.kill()  # it has nothing to lose: what it read is here, or nobody wants it any more
        process.join()


def _read(pipe: Connection, bootstrap: str, topic: str, count: int, until_s: float, quiet_s: float) -> None:
    consumer = Consumer(
        {
            **base_config(bootstrap, "benchmark-reader"),
            "group.id": "benchmark-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    partitions = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
    ends = [
        TopicPartition(topic, p, consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=ANSWER_S)[1])
        for p in partitions
    ]
    consumer.assign(ends)
    consumer.poll(0.5)
    pipe.send("ready")
    records: list[tuple[int, int, int, int, bytes, bytes]] = []
    while time.time() < until_s:
        # poll returns with the first record, consume(n, 0) with what has come along; consume(n, t) would wait.
        found = [consumer.poll(0.05), *consumer.consume(CHUNK, 0)]
        now_us = time.time_ns() // 1000
        records += [
            (*place(m), m.timestamp()[1], now_us, m.key() or b"", m.value() or b"")
            for m in found
            if m is not None and m.error() is None
        ]
        if len(records) >= count:
            until_s = min(until_s, time.time() + quiet_s)
    consumer.close()
    pipe.send(len(records))
    for at in range(0, len(records), CHUNK):
        pipe.send(records[at : at + CHUNK])
