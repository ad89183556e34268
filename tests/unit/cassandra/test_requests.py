"""The pump of requests over a driver that answers when the test says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra import InvalidRequest
from structlog.testing import capture_logs

from tocsin.adapters.cassandra.requests import PAUSE_MAX_S, Request, RequestPump, pause_s
from tocsin.domain.errors import TocsinError

WAIT_S = 30.0


class FakeFuture:
    """Stands for the driver's: the test answers."""

    _paging_state = None
    has_more_pages = False
    _col_names: tuple[str, ...] = ()
    _col_types: tuple[str, ...] = ()

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.ready = threading.Event()

    def add_callbacks(
        self, callback: Callable[..., None], errback: Callable[..., None], callback_args: Any, errback_args: Any
    ) -> None:
        self._ok: Callable[[], None] = lambda: callback([], *callback_args)
        self._bad: Callable[[Exception], None] = lambda error: errback(error, *errback_args)
        self.ready.set()

    def succeed(self) -> None:
        assert self.ready.wait(WAIT_S)
        self._ok()

    def fail(self, error: Exception | None = None) -> None:
        assert self.ready.wait(WAIT_S)
        self._bad(error or RuntimeError("no answer"))

    def refuse(self) -> None:
        self.fail(InvalidRequest("Key length of 70000 is longer than maximum of 65535"))


class FakeConnection:
    """A session that keeps what it was asked."""

    def __init__(self) -> None:
        self.sent: list[FakeFuture] = []
        self.session = self

    def execute_async(self, statement: str, paging_state: bytes | None = None) -> FakeFuture:
        future = FakeFuture(statement)
        self.sent.append(future)
        return future


class Bench:
    def __init__(self, in_flight_max: int) -> None:
        self.connection = FakeConnection()
        self.pump = RequestPump(self.connection, in_flight_max, 0.2)  # type: ignore[arg-type]
        self.done: list[str] = []

    def submit(self, name: str, urgent: bool = False, wanted: Callable[[], bool] = lambda: True) -> None:
        self.pump.submit(Request(lambda _: name, lambda _rows: self.done.append(name), wanted, urgent))

    def sent(self, count: int) -> list[str]:
        """Wait until so many were sent, and return them all."""
        deadline = time.monotonic() + WAIT_S
        while len(self.connection.sent) < count:
            assert time.monotonic() < deadline, f"only {self.names()} were sent"
            time.sleep(0.001)
        return self.names()

    def names(self) -> list[str]:
        return [future.statement for future in self.connection.sent]

    def stays_at(self, count: int, for_s: float = 0.05) -> None:
        time.sleep(for_s)
        assert len(self.connection.sent) == count


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(in_flight_max=2)
    yield made
    made.pump.close()


def test_no_more_are_in_flight_than_allowed_and_all_are_done(bench: Bench) -> None:
    for number in range(5):
        bench.submit(str(number))
    assert bench.sent(2) == ["0", "1"]
    bench.stays_at(2)
    for number in range(5):
        bench.sent(number + 1)
        bench.connection.sent[number].succeed()
    assert bench.done == ["0", "1", "2", "3", "4"]
    assert bench.pump.waiting() == 0


def test_urgent_ones_go_first(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.submit(name)
    bench.sent(2)
    bench.submit("read", urgent=True)
    bench.connection.sent[0].succeed()
    assert bench.sent(3)[2] == "read"


def test_what_fails_is_sent_again_until_it_succeeds(bench: Bench) -> None:
    bench.submit("stubborn")
    for attempt in range(4):
        assert bench.sent(attempt + 1) == ["stubborn"] * (attempt + 1)
        assert bench.done == []
        bench.connection.sent[attempt].fail()
    bench.sent(5)
    bench.connection.sent[4].succeed()
    assert bench.done == ["stubborn"]


def test_while_the_store_fails_one_request_at_a_time_is_the_probe(bench: Bench) -> None:
    for number in range(6):
        bench.submit(str(number))
    bench.sent(2)
    bench.connection.sent[0].fail()
    bench.connection.sent[1].fail()
    bench.sent(3)
    bench.stays_at(3, for_s=0.3)
    probe = bench.names()[2]
    bench.connection.sent[2].succeed()
    assert probe not in bench.sent(5)[3:]
    bench.stays_at(5)
    assert bench.done == [probe]


def test_a_refused_request_holds_up_nobody_is_told_of_and_asked_again_by_itself(bench: Bench) -> None:
    with capture_logs() as logs:
        bench.submit("refused")
        bench.sent(1)
        bench.connection.sent[0].refuse()
        for name in ("a", "b"):
            bench.submit(name)
        assert bench.sent(3) == ["refused", "a", "b"]  # Both at once: no probe.
        for one in bench.connection.sent[1:]:
            one.succeed()
        bench.sent(4)
        bench.connection.sent[3].refuse()
        bench.sent(5)
        bench.connection.sent[4].succeed()
    assert bench.done == ["a", "b", "refused"]
    assert [line["action"] for line in logs] == ["store.refused"]


def test_a_store_that_fails_now_and_then_does_not_fill_the_log(bench: Bench) -> None:
    with capture_logs() as logs:
        for number in range(5):
            bench.submit(str(number))
            bench.sent(2 * number + 1)
            bench.connection.sent[2 * number].fail()
            bench.sent(2 * number + 2)
            bench.connection.sent[2 * number + 1].succeed()
    assert [line["action"] for line in logs] == ["store.retry", "store.recovered"]


def test_a_refusal_neither_ends_nor_prolongs_an_outage(bench: Bench) -> None:
    bench.submit("refused")
    bench.submit("a")
    bench.sent(2)
    bench.connection.sent[1].fail()
    bench.connection.sent[0].refuse()
    for name in ("b", "c"):
        bench.submit(name)
    bench.sent(3)
    bench.stays_at(3)  # One probe: the outage is not over.
    probe = bench.names()[2]
    assert probe != "refused"
    bench.connection.sent[2].succeed()
    assert len(set(bench.sent(5)[3:])) == 2  # Two at once: it is over, and the refused one did not prolong it.
    assert bench.done == [probe]


def test_whoever_asked_may_settle_a_refusal(bench: Bench) -> None:
    told: list[str] = []

    def refused(error: TocsinError) -> bool:
        told.append(type(error).__name__)
        return True

    bench.pump.submit(Request(lambda _: "one", lambda _: None, lambda: True, refused=refused))
    bench.sent(1)
    bench.connection.sent[0].refuse()
    bench.stays_at(1, for_s=0.5)
    assert told == ["Refused"]
    assert bench.pump.waiting() == 0


def test_a_failure_is_told_before_the_next_sending(bench: Bench) -> None:
    size = [8]

    def failed() -> None:
        size[0] //= 2

    bench.pump.submit(Request(lambda _: str(size[0]), lambda _: None, lambda: True, failed=failed))
    bench.sent(1)
    bench.connection.sent[0].fail()
    assert bench.sent(2) == ["8", "4"]


def test_a_statement_that_cannot_be_built_is_tried_again_and_others_go_on(bench: Bench) -> None:
    tries: list[int] = []

    def build(_connection: Any) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "built"

    bench.pump.submit(Request(build, lambda _rows: bench.done.append("built"), lambda: True))
    bench.submit("other")
    deadline = time.monotonic() + WAIT_S
    while len(bench.done) < 2:
        assert time.monotonic() < deadline
        for future in bench.connection.sent:
            if future.ready.is_set() and future.statement not in bench.done:
                future.succeed()
        time.sleep(0.005)
    assert sorted(bench.done) == ["built", "other"]
    assert len(tries) == 3


def test_what_is_no_longer_wanted_is_not_sent(bench: Bench) -> None:
    wanted = True
    for number in range(4):
        bench.submit(f"old{number}", wanted=lambda: wanted)
    bench.submit("new")
    bench.sent(2)
    wanted = False
    bench.connection.sent[0].fail()
    bench.connection.sent[1].succeed()
    assert bench.sent(3)[2] == "new"
    bench.connection.sent[2].succeed()
    bench.stays_at(3, for_s=0.3)
    assert bench.pump.waiting() == 0


def test_after_closing_nothing_is_sent_and_late_answers_disturb_nobody(bench: Bench) -> None:
    bench.submit("a")
    bench.sent(1)
    bench.pump.close()
    bench.submit("b")
    bench.connection.sent[0].fail()
    bench.stays_at(1)


def test_pauses_double_up_to_their_bound() -> None:
    assert [pause_s(n) for n in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert pause_s(10) == pause_s(10_000) == PAUSE_MAX_S
