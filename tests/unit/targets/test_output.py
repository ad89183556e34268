"""The thread that writes output: prompt, bounded, patient with a store that is away, and never in an attempt's way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tocsin.adapters.memory.run_logs import MemoryRunLogs
from tocsin.adapters.targets import output
from tocsin.adapters.targets.output import LOG_COST, OutputLimits, OutputWriter
from tocsin.domain.errors import Refused
from tocsin.ports.run_logs import LOST_BY_STORE, LogChunk, LogPlace

LIMITS = OutputLimits(linger_s=0.01)


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


class Bytes:
    """Counts what the meter is told."""

    def __init__(self) -> None:
        self.kept = self.lost = 0

    def output(self, kept_bytes: int, lost_bytes: int) -> None:
        self.kept += kept_bytes
        self.lost += lost_bytes


class Store(MemoryRunLogs):
    """A store that can be held up, and can refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.refusing = False
        self.closed = False

    def write(self, logs: Sequence[tuple[LogPlace, Sequence[LogChunk]]]) -> None:
        self.gate.wait(60)
        if self.refusing:
            raise Refused("no such table")
        super().write(logs)

    def close(self) -> None:
        self.closed = True

    def text(self, place: LogPlace) -> str:
        return "".join(chunk.text for chunk in self.chunks(place))

    def chunks(self, place: LogPlace) -> list[LogChunk]:
        return asyncio.run(self.read_log(place.execution_id, place.attempt, None, 10_000))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def make(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[OutputWriter, Bytes]]]:
    monkeypatch.setattr(output, "PAUSE_S", (0.01, 0.02))
    writers: list[OutputWriter] = []

    def made(**limits: int) -> tuple[OutputWriter, Bytes]:
        meter = Bytes()
        writers.append(OutputWriter(store, WallClock(), meter, OutputLimits(**{"linger_s": 0.01, **limits})))  # type: ignore[arg-type]
        return writers[-1], meter

    yield made
    store.gate.set()
    for writer in writers:
        writer.close(0)


def place(name: str = "a") -> LogPlace:
    return LogPlace(f"{name}.1.1000000", 1, 7)


def wait_until(done: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until, f"waited too long for {what}"
        time.sleep(0.005)


def test_output_is_there_while_the_attempt_still_runs(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    writer, meter = make()
    log = writer.open(place())
    log.write(b"started\n")
    wait_until(lambda: store.text(place()) == "started\n", "the first line")
    assert not store.chunks(place())[-1].last
    log.write(b"done\n")
    assert log.end() == "started\ndone"
    wait_until(lambda: store.chunks(place())[-1].last, "the end")
    assert store.text(place()) == "started\ndone\n"
    assert (meter.kept, meter.lost) == (13, 0)


def test_a_store_that_is_away_loses_nothing_that_there_is_room_for(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    store.failing = True
    writer, meter = make()
    logs = [writer.open(place(f"job{n}")) for n in range(5)]
    for n, log in enumerate(logs):
        log.write(b"line %d\n" % n)
        log.end()
    time.sleep(0.1)
    store.failing = False
    for n in range(5):
        wait_until(lambda n=n: bool(store.chunks(place(f"job{n}"))), "the store to be written to")
        assert [(c.text, c.seq, c.last) for c in store.chunks(place(f"job{n}"))] == [(f"line {n}\n", 0, True)]
    wait_until(lambda: (meter.kept, meter.lost) == (35, 0), "all to be counted")


def test_a_store_that_hangs_drops_output_with_a_mark_and_holds_nobody_up(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    store.gate.clear()
    writer, meter = make(waiting_bytes_max=10_000 + LOG_COST, chunk_bytes_max=1_000)
    log = writer.open(place())
    began = time.monotonic()
    for _ in range(1_000):
        log.write(b"x" * 99 + b"\n")
    log.end()
    assert time.monotonic() - began < 30, "writes must not wait for the store"
    store.gate.set()
    wait_until(lambda: bool(store.chunks(place())) and store.chunks(place())[-1].last, "the end")
    chunks = store.chunks(place())
    assert sum(len(chunk.text) for chunk in chunks) == 10_000
    assert sum(chunk.lost_bytes for chunk in chunks) == 90_000
    assert {chunk.lost_why for chunk in chunks if chunk.lost_bytes} == {LOST_BY_STORE}
    wait_until(lambda: (meter.kept, meter.lost) == (10_000, 90_000), "all to be counted")
    log = writer.open(place("b"))
    log.write(b"y" * 10_000)
    log.end()
    wait_until(lambda: len(store.text(place("b"))) == 10_000, "the room to be free again")


def test_more_short_logs_than_there_is_room_for_are_given_up_whole(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    store.gate.clear()
    writer, meter = make(waiting_bytes_max=20 * LOG_COST)
    for n in range(500):
        log = writer.open(place(f"job{n}"))
        log.write(b"line")
        assert log.end() == "line", "the tail does not depend on the store"
    assert len(writer._logs) <= 20
    store.gate.set()
    wait_until(lambda: meter.kept + meter.lost == 2_000, "all to be counted")
    assert meter.kept >= 4


def test_what_the_store_refuses_is_given_up_and_the_next_is_written(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    writer, meter = make()
    store.refusing = True
    log = writer.open(place("refused"))
    log.write(b"line")
    log.end()
    wait_until(lambda: meter.lost == 4, "the refused line to be counted")
    store.refusing = False
    log = writer.open(place())
    log.write(b"line")
    log.end()
    wait_until(lambda: store.text(place()) == "line", "the next one")
    assert store.chunks(place("refused")) == []


def test_a_close_writes_what_waits_and_gives_up_in_time(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]]
) -> None:
    writer, meter = make(linger_s=3_600)
    writer.open(place()).write(b"still running")
    ended = writer.open(place("b"))
    ended.write(b"ended")
    ended.end()
    writer.close(60)
    assert (store.text(place()), store.text(place("b"))) == ("still running", "ended")
    assert store.closed

    store.failing = True
    writer, meter = make()
    log = writer.open(place("c"))
    log.write(b"never")
    log.end()
    writer.close(0.05)
    wait_until(lambda: meter.lost == 5, "the loss to be counted")
    assert store.closed


def test_a_close_does_not_wait_for_a_store_that_hangs(
    store: Store, make: Callable[..., tuple[OutputWriter, Bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "JOIN_WAIT_S", 0.1)
    store.gate.clear()
    writer, _ = make()
    log = writer.open(place())
    log.write(b"never")
    log.end()
    began = time.monotonic()
    writer.close(0.1)
    assert time.monotonic() - began < 30, "the store hangs for a minute"
    assert not store.closed
