"""Where a job's row may be filed: past all that is decided of it, which may be more than the cursor has passed."""

from __future__ import annotations

from dataclasses import replace

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.definitions import parse
from tocsin.domain.entries import Place
from tocsin.domain.instants import SECOND
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.shard_records import NamedSuccessor, StateDelta
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.held import HeldEntries
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Work
from tocsin.engine.zone_rules import ZoneRules

CODEC = AvroCodec()
ZERO = 1_800_000_000 * SECOND


def test_what_a_late_run_stood_for_stays_decided_over_a_pause() -> None:
    """Found by the simulation: an event said that an occurrence was missed, and after a pause it ran."""
    state = ShardState(0, 1, 1, Place.before(ZERO + 60 * SECOND))
    filing = Filing(state, ZoneRules(state), Outbox(), HeldEntries(state), Work(state, CODEC), CODEC)
    target = {"type": "http", "url": "https://example.test/"}
    definition = parse({"schedule": {"every_s": 3}, "target": target})
    job = Job("default@a", "default", 1, 1, JobState.ACTIVE, ZERO, ZERO, definition, None)
    # A run at 57 s came 23 s late, and stood for all up to then, though the cursor could not pass the minute yet.
    late = NamedSuccessor(job.job_id, 1, ZERO + 57 * SECOND, ZERO + 81 * SECOND, ZERO + 80 * SECOND)
    state.named[job.job_id] = late
    assert (filing.next_key(job, ZERO + 61 * SECOND) or late).scheduled_for == ZERO + 81 * SECOND
    step = Step(ZERO + 81 * SECOND, 1)
    filing.file(step, replace(job, version=2, state=JobState.PAUSED), job)
    assert job.job_id not in state.named
    resumed = replace(job, version=3)
    assert (filing.next_key(resumed, ZERO + 61 * SECOND) or late).scheduled_for == ZERO + 81 * SECOND
    # It outlasts the turn, and a restore; and is forgotten with the void.
    assert CODEC.decode_delta(CODEC.encode_delta(_delta(state, step))).voids == tuple(step.voids)
    assert step.voids[0].until > Place(ZERO + 80 * SECOND, job.job_id, ZERO + 80 * SECOND)


def _delta(state: ShardState, step: Step) -> StateDelta:
    return StateDelta(1, 0, 1, step.now, state.header(), voids=tuple(step.voids))
