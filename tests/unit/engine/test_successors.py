"""What follows a row: the owner that fires it and the one that derives it again must agree, wherever the row stands."""

from __future__ import annotations

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.definitions import parse
from tocsin.domain.entries import EntryKey, Place
from tocsin.domain.instants import SECOND
from tocsin.domain.jobs import Job, JobState
from tocsin.engine.filing import Filing
from tocsin.engine.held import HeldEntries
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.engine.successors import Successors
from tocsin.engine.work import Work
from tocsin.engine.zone_rules import ZoneRules

CODEC = AvroCodec()
ZERO = 1_800_000_000 * SECOND


def test_what_follows_a_row_that_was_filed_late_stands_past_it_and_what_is_between_is_told() -> None:
    """Found by the simulation: the next time lay between the cursor and the late row, and a takeover dropped it."""
    cursor = Place.before(ZERO + 60 * SECOND)
    state = ShardState(0, 1, 1, cursor)
    zones = ZoneRules(state)
    filing = Filing(state, zones, Outbox(), HeldEntries(state), Work(state, CODEC), CODEC)
    successors = Successors(state, zones, CODEC)
    definition = parse({"schedule": {"every_s": 20}, "target": {"type": "http", "url": "https://example.test/"}})
    job = Job("default@a", "default", 1, 1, JobState.ACTIVE, ZERO, ZERO, definition, None)
    late = EntryKey(ZERO + 60 * SECOND + 1, job.job_id, job.version, ZERO + 40 * SECOND)
    row = filing.row_of(job, late)
    following = successors.follow(row, ZERO + 85 * SECOND, cursor)
    assert following.entry is not None
    assert following.entry.scheduled_for == ZERO + 80 * SECOND
    assert following.skipped is not None
    assert (following.skipped.passed.first, following.skipped.passed.last) == (ZERO + 60 * SECOND, ZERO + 60 * SECOND)
    state.cursor = late.place
    assert successors.derive_again(row) == following.entry
