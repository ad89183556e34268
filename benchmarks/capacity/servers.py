"""What a broker and a store node spend on each thing, in CPU time of their processes, and what the clients spend.

One broker and one node on this machine, so without replication: the model counts each replica as another write. CPU
time holds on a busy machine too; how long a transaction takes does not.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import uuid_utils
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.history import made_events
from benchmarks.rig import READY_S, Rig, cpu_s, rig, wait_until
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore
from tocsin.adapters.cassandra.session import connect
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.adapters.kafka.clients import base_config
from tocsin.bootstrap.stores import batch_bounds, store_address, store_bounds
from tocsin.domain.entries import Entry
from tocsin.domain.executions import AttemptHead
from tocsin.domain.ids import execution_id, made_job_id
from tocsin.domain.instants import MINUTE, SECOND
from tocsin.domain.targets import HttpTarget
from tocsin.ports.schedule_store import BucketPage, JobRow, StoreWrites
from tocsin.ports.views import EventSeen

ROUNDS: Final = 3
"""That count, after one that does not: the servers compile what they do first."""
ROWS: Final = 20_000
RECORDS: Final = 50_000
TRANSACTIONS: Final = 60
TOUCHED: Final = (1, 16, 64, 256)
TOPIC: Final = "bench-capacity"
SHARD: Final = 3
PATIENCE_S: Final = 120.0


def pid_of(system: Rig, word: str) -> int:
    """Return the process of a server of a rig, by a word of its command."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(system.directory) in words and word in words and "java" in words.partition("\0")[0]:
                found.append(int(entry.name))
    if len(found) != 1:
        raise SystemExit(f"{len(found)} processes of {word}: its CPU time cannot be told")
    return found[0]


def spent(pid: int, count: int, act: Callable[[], object]) -> dict[str, float]:
    """Return µs of CPU time for one of so many, of a server and of this process; the median of some rounds."""
    server, client = [], []
    for number in range(ROUNDS + 1):
        before_s, own_before_s = cpu_s(pid), sum(os.times()[:2])
        act()
        time.sleep(0.3)  # What the server does behind its answer is done by then.
        if number:
            server.append((cpu_s(pid) - before_s) / count * 1e6)
            client.append((sum(os.times()[:2]) - own_before_s) / count * 1e6)
    return {"server_cpu_us": round(statistics.median(server), 2), "client_cpu_us": round(statistics.median(client), 2)}


def measure() -> dict[str, Any]:
    """Start the servers, and return the figures."""
    with rig() as system:
        return {"log": measure_log(system), "store": measure_store(system)}


def measure_log(system: Rig) -> dict[str, Any]:
    """Measure records and transactions of a producer with an owner's settings."""
    broker = pid_of(system, "kafka.Kafka")
    admin = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, max(TOUCHED), 1)])[TOPIC].result(READY_S)
    wait_until(lambda: len(admin.list_topics(TOPIC, timeout=READY_S).topics[TOPIC].partitions) == max(TOUCHED))
    producer = Producer(
        {
            **base_config(system.bootstrap, "capacity"),
            "transactional.id": "capacity",
            "compression.type": "lz4",
            "linger.ms": 0,
            "batch.size": 900_000,
            "retry.backoff.ms": 1,
            "retry.backoff.max.ms": 10,
        }
    )
    producer.init_transactions(READY_S)
    values = [execution(number) for number in range(1_000)]

    def records() -> None:
        for at in range(0, RECORDS, 5_000):
            producer.begin_transaction()
            for number in range(at, at + 5_000):
                producer.produce(TOPIC, values[number % 1_000], values[number % 1_000][20:110], number % 16)
            producer.commit_transaction(READY_S)

    def transactions(touched: int) -> list[float]:
        took_ms = []
        for _ in range(TRANSACTIONS):
            began_s = time.monotonic()
            producer.begin_transaction()
            for partition in range(touched):
                producer.produce(TOPIC, values[partition], b"key", partition)
            producer.commit_transaction(READY_S)
            took_ms.append((time.monotonic() - began_s) * 1000)
        return took_ms

    figures: dict[str, Any] = {"record_bytes": len(values[0]) + 90, "per_record": spent(broker, RECORDS, records)}
    for touched in TOUCHED:
        took: list[float] = []
        costs = spent(broker, TRANSACTIONS, lambda touched=touched, took=took: took.extend(transactions(touched)))
        last = sorted(took[-ROUNDS * TRANSACTIONS :])
        figures[f"transaction_of_{touched}"] = costs | {"ms_p50": round(last[len(last) // 2], 1)}
    return figures


def execution(number: int) -> bytes:
    """Return an encoded execution of an HTTP target."""
    return _entry(number, 0).execution


def _entry(number: int, at: int) -> Entry:
    job_id = made_job_id(uuid_utils.uuid7().hex)
    identity = execution_id(job_id, 1, at)
    head = AttemptHead(1, 1, 0, identity, job_id, "tenant-1", 1, at, at)
    target = HttpTarget("https://api.example.test/v1/reminders/send", body='{"order": "0123456789"}')
    value = AvroCodec().encode_execution(head, target)
    return Entry(at, job_id, at, 1, identity, "tenant-1", "default", value)


def measure_store(system: Rig) -> dict[str, Any]:
    """Measure rows written and read by the adapters of an owner and of a projector."""
    node = pid_of(system, "CassandraDaemon")
    store = CassandraScheduleStore(connect(store_address(system.settings)), store_bounds(system.settings))
    views = CassandraViewWriter(connect(store_address(system.settings)), batch_bounds(system.settings))
    minutes = iter(range(40_000_000, 41_000_000, 10))
    snapshot = b"\x00" * 450

    def settle(wanted: int) -> list[Any]:
        done: list[Any] = []
        until_s = time.monotonic() + PATIENCE_S
        while len(done) < wanted and time.monotonic() < until_s:
            done += [one for one in store.completed(1_000) if not isinstance(one, BucketPage) or one.last]
            time.sleep(0.002)
        if len(done) < wanted:
            raise SystemExit("the store did not answer in time")
        return done

    def entries() -> None:
        minute = next(minutes)
        made = [_entry(n, minute * MINUTE + n % 300 * SECOND) for n in range(ROWS)]
        for at in range(0, ROWS, 2_000):
            store.begin_writes(SHARD, at, StoreWrites(inserts=tuple(made[at : at + 2_000])))
        settle(ROWS // 2_000)
        written.append(minute)

    def scattered() -> None:
        minute = next(minutes) * 100
        made = [_entry(n, (minute + n * 7_919 % 10_007) * MINUTE) for n in range(ROWS // 2)]
        for at in range(0, len(made), 500):
            store.begin_writes(SHARD, at, StoreWrites(inserts=tuple(made[at : at + 500])))
        settle(len(made) // 500)

    def read() -> None:
        minute = written.pop(0)
        for one in range(minute, minute + 5):
            store.begin_bucket_read(SHARD, one)
        settle(5)

    def jobs() -> None:
        rows = [JobRow(made_job_id(uuid_utils.uuid7().hex), 1, snapshot) for _ in range(ROWS // 2)]
        for at in range(0, len(rows), 1_000):
            store.begin_writes(SHARD, at, StoreWrites(jobs=tuple(rows[at : at + 1_000])))
        settle(len(rows) // 1_000)

    def runs() -> None:
        events = made_events(ROWS // 2)
        for at in range(0, len(events), 2_000):
            views.write([], [], [EventSeen(event, at + 1) for event in events[at : at + 2_000]])

    written: list[int] = []
    try:
        return {
            "index_row_written": spent(node, ROWS, entries),
            "index_row_scattered": spent(node, ROWS // 2, scattered),
            "index_row_read": spent(node, ROWS, read),
            "job_row_written": spent(node, ROWS // 2, jobs),
            "run_row_written": spent(node, ROWS // 2, runs),
        }
    finally:
        store.close()
        views.close()
