"""CLK-*: owners whose host's clock is off, against brokers whose clock is right."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import World
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.broker_clock import BrokerClock
from tocsin.testing import SettableClock


class Host:
    """A host's clocks beside the brokers': off by some, and guarded as a trigger's are."""

    def __init__(self, brokers: SettableClock, off_by_s: float) -> None:
        self._brokers = brokers
        self._monotonic_off: Micros = 0
        self._guard = BrokerClock(brokers.now() + round(off_by_s * SECOND), self._monotonic())

    def _monotonic(self) -> Micros:
        return self._brokers.now() - 1_000_000 * SECOND + self._monotonic_off

    def beat(self) -> None:
        """A heartbeat goes out, is stamped by a broker, and comes back."""
        sent = self.local()
        self._guard.observe(sent, self._brokers.now() // 1000 * 1000, self.local())

    def slip(self, seconds: float) -> None:
        """The host's clock goes wrong, by so much at once: its machine slept, or its clock was slewed far."""
        self._monotonic_off += round(seconds * SECOND)

    def advance(self, seconds: float) -> None:
        """Time goes on, with a beat."""
        self._brokers.advance(seconds)
        self.beat()

    def at_most(self) -> Micros:
        return self._guard.at_most(self._monotonic())

    def now(self) -> Micros:
        return self._guard.now(self._monotonic())

    def local(self) -> Micros:
        return self._guard.local(self._monotonic())

    def is_known(self) -> bool:
        return self._guard.is_known()

    def off_by(self) -> Micros | None:
        return self._guard.off_by()


def _world(off_by_s: float) -> tuple[World, SettableClock, Host]:
    world = World(shards=2)
    brokers = world.clock
    host = Host(brokers, off_by_s)
    world.clock = host  # type: ignore[assignment]
    return world, brokers, host


def _run(world: World, host: Host, seconds: float) -> None:
    for _ in range(round(seconds / 0.1)):
        host.advance(0.1)
        world.settle(3)


def _fires_once_and_on_time(world: World, ticking: str, brokers: SettableClock) -> None:
    ids = [execution.head.execution_id for execution in world.executions()]
    assert len(ids) == len(set(ids)), "nothing is repeated"
    for record, execution in zip(world.log.all("executions.default"), world.executions(), strict=True):
        assert record.timestamp >= execution.head.due_at, "nothing is early by the brokers' clock"
    times = sorted(e.head.scheduled_for for e in world.executions() if e.head.job_id == ticking)
    missed = world.skipped()
    for at in range(times[0], brokers.now() - 3 * SECOND, SECOND):
        assert at in times or any(first <= at <= upto for first, upto in missed), "nothing is left out"


@pytest.mark.parametrize("off_by_s", [-0.45, -0.1, 0.0, 0.1, 0.45])
def test_clk_a_clock_that_is_off_a_little_fires_nothing_early(off_by_s: float) -> None:
    world, brokers, host = _world(off_by_s)
    host.beat()
    world.start()
    ticking = world.recur({"every_s": 1}, concurrency="allow")
    _run(world, host, 20)
    assert world.loop.engines
    _fires_once_and_on_time(world, ticking, brokers)


@pytest.mark.parametrize("slip_s", [2.0, -2.0, 3_600.0, -3_600.0])
def test_clk_a_clock_that_goes_wrong_stops_firing_says_so_and_comes_back(
    slip_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    world, brokers, host = _world(0.0)
    host.beat()
    world.start()
    ticking = world.recur({"every_s": 1}, concurrency="allow")
    _run(world, host, 5)
    host.slip(slip_s)
    for _ in range(12):
        host.beat()  # All that is known of the time before the slip is too old to count.
    world.settle(2)
    assert not world.loop.engines, "it gives up its shards"
    assert "trigger.clock_off" in capsys.readouterr().out
    fired = len(world.fired())
    _run(world, host, 10)
    assert len(world.fired()) == fired, "and fires nothing"
    host.slip(-slip_s)
    for _ in range(12):
        host.beat()
    world.settle(2)
    assert "trigger.clock_right" in capsys.readouterr().out
    world.shard_log.assign(range(world.shards))
    _run(world, host, 15)
    assert len(world.fired()) > fired
    _fires_once_and_on_time(world, ticking, brokers)


def test_clk_nothing_is_decided_before_the_brokers_time_was_seen() -> None:
    world, _, host = _world(3_600.0)
    world.start()
    world.create(in_s=0)
    world.settle(10)
    assert not world.loop.engines and world.fired() == []
    host.beat()
    world.settle(3)
    assert not world.loop.engines, "an hour ahead is off, and known at once"


def test_clk_a_cursor_from_the_future_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.start()
    world.create(in_s=5)
    world.run(30)
    world.clock.set(world.clock.now() - 3_600 * SECOND)
    world.start()
    world.settle()
    assert not world.engines and "ahead: a clock is wrong" in capsys.readouterr().out
    world.run(3_700, step_s=20)
    assert set(world.engines) == {0, 1}, "time has reached it"


def test_clk_half_a_second_between_two_hosts_is_waited_for() -> None:
    world = World()
    world.start()
    job = world.create(in_s=10)
    world.run(5)
    world.clock.set(world.clock.now() - SECOND // 2)
    world.start()
    assert world.engines, "clocks differ a little"
    world.run(8)
    assert world.fired() == [job]
