"""The owner's loop: poll, step every shard, commit once, then write.

It decides nothing: that is the engine's. It has no clock, thread or sleep of its own, so it can be stepped from
outside. Memory is never kept over a doubt: a lost shard, a fence or a commit of unknown outcome means that everything
is restored from the log, under a new transactional id; the group is not left for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from tocsin.domain.errors import (
    EngineFault,
    OwnershipLost,
    RecordRefused,
    StateGap,
    TopicsMissing,
    TurnAborted,
    Unavailable,
)
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.arrivals import Arrivals
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.effects import Step
from tocsin.engine.shard_engine import ShardEngine
from tocsin.engine.suspects import Suspect
from tocsin.ports.clock import TriggerClock
from tocsin.ports.jobs_log import JobsLog
from tocsin.ports.meters import TriggerMeter
from tocsin.ports.schedule_store import ScheduleStore
from tocsin.ports.shard_log import Polled, ShardLog
from tocsin.roles.pools import PoolBook
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.isolation import Isolation
from tocsin.roles.trigger.lanes import LaneWatch
from tocsin.roles.trigger.limits import Arrived, LoopLimits
from tocsin.roles.trigger.lost_indexes import LostIndexes
from tocsin.roles.trigger.measures import measure, measure_standing
from tocsin.roles.trigger.standing import StandingShards, TellPeople, nobody
from tocsin.roles.trigger.takeover import Hindered, Hindrance, Restore
from tocsin.roles.trigger.upkeep import HoldingBack, Trimming

__all__ = ["LoopLimits", "TriggerLoop"]

log = structlog.get_logger()


FENCED_PAUSE: Micros = SECOND
"""Twice the period of the group's heartbeats: time to learn that shards are lost."""
AWAY_PAUSE: Micros = 2 * SECOND
"""How long log and store are left alone after they did not answer a takeover."""


class TriggerLoop:
    """Drives the engines of the shards that this process owns, and takes over those that come.

    Args:
        shard_log: the log.
        store: the schedule index.
        restore: fences the predecessors of shards and makes engines of what they left; the new owner is its argument.
        new_owner: makes a transactional id that was never used.
        fleet: tells which holders of leases are gone.
        clock, meter, limits, jobs_log: see there.
        lanes: the very ones of the engines; those that are missing are noted there.
        pools: what is known of pools, which become lanes as they are found.
        tell: alerts people of shards that stand still; must not wait.
    """

    def __init__(
        self,
        shard_log: ShardLog,
        store: ScheduleStore,
        restore: Restore,
        new_owner: Callable[[], str],
        fleet: FleetReader,
        clock: TriggerClock,
        meter: TriggerMeter,
        limits: LoopLimits,
        jobs_log: JobsLog,
        lanes: Lanes | None = None,
        pools: PoolBook | None = None,
        tell: TellPeople = nobody,
    ) -> None:
        self._lane_watch = LaneWatch(shard_log, lanes or Lanes({}), meter, pools)
        self._log = shard_log
        self._store = store
        self._restore = restore
        self._new_owner = new_owner
        self._fleet = fleet
        self._clock = clock
        self._meter = meter
        self._limits = limits
        self._jobs_log = jobs_log
        self._engines: dict[int, ShardEngine] = {}
        self._owned: set[int] = set()
        """Shards that the group gave to this process; those without an engine are restored next."""
        self._unsent: dict[int, Step] = {}
        """Steps whose turn was aborted; they are sent again, unchanged, before anything else is decided."""
        self._arrived: dict[int, Arrived] = {}
        self._reports_ends: dict[int, int] = {}
        self._reports_seen: dict[int, int] = {}
        self._holding_back = HoldingBack(shard_log, limits)
        self._trimming = Trimming(shard_log, limits.log_kept_days, clock.now())
        self._measured_at: Micros = 0
        self._wait_s = 0.0
        self._not_before: Micros = 0
        self._owner = ""
        self._renewed = False
        """There is a producer under our transactional id; not while the brokers are away."""
        self._away = False
        self._lost = LostIndexes()
        self._isolation = Isolation()
        self._standing = StandingShards(meter, tell)
        self._first = 0  # Which shard is stepped first; all take their turn where one transaction cannot hold them.

    @property
    def engines(self) -> Mapping[int, ShardEngine]:
        """The shards that are owned and restored."""
        return self._engines

    @property
    def is_idle(self) -> bool:
        """Nothing is at hand, nor due before the next turn begins, unless something arrives."""
        return self._wait_s >= self._limits.wait_max_s

    def join(self) -> None:
        """Join the group; shards come with later turns."""
        self._start_over()
        self._log.join(self._release)

    def turn(self) -> None:
        """Do one turn.

        Raises:
            Refused: the process must not go on.
        """
        reports_max = self._limits.reports_max
        if sum(engine.backlog().reports for engine in self._engines.values()) > self._limits.reports_waiting_max:
            reports_max = 0
        polled = self._log.poll(self._wait_s, self._limits.commands_max, reports_max)
        self._note_assignment(polled)
        self._keep(polled)
        self._fleet.read(self._clock.local())
        self._guard_clock()
        try:
            self._lane_watch.look(self._clock.now())
            self._take_over()
            self._send_again()
            self._step_all()
        except OwnershipLost as error:
            log.warning(str(error), action="trigger.starts_over")
            if isinstance(error, TopicsMissing):
                self._lane_watch.missing(error.topics, self._clock.now())
            self._start_over()
            # A fence may mean that the group has long given our shards to others. Let it speak first: taking over at
            # once would fence the rightful owner in turn.
            self._not_before = self._clock.now() + FENCED_PAUSE
        except TurnAborted as error:
            # What was polled for these shards is in the steps that are kept; the group will say what stays ours.
            log.info(str(error), action="trigger.turn_aborted")
        except Unavailable as error:
            # Nothing fires and nothing is lost; what is owned and not restored is tried again.
            log.warning(str(error), action="trigger.waits_for_answers")
            self._not_before = self._clock.now() + AWAY_PAUSE
        self._holding_back.look(self._engines)
        self._measure_standing(self._clock.now())

    def _guard_clock(self) -> None:
        """Leave the group while our clock is certainly off, and come back when it no longer is: never early."""
        off_by = self._clock.off_by()
        self._meter.clock_off(0.0 if off_by is None else abs(off_by) / SECOND)
        if off_by is not None and not self._away:
            log.error("the clock is off; leaving", action="trigger.clock_off", off_by_s=off_by / SECOND)
            self._away = True
            self._log.leave()
        elif off_by is None and self._away:
            log.info("the clock is right again; joining", action="trigger.clock_right")
            self._away = False
            self._log.join(self._release)

    def _note_assignment(self, polled: Polled) -> None:
        if polled.lost:
            log.warning("shards were lost", action="trigger.lost", shards=sorted(polled.lost))
            self._owned -= polled.lost
            self._standing.goes(polled.lost)
            # Somebody else may have fenced us, and a stale commit must not be able to land: all begins anew.
            self._start_over()
        self._owned |= polled.assigned

    def _take_over(self) -> None:
        """Restore the shards that came. A restore belongs to one assignment: it is done before the next poll."""
        now = self._clock.now()
        for shard in self._isolation.calm():
            self._drop(shard)
        new = sorted(shard for shard in self._owned - set(self._engines) if not self._waits(shard, now))
        if not new or not self._clock.is_known() or self._away or now < self._not_before:
            return
        if not self._renewed:
            self._log.renew(self._owner)
            self._renewed = True
        try:
            taken = self._restore(new, self._owner, self._isolation.suspicions(), self._standing.hidden())
        except EngineFault as error:
            # The next turn restores the others; this one once more, knowing of its culprit.
            self._failed(error)
            return
        for shard, hindered in taken.hindered.items():
            self._standing.stands(shard, hindered, now)
        for shard, (engine, legacy) in taken.restored.items():
            try:
                writes = engine.adopt_jobs(legacy.jobs, legacy.jobs_end)
            except EngineFault as error:
                self._failed(error)
                continue
            self._engines[shard] = engine
            self._store.begin_writes(shard, 0, writes)
        self._standing.goes(taken.restored)
        begun = {shard: engine.state for shard, engine in self._engines.items() if shard in taken.restored}
        self._log.begin({shard: (state.commands_offset, state.reports_offset) for shard, state in begun.items()})
        self._meter.owned(len(self._engines))

    def _waits(self, shard: int, now: Micros) -> bool:
        return self._isolation.waits(shard, now) or self._standing.waits(shard, now)

    def _failed(self, error: EngineFault) -> None:
        """Forget a shard whose engine raised: it is restored next, from the log, knowing of the culprit."""
        culprit = error.at_hand if isinstance(error.at_hand, Suspect) else None
        log.error("the engine failed", action="trigger.engine_fault", shard=error.shard, exc_info=error.__cause__)
        self._isolation.failed(error.shard, culprit, error, self._clock.now())
        self._meter.isolated(self._isolation.waiting)
        self._drop(error.shard)

    def _gap(self, error: StateGap) -> None:
        """Forget a shard that must not go on; it stands still, and nobody else does."""
        self._standing.stands(error.shard, Hindered(Hindrance.DAMAGED, str(error)), self._clock.now())
        self._drop(error.shard)

    def _release(self, shards: set[int]) -> None:
        """Give shards up in peace: called from within a poll, while they may still be committed."""
        going = {shard: self._engines[shard] for shard in shards if shard in self._engines}
        released: dict[int, Step] = {}
        try:
            # Under load the group's change has aborted a turn just before; here, its generation is good again.
            self._send_again()
            released = {shard: engine.release(self._clock.now()) for shard, engine in going.items()}
            if released:
                self._log.commit([going[shard].turn(step) for shard, step in released.items()])
        except (TurnAborted, OwnershipLost, StateGap) as error:
            # The successor fences us instead; that costs it a second, and us another start.
            log.warning(str(error), action="trigger.release_failed", shards=sorted(released))
        for shard in shards:
            self._owned.discard(shard)
            self._drop(shard)
        self._standing.goes(shards)
        self._meter.owned(len(self._engines))
        log.info("gave shards up", action="trigger.released", shards=sorted(shards))

    def _drop(self, shard: int) -> None:
        self._engines.pop(shard, None)
        self._unsent.pop(shard, None)
        self._arrived.pop(shard, None)
        self._reports_ends.pop(shard, None)
        self._reports_seen.pop(shard, None)
        self._holding_back.forget(shard)
        self._store.forget(shard)
        self._meter.gone(shard)
        self._jobs_log.forget(shard)

    def _start_over(self) -> None:
        """Forget everything, and begin again from the log under a new transactional id; the group is not left."""
        for shard in list(self._engines):
            self._drop(shard)
        self._owner, self._renewed = self._new_owner(), False
        self._meter.owned(0)

    def _send_again(self) -> None:
        """Commit the turns that were aborted, unchanged, before anything else is decided."""
        if self._unsent:
            self._commit(self._unsent)

    def _keep(self, polled: Polled) -> None:
        """Keep what was polled until it is stepped: a turn that must be sent again comes first."""
        for record in polled.commands:
            if record.partition in self._engines:
                self._arrived.setdefault(record.partition, Arrived()).commands.append(record)
        for record in polled.reports:
            if record.partition in self._engines:
                self._arrived.setdefault(record.partition, Arrived()).reports.append(record)
        for shard, offset in polled.reports_seen.items():
            if shard in self._engines:
                # Said once for each position, and asked for until a verdict is made.
                self._reports_seen[shard] = max(self._reports_seen.get(shard, 0), offset)

    def _step_all(self) -> None:
        for completion in self._store.completed(self._limits.completions_max):
            if completion.shard in self._engines:
                self._arrived.setdefault(completion.shard, Arrived()).completions.append(completion)
        for page in self._jobs_log.completed():
            if page.shard in self._engines:
                self._arrived.setdefault(page.shard, Arrived()).jobs_page = page
        now = self._clock.now()
        steps = self._step_each(now)
        self._ask_store(steps)
        self._commit({shard: step for shard, step in steps.items() if step.turn})
        for shard, step in steps.items():
            if step.ask_reports_end:
                self._reports_ends[shard] = self._log.reports_end(shard)
        self._lost.tell(self._engines)
        measure(self._meter, self._engines, now, self._clock.now(), steps)
        self._wait_s = self._wait(now, steps)

    def _step_each(self, now: Micros) -> dict[int, Step]:
        """Step shard after shard, until the transaction is large or open for long enough; one that fails is left out.

        What is much is sent while the others are stepped.
        """
        silent = self._fleet.silent({holder for engine in self._engines.values() for holder in engine.holders()})
        shards = sorted(self._engines)
        self._first = self._first % len(shards) if shards else 0
        limits = self._limits
        room, ahead_max = limits.transaction_bytes_max, round(limits.ahead_max_s * SECOND)
        steps: dict[int, Step] = {}
        sent_at: Micros | None = None
        for shard in shards[self._first :] + shards[: self._first]:
            arrived = self._arrived.pop(shard, None) or Arrived()
            arrivals = Arrivals(
                arrived.commands,
                arrived.reports,
                arrived.completions,
                self._reports_ends.pop(shard, None),
                self._reports_seen.get(shard, 0),
                silent,
                arrived.jobs_page,
            )
            try:
                steps[shard] = self._engines[shard].step(now, arrivals)
            except EngineFault as error:
                self._failed(error)
                continue
            except StateGap as error:
                self._gap(error)
                continue
            room -= steps[shard].size
            if len(steps[shard].records) >= limits.ahead_records_min:
                sent_at = self._clock.now() if sent_at is None else sent_at
                self._log.send_ahead(self._engines[shard].turn(steps[shard]))
            if room <= 0 or (sent_at is not None and self._clock.now() - sent_at > ahead_max):
                break
        self._first += len(steps)
        return steps

    def trim(self) -> None:
        """Delete commands and reports that are applied and old, now and then."""
        self._trimming.trim(self._engines, self._clock.now())

    def _commit(self, steps: dict[int, Step]) -> None:
        """Commit first, index after: the store only ever learns of what is decided for good.

        Raises:
            TurnAborted: the steps are kept, to be sent again.
        """
        if not steps:
            return
        self._unsent = dict(steps)
        try:
            jobs_ends = self._log.commit([self._engines[shard].turn(step) for shard, step in steps.items()])
        except RecordRefused as error:
            # Of a step that did one thing only, that is the culprit; of any other, smaller ones are tried.
            step = self._unsent.get(error.shard)
            if step is None:
                raise OwnershipLost(str(error)) from error
            self._failed(EngineFault(error.shard, step.suspect, error))
            raise TurnAborted(f"{error}; the other shards' turns are sent again") from error
        self._unsent = {}
        self._isolation.passed(steps)
        for shard, step in steps.items():
            writes = self._engines[shard].committed(step, jobs_ends.get(shard))
            if writes or step.jobs:
                self._store.begin_writes(shard, step.number, writes)

    def _ask_store(self, steps: dict[int, Step]) -> None:
        for shard, step in steps.items():
            for minute in step.bucket_reads:
                self._store.begin_bucket_read(shard, minute)
            self._store.begin_job_reads(shard, step.job_reads)
            if step.jobs_page is not None:
                self._jobs_log.begin_read(shard, step.jobs_page, self._limits.jobs_page_records_max)

    def _wait(self, now: Micros, steps: dict[int, Step]) -> float:
        """Return how long the next poll may wait: until the next entry is due, and not at all while work is at hand."""
        if any(
            step.dispatched or step.dispatched_last or step.tally.commands or step.tally.reports
            for step in steps.values()
        ):
            return 0.0
        wake = min((engine.next_wake(now) for engine in self._engines.values()), default=now)
        return min(self._limits.wait_max_s, max(0.0, (wake - self._clock.now()) / SECOND))

    def _measure_standing(self, now: Micros) -> None:
        if now - self._measured_at >= SECOND:
            self._measured_at = now
            measure_standing(self._meter, self._engines, now)
