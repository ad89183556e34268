"""Simulated processes: they turn when the world lets them, and stop, freeze or die at any call of a port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.clocks import MachineClock, OwnerClock
from tests.simulation.known_job import OUTLIVED
from tests.simulation.overlaps import BEHIND_MAX
from tests.simulation.store import SimStore
from tests.simulation.trigger_ports import CommittedLog, SimFleetLog, SimShardLog
from tests.simulation.worker_ports import SimCancelLog, SimDispatchLog, SimReportSink, SimRunner
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import EngineFault, StateGap, Unavailable
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.engine_limits import EngineLimits
from tocsin.engine.passed_buckets import PassedLimits
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, Restorer
from tocsin.roles.worker import WorkerLimits, WorkerLoop

if TYPE_CHECKING:
    from tests.simulation.world import World

ENGINE_LIMITS = EngineLimits(
    fires_max=3,
    plain_fires_min=2,
    owed_min=2,
    commands_max=4,
    delta_bytes_max=1_500,
    cursor_persist_s=2.0,
    outlived_after_s=OUTLIVED / SECOND,
    outlived_look_s=20.0,
    ring=32,
    overlap_queue_max=BEHIND_MAX,
    zone_change_after_s=2.0,
    passed=PassedLimits(kept_s=20.0),
)
LASTING_LIMITS = replace(
    ENGINE_LIMITS, outlived_after_s=EngineLimits().outlived_after_s, outlived_look_s=EngineLimits().outlived_look_s
)
"""Those under which nothing that is queued is dispatched again: what a worker forgets is then found by nobody."""
WORKER_LIMITS = WorkerLimits(
    running_max=5, read_ahead_records_max=6, window_max=16, begun_max=3, suspect_max_s=8.0, stuck_attempts_max=2
)
"""One tenant has at most what is still free: three of five."""
LANES = Lanes({"default": 3, "message": 1}, 3)
EPOCH = 1
PATIENCE: Micros = 60 * SECOND
"""How long a takeover waits for the log."""


class Killed(BaseException):
    """The process is gone, in the middle of whatever it was doing."""


class NoMeter:
    """Counts nothing. Fulfils every port of meters."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_args: object, **_named: object) -> None:
    """Take anything, do nothing."""


class StrictLoop(TriggerLoop):
    """A trigger's loop under which no engine may fail: no plan gives it a reason to."""

    def _failed(self, error: EngineFault) -> None:
        raise error.__cause__ or error

    def _gap(self, error: StateGap) -> None:
        raise error


def strict(alerts: Sequence[Alert]) -> None:
    """No shard may stand still but for a moment."""
    raise AssertionError(alerts[0].message)


class Node:
    """A process.

    Attributes:
        name: the operator's, which stays over restarts; ``process_id`` is of this start.
        gone_at: when it was killed; None while it lives.
        frozen_at: when it was stopped; None while it runs.
        busy: it is in the middle of a turn, and others act meanwhile.
        fuse: after so many calls of ports, what happens to it: ``kill``, or ``freeze`` for some actions.
        commit_fault: what becomes of its next commit.
    """

    role = ""

    def __init__(self, world: World, name: str, start: int, machine: MachineClock) -> None:
        self.world = world
        self.name = name
        self.process_id = f"{name}.{start}"
        self.machine = machine
        self.started_at = world.broker.now
        self.next_beat_at: Micros = world.broker.now
        self.gone_at: Micros | None = None
        self.frozen_at: Micros | None = None
        self.busy = False
        self.fuse: tuple[int, str, int] | None = None
        self.commit_fault: str | None = None

    @property
    def is_able(self) -> bool:
        """It lives and runs."""
        return self.gone_at is None and self.frozen_at is None

    def turn(self) -> None:
        raise NotImplementedError

    def die(self) -> None:
        raise NotImplementedError

    def expel(self) -> None:
        """Its group has not heard of it for too long."""
        raise NotImplementedError

    def stop(self) -> None:
        """It is asked to end."""
        raise NotImplementedError

    def take_commit_fault(self) -> str | None:
        fault, self.commit_fault = self.commit_fault, None
        return fault

    def point(self, where: str) -> None:
        """A port was called: here the process may freeze or die."""
        if self.fuse is None:
            return
        count, kind, steps = self.fuse
        if count > 0:
            self.fuse = (count - 1, kind, steps)
            return
        self.fuse = None
        if kind == "kill":
            self.world.tell(f"{self.name}: killed at '{where}'")
            raise Killed
        self.world.tell(f"{self.name}: frozen at '{where}'")
        self.frozen_at = self.world.broker.now
        self.world.go_on(steps)
        self.frozen_at = None
        # What it did not send while it stood still was never sent.
        self.next_beat_at = max(self.next_beat_at, self.world.broker.now)
        self.world.tell(f"{self.name}: goes on at '{where}'")

    def heartbeat(self, at: Micros, *, stopped: bool = False) -> Heartbeat:
        sent_at = self.local_at(at)
        return Heartbeat(self.process_id, self.name, self.role, "host", "0", self.started_at, stopped, sent_at)

    def local_at(self, at: Micros) -> Micros | None:
        return None


class TriggerNode(Node):
    """A trigger."""

    role = "trigger"

    def __init__(self, world: World, name: str, start: int, machine: MachineClock) -> None:
        super().__init__(world, name, start, machine)
        self.clock = OwnerClock(machine)
        self.log = SimShardLog(self)
        self.store = SimStore(world, world.tables)
        self.takeover = world.takeover_type(self)
        self._owners = 0
        restore = Restorer(
            self.takeover,
            world.codec,
            ClusterFacts(EPOCH, world.shards),
            LANES,
            ENGINE_LIMITS if world.seed % 2 else LASTING_LIMITS,
            1,
            self.clock,
        )
        self.fleet = FleetReader(SimFleetLog(self), self.process_id, self.clock.broker)
        self.loop = StrictLoop(
            self.log,
            self.store,
            restore,
            self._new_owner,
            self.fleet,
            self.clock,
            NoMeter(),
            LoopLimits(ahead_records_min=4),
            MemoryJobsLog(CommittedLog(self)),  # type: ignore[arg-type]
            tell=strict,
        )
        self.loop.join()

    def _new_owner(self) -> str:
        self._owners += 1
        return f"{self.process_id}.{self._owners}"

    def turn(self) -> None:
        self.loop.turn()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait as a call of the client library does, while others act.

        Raises:
            Unavailable: it took too long.
        """
        until = self.world.broker.now + PATIENCE
        while not is_so():
            if self.world.broker.now > until:
                raise Unavailable("kafka", "a takeover waited in vain")
            self.world.go_on(1)

    def stop(self) -> None:
        self.log.close(leave=True)
        self.die()

    def expel(self) -> None:
        self.world.triggers.leave(self.log)

    def die(self) -> None:
        self.gone_at = self.world.broker.now
        self.world.orphans += self.store.abandon(self.world.chance)

    def local_at(self, at: Micros) -> Micros | None:
        elapsed = self.world.broker.now - at
        return self.clock.local() - elapsed


class WorkerNode(Node):
    """A worker."""

    role = "worker"

    def __init__(self, world: World, name: str, start: int, machine: MachineClock) -> None:
        super().__init__(world, name, start, machine)
        self.lane = SimDispatchLog(self)
        self.reports = SimReportSink(self)
        self.runner = SimRunner(self)
        self.cancels = SimCancelLog(self)
        self.loop = WorkerLoop(
            self.process_id,
            {"default": self.lane},
            self.runner,
            self.reports,
            world.codec,
            machine,
            machine.monotonic_s,
            NoMeter(),
            WORKER_LIMITS,
            self.cancels,
        )
        self._stopping_turns = 0
        self._asked = False
        self.loop.join()

    def turn(self) -> None:
        if not self._asked:
            self.loop.step()
            if self.loop.must_recycle:
                self.world.tell(f"{self.name}: recycles itself")
                self._wind_up()
                self.stop()
            return
        self._wind_up()

    def stop(self) -> None:
        self._asked = True

    def _wind_up(self) -> None:
        """End as the process does: leave, let what runs end, return the rest, close."""
        self._stopping_turns += 1
        loop, turns = self.loop, self._stopping_turns
        if turns == 1:
            loop.leave()
        loop.drain()
        if turns == 12 and not loop.is_drained:
            loop.return_rest()
        if turns == 18 and not loop.is_drained:
            loop.give_up_rest()
        if loop.is_drained or turns > 30:
            drained = loop.is_drained
            loop.close()
            if drained and self._asked:
                self.world.beat(self, self.world.broker.now, stopped=True)
            self.die()

    def expel(self) -> None:
        self.world.workers.leave(self.lane.stay)

    def die(self) -> None:
        self.gone_at = self.world.broker.now
        self.reports.die()


NODE_TYPES: dict[str, type[Node]] = {"trigger": TriggerNode, "worker": WorkerNode}


def new_machine(world: World, chance: Random, *, wrong: bool) -> MachineClock:
    """Return the clocks of a machine: a few milliseconds wrong and drifting, or badly wrong."""
    off_by = chance.randrange(-20_000, 20_000)
    if wrong:
        off_by = chance.choice((-1, 1)) * chance.choice((SECOND, 300 * SECOND, 365 * 86_400 * SECOND))
    return MachineClock(world.broker, off_by, chance.randrange(-450, 450))


def worker_lanes(node: WorkerNode) -> Any:
    return node.loop._lanes
