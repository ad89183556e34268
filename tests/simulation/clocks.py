"""Clocks of simulated machines: they drift, and may be wrong from the start; the broker's is the true one."""

from __future__ import annotations

from tests.simulation.broker import Broker
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.broker_clock import BrokerClock


class MachineClock:
    """A machine's clocks. Fulfils ``ports.clock.Clock``.

    Args:
        broker: has the true time.
        off_by: how far the wall clock is wrong at the start, µs.
        drift_ppm: how much too fast the machine's oscillator is, millionths.
    """

    def __init__(self, broker: Broker, off_by: Micros, drift_ppm: int) -> None:
        self._broker = broker
        self._began_at = broker.now
        self._drift_ppm = drift_ppm
        self.off_by_start = off_by

    def monotonic(self) -> Micros:
        """Return the time since the start by this machine's oscillator, µs."""
        elapsed = self._broker.now - self._began_at
        return elapsed + elapsed * self._drift_ppm // 1_000_000

    def monotonic_s(self) -> float:
        return self.monotonic() / SECOND

    def now(self) -> Micros:
        """Return the wall clock's reading."""
        return self._began_at + self.off_by_start + self.monotonic()

    def step(self, by: Micros) -> None:
        """Set the wall clock; the oscillator does not notice."""
        self.off_by_start += by


class OwnerClock:
    """Fulfils ``ports.clock.TriggerClock`` as a trigger process does: the real guard on a machine's clocks."""

    def __init__(self, machine: MachineClock) -> None:
        self._machine = machine
        self.broker = BrokerClock(machine.now(), machine.monotonic())

    def now(self) -> Micros:
        return self.broker.now(self._machine.monotonic())

    def local(self) -> Micros:
        return self.broker.local(self._machine.monotonic())

    def at_most(self) -> Micros:
        return self.broker.at_most(self._machine.monotonic())

    def is_known(self) -> bool:
        return self.broker.is_known()

    def off_by(self) -> Micros | None:
        return self.broker.off_by()
