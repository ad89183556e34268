"""The whole life of one-offs and of recurring jobs in a house: what each step of it costs, writes and files.

One-offs are created, read ahead, fired, reported, ended by their owner, and removed once they have been ended for long
enough; recurring jobs are fired again and again. Targets are plain HTTP targets with a small body.
"""

from __future__ import annotations

import gc
import logging
import random
import tracemalloc
from collections.abc import Sequence
from typing import Any, Final

import structlog

from benchmarks.capacity.house import CODEC, Counted, House
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.executions import AttemptReport, ExecutionState, ReportKind
from tocsin.domain.ids import made_command_id, made_job_id
from tocsin.domain.instants import MINUTE, SECOND, Micros, format_rfc3339
from tocsin.ports.shard_log import COMMANDS, EVENTS, JOBS, OUTCOMES, REPORTS, SHARD_STATE, NewRecord, executions

TENANTS: Final = 40
LEAD_MINUTES: Final = 10
ENDED_FOR_S: Final = 300.0
"""One-offs are removed so soon after their end; it is seven days unless a job says otherwise."""
WORKER_ID: Final = "worker-01-0a1b2c3d"
BODY: Final = '{"order": "0123456789", "event": "reminder", "attempt": "first"}'
URL: Final = "https://api.example.test/v1/reminders/send"
LANE: Final = executions("default")


def _quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def _due_at(house: House) -> Micros:
    """Return a whole minute some time ahead."""
    return (house.clock.now() // MINUTE + LEAD_MINUTES) * MINUTE


def _create(house: House, chance: random.Random, count: int, timing: dict[str, Any]) -> tuple[Counted, int]:
    """Have so many jobs created; return what it came to, and the bytes of the commands."""
    target = {"type": "http", "url": URL, "body": BODY, "headers": {"Content-Type": "application/json"}}
    given = 0
    with house.phase() as counted:
        for number in range(count):
            job_id = made_job_id(f"{house.clock.now() // 1000:012x}{chance.getrandbits(80):020x}")
            command_id = made_command_id(f"{house.clock.now() // 1000:012x}{chance.getrandbits(80):020x}")
            definition = {**timing, "target": target, "name": "reminder", "labels": {"team": "orders"}}
            tenant = f"tenant-{number % TENANTS}"
            value = CODEC.encode_command(Command(CommandKind.CREATE, command_id, job_id, tenant, 0, definition))
            house.log.append(COMMANDS, job_id, value)
            given += len(job_id) + len(value)
        house.run(counted, house.clock.now())
    outcomes = [CODEC.decode_outcome(record.value) for record in counted.values[OUTCOMES]]
    assert len(outcomes) == count and all(outcome.accepted for outcome in outcomes), outcomes[:1]
    return counted, given


def _report(house: House, dispatches: Sequence[NewRecord]) -> tuple[Counted, int]:
    """Have dispatches reported as succeeded; return what it came to, and the bytes of the reports."""
    given = 0
    with house.phase() as counted:
        for dispatch in dispatches:
            assert dispatch.value is not None
            head, head_bytes = CODEC.split_head(dispatch.value)
            now = house.clock.now()
            report = AttemptReport(
                head, head_bytes, ReportKind.SUCCEEDED, WORKER_ID, now, now + 50_000, result="200 OK, 17 bytes"
            )
            value = CODEC.encode_report(report)
            house.log.append(REPORTS, head.job_id, value)
            given += len(head.job_id) + len(value)
        house.run(counted, house.clock.now())
    events = [CODEC.decode_event(record.value) for record in counted.values[EVENTS]]
    assert [event.state for event in events] == [ExecutionState.SUCCEEDED] * len(dispatches)
    return counted, given


def _each(counted: Counted, count: int) -> dict[str, Any]:
    """Return what a phase came to, for one of so many."""
    return {
        "cpu_us": round(counted.cpu_s / count * 1e6, 2),
        "records": {topic: round(n / count, 3) for topic, n in sorted(counted.records.items())},
        "bytes": {topic: round(n / count, 1) for topic, n in sorted(counted.bytes.items())},
        "store": {statement: round(n / count, 3) for statement, n in sorted(counted.store.items())},
        "store_bytes": {statement: round(n / count, 1) for statement, n in sorted(counted.store_bytes.items()) if n},
    }


def one_offs(count: int, chance: random.Random) -> dict[str, Any]:
    """Return what each phase of a one-off's life comes to, for each one-off."""
    _quiet()
    house = House()
    at = _due_at(house)
    created, command_bytes = _create(
        house, chance, count, {"run_at": format_rfc3339(at), "finished_ttl_s": ENDED_FOR_S}
    )
    gc.collect()
    with house.phase() as loaded:
        house.run(loaded, at - SECOND)
    with house.phase() as fired:
        house.run(fired, at)
    dispatches = fired.values[LANE]
    assert len(dispatches) == count
    house.log.keep_own()
    reported, report_bytes = _report(house, dispatches)
    assert 0 < reported.records[COMMANDS] < count / 10 + 2, "they are to end, together"
    with house.phase() as ended:
        house.log.hand_over()
        house.run(ended, at + 2 * MINUTE)
    assert ended.store["upsert_job"] == count
    with house.phase() as removed:
        house.run(removed, at + round((ENDED_FOR_S + 300) * SECOND))
    assert removed.store["delete_job"] == count
    phases = {
        "create": _each(created, count) | {"command_bytes": round(command_bytes / count, 1)},
        "load": _each(loaded, count),
        "fire": _each(fired, count),
        "report": _each(reported, count) | {"report_bytes": round(report_bytes / count, 1)},
        "end": _each(ended, count),
        "remove": _each(removed, count),
    }
    snapshot = next(record for record in created.values[JOBS])
    return phases | {"snapshot_bytes": len(snapshot.value or b"")}


def recurring(count: int, chance: random.Random) -> dict[str, Any]:
    """Return what each phase of an occurrence of a recurring job comes to, for each occurrence."""
    _quiet()
    house = House()
    created, _ = _create(house, chance, count, {"schedule": {"cron": "*/10 * * * *", "timezone": "Europe/Berlin"}})
    at = (house.clock.now() // (10 * MINUTE) + 1) * 10 * MINUTE
    with house.phase() as loaded:
        house.run(loaded, at - SECOND)
    with house.phase() as fired:
        house.run(fired, at)
    assert len(fired.values[LANE]) == count and fired.store["insert_entry"] == count
    reported, _ = _report(house, fired.values[LANE])
    return {
        "create": _each(created, count),
        "load": _each(loaded, count),
        "fire": _each(fired, count),
        "report": _each(reported, count),
    }


def turns(count: int, chance: random.Random) -> dict[str, Any]:
    """Return what a turn of one shard costs that carries next to nothing: one create."""
    _quiet()
    house = House()
    used_s, committed, size = 0.0, 0, 0
    timing = {"run_at": format_rfc3339(_due_at(house) + 3_600 * SECOND)}
    for _ in range(count):
        counted, _ = _create(house, chance, 1, timing)
        used_s += counted.cpu_s
        committed += counted.turns
        size += sum(len(record.value or b"") for record in counted.values[SHARD_STATE])
    return {"of_one_create_cpu_us": round(used_s / count * 1e6, 1), "delta_bytes": round(size / committed)}


def memory(count: int, chance: random.Random) -> dict[str, int]:
    """Return the bytes that a row ahead, and an execution under way, take in an owner's memory."""
    _quiet()
    house = House()
    at = _due_at(house)
    _create(house, chance, count, {"run_at": format_rfc3339(at), "concurrency": "allow"})
    tracemalloc.start()
    try:
        before = _held()
        _forgotten(house, at - SECOND)
        ahead = _held() - before
        _forgotten(house, at)
        under_way = _held() - before
    finally:
        tracemalloc.stop()
    return {"row_ahead_bytes": round(ahead / count), "under_way_bytes": round(under_way / count)}


def _forgotten(house: House, until: Micros) -> None:
    """Let time go on, keeping nothing of what was written."""
    with house.phase() as counted:
        house.run(counted, until)
    counted.values.clear()
    house.store.drop()


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
