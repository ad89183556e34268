"""The bare loop: the very same records, produced in transactions by nothing but the client library.

What the trigger reaches is told as a share of what this reaches in the same run, for machines differ and are noisy.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from benchmarks.reader import Seen, reading
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.shard_log import KafkaShardLog

QUIET_S = 0.2
WAIT_S = 60.0


def transactions_of(seen: Sequence[Seen]) -> int:
    """Return in how many transactions records were written: each leaves one marker, an offset, where it wrote.

    Counted in the partition with the most of them; a transaction that did not write there is missed, so the bare loop
    is given at least its due.
    """
    gaps: dict[int, int] = {}
    last: dict[int, int] = {}
    for record in sorted(seen):
        if record.offset > last.get(record.partition, record.offset) + 1:
            gaps[record.partition] = gaps.get(record.partition, 0) + 1
        last[record.partition] = record.offset
    return max(gaps.values(), default=0) + 1


def bare_rounds(bootstrap: str, topic: str, seen: Sequence[Seen], rounds: int) -> list[float]:
    """Return how long each round took, s: from its first call until a reader like the trigger's held all records.

    Args:
        bootstrap, topic: a topic with the partitions and settings of the one that was read.
        seen: the records; their order, keys, values, partitions and number of transactions are kept.
        rounds: how often, after one round that does not count.
    """
    # Made by the adapter that the trigger uses, so that no setting can differ.
    shard_log = KafkaShardLog(bootstrap, TopicNames("bare-"), "bare")
    shard_log.renew(f"bare-{uuid.uuid4().hex}")
    try:
        return [_round(shard_log, bootstrap, topic, seen) for _ in range(rounds + 1)][1:]
    finally:
        shard_log.close(leave=False)


def _round(shard_log: KafkaShardLog, bootstrap: str, topic: str, seen: Sequence[Seen]) -> float:
    producer = shard_log._producer
    assert producer is not None
    records = [
        (r.value, r.key, r.partition) for r in sorted(seen, key=lambda r: (r.appended_ms, r.partition, r.offset))
    ]
    size = -(-len(records) // transactions_of(seen))
    with reading(bootstrap, topic, len(records), time.time() + WAIT_S, QUIET_S) as reader:
        reader.wait_ready()
        began_us = time.time_ns() // 1000
        for at in range(0, len(records), size):
            producer.begin_transaction()
            for value, key, partition in records[at : at + size]:
                while True:
                    try:
                        producer.produce(topic, value, key, partition)
                        break
                    except BufferError:
                        producer.poll(0.05)
            producer.flush(WAIT_S)
            producer.commit_transaction(WAIT_S)
        found = reader.seen(WAIT_S + QUIET_S)
    if len(found) != len(records):
        raise SystemExit(f"the bare loop wrote {len(records)} records, and {len(found)} were read")
    return (max(r.visible_us for r in found) - began_us) / 1e6
