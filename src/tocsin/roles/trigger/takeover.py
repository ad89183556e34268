"""Taking a shard over, in an order of which every step answers a way to lose or repeat jobs.

1. Read the states, to learn who owned the shards.
2. Fence those owners: from here on they can commit nothing.
3. Wait until no transaction with offsets of these shards is pending.
4. Read the states again, to the true end. If an owner changed meanwhile, begin again with 2.
5. Load; read the jobs log from where the index is known to be complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import structlog

from tocsin.domain.entries import Place
from tocsin.domain.errors import Refused, StateGap, Undecodable
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
        self, shards: Sequence[int], owner: str, suspicions: Mapping[int, Suspicion] = MappingProxyType({})
    ) -> dict[int, tuple[ShardEngine, Restored]]:
        restored = take_over(self.takeover, shards, self.codec, self.facts, self.clock, owner)
        return {
            shard: (self._engine(legacy, owner, suspicions.get(shard, UNSUSPECTED)), legacy)
            for shard, legacy in restored.items()
        }

    def _engine(self, legacy: Restored, owner: str, suspicion: Suspicion) -> ShardEngine:
        return ShardEngine(legacy.state, owner, self.codec, self.lanes, self.limits, self.outcome_partitions, suspicion)


def take_over(
    takeover: Takeover,
    shards: Sequence[int],
    codec: RecordCodec,
    facts: ClusterFacts,
    clock: TriggerClock,
    self_id: str = "",
) -> dict[int, Restored]:
    """Fence the predecessors of these shards and restore what they left.

    Args:
        takeover: reads the legacy.
        shards, codec, facts, clock: see ``Restorer``.
        self_id: the transactional id of the new owner. A shard that it owned all along, and only forgot, needs no
            fence: nothing of it is under way, and its other shards go on.

    Raises:
        StateGap: a shard that has run has no state, or one with a hole.
        Refused: the cluster is not the one that the state speaks of.
        Unavailable: the log did not answer.
    """
    states = _restore_all(takeover, shards, codec)
    fenced: set[str] = set()
    for _ in range(ROUNDS_MAX):
        owners = {state.owner for state in states.values() if state and not state.released} - {"", self_id}
        if owners <= fenced and fenced:
            break
        for owner in sorted(owners - fenced):
            takeover.fence(owner)
        fenced |= owners
        takeover.wait_for_offsets(shards)
        states = _restore_all(takeover, shards, codec)
        if not owners:
            break
    else:
        raise Refused("the owner of these shards keeps changing: two triggers take them over from each other")
    now = clock.now()
    loaded = {shard: _check(takeover, shard, states[shard], facts, clock) for shard in shards}
    tails = takeover.read_jobs({shard: state.indexed_upto for shard, state in loaded.items()})
    for shard, tail in tails.items():
        if tail.end < loaded[shard].indexed_upto:
            raise StateGap(shard, "its jobs log ends before what is known to be indexed; was the topic made anew?")
    restored = {
        shard: Restored(state, _jobs_of(tails[shard], codec), tails[shard].end) for shard, state in loaded.items()
    }
    log.info(
        "took shards over",
        action="trigger.took_over",
        shards=len(restored),
        active=sum(len(legacy.state.active) for legacy in restored.values()),
        rewritten=sum(len(legacy.jobs) for legacy in restored.values()),
        cursor_behind_s=round(max((now - s.cursor.run_at) / SECOND for s in loaded.values()), 3),
    )
    return restored


def _restore_all(takeover: Takeover, shards: Sequence[int], codec: RecordCodec) -> dict[int, ShardState | None]:
    return {shard: restore(shard, records, codec) for shard, records in takeover.read_states(shards).items()}


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
