"""Taking a shard over, in an order of which every step answers a way to lose or repeat jobs.

1. Read the states, as far as that can be done at once, to learn who owned the shards.
2. Fence those owners: from here on they can commit nothing.
3. Wait until no transaction with offsets of these shards is pending.
4. Read the states again, to the true end. If an owner changed meanwhile, begin again with 2.
5. Load; read the jobs log from where the index is known to be complete.

A shard that cannot be restored stands still alone: its neighbours are taken over without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

import structlog

from tocsin.domain.entries import Place
from tocsin.domain.errors import Corrupt, Refused, StateGap, Undecodable
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.restore import restore
from tocsin.engine.shard_engine import EngineLimits, ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.engine.suspects import UNSUSPECTED, Suspicion
from tocsin.ports.clock import TriggerClock
from tocsin.ports.codec import RecordCodec
from tocsin.ports.takeover import JobsTail, Takeover

log = structlog.get_logger()

CURSOR_AHEAD_MAX: Micros = SECOND
"""So far ahead of our clock a cursor may be: clocks differ a little, and time will reach it."""
ROUNDS_MAX = 10
"""If the owner changes under us so often, another takeover is under way."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A shard as its new owner finds it."""

    state: ShardState
    jobs: list[tuple[Job, bytes]]
    jobs_end: int


class Hindrance(StrEnum):
    """Why a shard cannot be restored."""

    HIDDEN_END = "hidden_end"
    """A transaction that is still open hides the end of one of its logs; it ends some time, or is ended by hand."""
    DAMAGED = "damaged"
    """What its last owner left has a hole, or cannot be read; time alone does not mend that."""


class Hindered(NamedTuple):
    """A shard that cannot be restored, and the problem for a person to read."""

    why: Hindrance
    problem: str


@dataclass(slots=True)
class Taken:
    """What came of taking shards over; each is in one of the two."""

    restored: dict[int, Restored] = field(default_factory=dict)
    hindered: dict[int, Hindered] = field(default_factory=dict)


@dataclass(slots=True)
class Engines:
    """What came of taking shards over, as engines."""

    restored: dict[int, tuple[ShardEngine, Restored]]
    hindered: dict[int, Hindered] = field(default_factory=dict)


class Restore(Protocol):
    """Fences the predecessors of shards, and makes engines of what they left."""

    def __call__(
        self,
        shards: Sequence[int],
        owner: str,
        suspicions: Mapping[int, Suspicion] = ...,
        hidden: Collection[int] = ...,
    ) -> Engines: ...


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was recorded when the topics were created."""

    epoch: int
    shards: int


@dataclass(frozen=True, slots=True)
class Restorer:
    """Makes engines of what predecessors left; called with the shards, and the transactional id of the new owner.

    Attributes:
        takeover: reads the legacy.
        codec, lanes, limits, outcome_partitions: what engines need.
        facts: of the cluster.
        clock: tells where a shard begins that never ran.
    """

    takeover: Takeover
    codec: RecordCodec
    facts: ClusterFacts
    lanes: Lanes
    limits: EngineLimits
    outcome_partitions: int
    clock: TriggerClock

    def __call__(
        self,
        shards: Sequence[int],
        owner: str,
        suspicions: Mapping[int, Suspicion] = MappingProxyType({}),
        hidden: Collection[int] = (),
    ) -> Engines:
        """Take shards over. ``hidden``: those of them whose end was hidden when it was tried last; see there."""
        taken = take_over(self.takeover, shards, self.codec, self.facts, self.clock, owner, hidden)
        engines = {
            shard: (self._engine(legacy, owner, suspicions.get(shard, UNSUSPECTED)), legacy)
            for shard, legacy in taken.restored.items()
        }
        return Engines(engines, taken.hindered)

    def _engine(self, legacy: Restored, owner: str, suspicion: Suspicion) -> ShardEngine:
        return ShardEngine(legacy.state, owner, self.codec, self.lanes, self.limits, self.outcome_partitions, suspicion)


def take_over(
    takeover: Takeover,
    shards: Sequence[int],
    codec: RecordCodec,
    facts: ClusterFacts,
    clock: TriggerClock,
    self_id: str = "",
    hidden: Collection[int] = (),
) -> Taken:
    """Fence the predecessors of these shards and restore what they left.

    Args:
        takeover: reads the legacy.
        shards, codec, facts, clock: see ``Restorer``.
        self_id: the transactional id of the new owner. A shard that it owned all along, and only forgot, needs no
            fence: nothing of it is under way, and its other shards go on.
        hidden: those of the shards whose end was hidden before; one whose end still is costs no further waiting.

    Raises:
        Refused: the cluster is not the one that the state speaks of.
        Unavailable: the log did not answer.
    """
    rest = _Restoring(takeover, codec)
    tried = sorted(set(hidden) & set(shards))
    rest.hide(takeover.hidden(tried) if tried else ())
    rest.read([shard for shard in shards if shard not in rest.hindered], stable=True)
    fenced: set[str] = set()
    for _ in range(ROUNDS_MAX):
        for owner in sorted(rest.owners() - fenced - {self_id}):
            takeover.fence(owner)
            fenced.add(owner)
        if not rest.states:
            break
        takeover.wait_for_offsets(list(rest.states))
        rest.read(list(rest.states))
        if rest.owners() <= fenced | {self_id}:
            break
    else:
        raise Refused("the owner of these shards keeps changing: two triggers take them over from each other")
    return _loaded(rest, facts, clock)


class _Restoring:
    """The shards of one takeover: their states as far as they could be restored, and what hinders the others."""

    def __init__(self, takeover: Takeover, codec: RecordCodec) -> None:
        self.takeover = takeover
        self.codec = codec
        self.states: dict[int, ShardState | None] = {}
        self.hindered: dict[int, Hindered] = {}

    def owners(self) -> set[str]:
        """Return those who may still commit something."""
        return {state.owner for state in self.states.values() if state and not state.released} - {""}

    def hide(self, shards: Collection[int]) -> None:
        """Note shards whose end is hidden."""
        for shard in shards:
            self.hinder(shard, Hindrance.HIDDEN_END, f"shard {shard}: an open transaction hides the end of its log")

    def hinder(self, shard: int, why: Hindrance, problem: str) -> None:
        self.states.pop(shard, None)
        self.hindered[shard] = Hindered(why, problem)

    def read(self, shards: Sequence[int], *, stable: bool = False) -> None:
        """Read and restore the states of shards anew; whether they are damaged is judged by their true end only."""
        read = self.takeover.read_states(shards, stable=stable)
        self.hide(set(shards) - set(read))
        if stable:
            self.states = {shard: self._as_far_as(shard, records) for shard, records in read.items()}
        else:
            self.each(read, lambda shard: self.states.update({shard: restore(shard, read[shard], self.codec)}))

    def _as_far_as(self, shard: int, records: Mapping[str, bytes]) -> ShardState | None:
        try:
            return restore(shard, records, self.codec)
        except Corrupt:
            return None

    def each(self, shards: Collection[int], do: Callable[[int], None]) -> None:
        """Do something for each shard; one whose legacy turns out to be damaged is left aside."""
        for shard in list(shards):
            try:
                do(shard)
            except Corrupt as error:
                told = str(error) if isinstance(error, StateGap) else f"shard {shard}: its state: {error}"
                self.hinder(shard, Hindrance.DAMAGED, told)


def _loaded(rest: _Restoring, facts: ClusterFacts, clock: TriggerClock) -> Taken:
    now = clock.now()
    loaded: dict[int, ShardState] = {}
    restored: dict[int, Restored] = {}

    def check(shard: int) -> None:
        loaded[shard] = _check(rest.takeover, shard, rest.states[shard], facts, clock)

    def join(shard: int) -> None:
        state, tail = loaded[shard], tails[shard]
        if tail.end < state.indexed_upto:
            raise StateGap(shard, "its jobs log ends before what is known to be indexed; was the topic made anew?")
        restored[shard] = Restored(state, _jobs_of(tail, rest.codec), tail.end)

    rest.each(rest.states, check)
    tails = rest.takeover.read_jobs({shard: state.indexed_upto for shard, state in loaded.items()}) if loaded else {}
    rest.hide(set(loaded) - set(tails))
    rest.each(tails, join)
    if restored:
        log.info(
            "took shards over",
            action="trigger.took_over",
            shards=len(restored),
            active=sum(len(legacy.state.active) for legacy in restored.values()),
            rewritten=sum(len(legacy.jobs) for legacy in restored.values()),
            cursor_behind_s=round(max((now - one.state.cursor.run_at) / SECOND for one in restored.values()), 3),
        )
    return Taken(restored, rest.hindered)


def _check(
    takeover: Takeover, shard: int, state: ShardState | None, facts: ClusterFacts, clock: TriggerClock
) -> ShardState:
    """Return the state to start from: what was restored, or a new one where the shard has never run."""
    if state is None:
        if takeover.has_run(shard):
            raise StateGap(shard, "it has run before, but its log of states is empty; restore the topic")
        start = Place.before(clock.now() + 1)
        state = ShardState(shard, facts.epoch, facts.shards, start, successors_upto=start)
    # Not by ``now``, which lags behind the broker's time while that is known only roughly.
    if state.cursor.run_at > clock.at_most() + CURSOR_AHEAD_MAX:
        ahead_s = (state.cursor.run_at - clock.at_most()) / SECOND
        raise StateGap(shard, f"its cursor is {ahead_s:.1f} s ahead: a clock is wrong, here or at its last owner")
    if (state.shards, state.epoch) != (facts.shards, facts.epoch):
        raise Refused(
            f"shard {shard} was written by a cluster of {state.shards} shards, epoch {state.epoch}; this one has "
            f"{facts.shards} shards, epoch {facts.epoch}. Shards are fixed when a cluster is created"
        )
    return state


def _jobs_of(tail: JobsTail, codec: RecordCodec) -> list[tuple[Job, bytes]]:
    """Decode the snapshots; a tombstone says that its job's rows are gone, so nothing of it is to be written."""
    snapshots: dict[str, list[tuple[Job, bytes]]] = {}
    for job_id, value in tail.records:
        if value is None:
            snapshots.pop(job_id, None)
        else:
            try:
                job = codec.decode_job(value)
            except Undecodable as error:
                # One damaged snapshot must not keep a whole shard from starting; its bytes stay in the log.
                log.error("a job's snapshot is damaged", action="trigger.damaged_job", job_id=job_id, error=str(error))
                continue
            snapshots.setdefault(job_id, []).append((job, value))
    return [pair for pairs in snapshots.values() for pair in pairs]
