"""Rules broken one at a time, to see that the simulation notices: ``make mutants``.

A mutant replaces one function of the code, or of the adapter that stands for it here, by one that leaves a rule out.
Its name begins with the rule's number in docs/invariants.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

from tests.simulation.broken import (
    Patch,
    admit_by_time,
    admit_rows_by_time,
    adopt_nothing,
    any_failure_may_be_repeated,
    any_return_counts,
    any_token,
    at_its_time,
    begun_counts_for_new,
    delta_without_changes,
    delta_without_work,
    derive_ignoring_names,
    drop_unsent,
    end_in_silence,
    following_by_present_data,
    forget_all_voids,
    go_on_though_ending,
    highest_seen,
    insert_over_delete,
    judge_at_once,
    loss_unmarked,
    lost_as_ever,
    metadata_without,
    never_suspect,
    newest_chunks,
    next_after_command,
    note_without_forgetting,
    nothing,
    of_what_is_ahead,
    only_the_present,
    outlive_in_silence,
    release_the_newest,
    replace_without_waiting,
    restore_without_endings,
    restore_without_the_queue,
    row_taken_for_missing,
    same_partition_again,
    send_unnoted,
    settle_at_once,
    settle_at_revoke,
    settle_what_was_dropped,
    silent_soon,
    stable_end,
    start_before_mark,
    stored_at_once,
    take_in_without_last,
    unknown_is_aborted,
    waiting_is_current,
    without_doubt,
    wrapped,
    write_before_commit,
)
from tests.simulation.trigger_ports import SimShardLog, SimTakeover
from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.instants import MINUTE
from tocsin.engine import command_reader, report_desk, restore, shard_engine
from tocsin.engine.actives import Actives
from tocsin.engine.broker_clock import BrokerClock
from tocsin.engine.filing import Filing
from tocsin.engine.firing_desk import FiringDesk
from tocsin.engine.fleet_watch import FleetWatch
from tocsin.engine.fresh_ids import FreshIds
from tocsin.engine.horizon import Horizon
from tocsin.engine.job_ends import JobEnds
from tocsin.engine.job_rows import JobRows
from tocsin.engine.losses import Losses
from tocsin.engine.offset_window import OffsetWindow
from tocsin.engine.outbox import Outbox
from tocsin.engine.overlap import Overlaps
from tocsin.engine.own_commands import OwnCommands
from tocsin.engine.parking import Parking
from tocsin.engine.rederivation import Rederivation
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.shard_engine import ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.engine.stops import Stops
from tocsin.engine.successors import Successors
from tocsin.engine.timers import Timers
from tocsin.engine.zone_change import ZoneChange
from tocsin.engine.zone_rules import ZoneRules
from tocsin.roles.trigger.loop import TriggerLoop
from tocsin.roles.worker.attempts import Attempts
from tocsin.roles.worker.cancels import Cancels
from tocsin.roles.worker.lane import Lane
from tocsin.roles.worker.loop import WorkerLoop
from tocsin.roles.worker.partitions import Partition

MUTANTS: Final[dict[str, Callable[[], list[Patch]]]] = {
    "T1 what changes of an execution is not in the delta": lambda: [
        wrapped(shard_engine, "delta_records", delta_without_changes)
    ],
    "T2 a snapshot counts without its last chunk": lambda: [(restore, "_newest_complete", newest_chunks)],
    "T3 what takes long is not in the delta": lambda: [wrapped(shard_engine, "delta_records", delta_without_work)],
    "T4 an owner's own command is not noted": lambda: [wrapped(OwnCommands, "send", send_unnoted)],
    "T4 a job is finished while it runs": lambda: [
        (Timers, "_is_busy", lambda self, entry: False),
        (JobEnds, "_is_busy", lambda self, job: False),
    ],
    "T4 that an execution is the last is forgotten over a takeover": lambda: [
        wrapped(restore, "_take_in", take_in_without_last)
    ],
    "T5 the cursor is a time": lambda: [
        (FiringDesk, "admit", admit_by_time),
        (FiringDesk, "admit_rows", admit_rows_by_time),
    ],
    "T5 the cursor passes what is not loaded": lambda: [
        (Horizon, "loaded_upto", property(lambda self: self._next * MINUTE))
    ],
    "T6 a late create is filed at its time": lambda: [(Filing, "late_or_on_time", at_its_time)],
    "T6 an edit may file late": lambda: [(Filing, "next_key", next_after_command)],
    "T6 a successor chosen by now is not named": lambda: [wrapped(Successors, "derive_again", derive_ignoring_names)],
    "T7 nothing is derived again": lambda: [(Rederivation, "file", nothing)],
    "T8 an insert wins over a delete": lambda: [(MemoryTables, "apply", insert_over_delete)],
    "T9 a snapshot lists only the last row that it replaces": lambda: [(Filing, "replaced_by_next", only_the_present)],
    "T9 a new owner writes nothing again": lambda: [(ShardEngine, "adopt_jobs", adopt_nothing)],
    "T10 successors count as stored when they are committed": lambda: [
        wrapped(ShardEngine, "_watermarks", stored_at_once)
    ],
    "T11 no voids": lambda: [(Filing, "_shadow", nothing)],
    "T11 voids are forgotten soon": lambda: [wrapped(ShardState, "forget_passed", forget_all_voids)],
    "T11 nothing moves to other zone data": lambda: [(ZoneChange, "_look", lambda *_: 0)],
    "T11 a row of former zone data does not give way": lambda: [(ZoneRules, "is_too_early", lambda *_: False)],
    "T11 a row of former zone data is not found": lambda: [(ZoneRules, "following", following_by_present_data)],
    "T12 what is committed for a minute that is being read stays out": lambda: [
        (Outbox, "unacknowledged_inserts", lambda self, minute: iter(())),
        (Horizon, "has_begun", lambda self, minute: minute * MINUTE + MINUTE <= self.loaded_upto),
    ],
    "T13 a minute that cannot be read stops nothing": lambda: [
        (Horizon, "loaded_upto", property(lambda self: 1 << 60))
    ],
    "T14 a job that is not in memory is taken for missing": lambda: [(JobRows, "get", row_taken_for_missing)],
    "T14 every made id counts as new": lambda: [(FreshIds, "is_new", lambda self, job_id, now: True)],
    "T14 what is due goes on past parked commands": lambda: [(Parking, "holds", lambda self, job_id: False)],
    "T15 a misplaced command is decided where it came": lambda: [
        (command_reader, "shard_of", lambda job_id, shards: 0)
    ],
    "T18 now is not held at the broker's time": lambda: [(BrokerClock, "now", BrokerClock.local)],
    "T19 verdicts are made before the reports are read": lambda: [(ReportDesk, "read_upto", judge_at_once)],
    "T20 workers are not told what goes out again": lambda: [wrapped(Losses, "outlive", outlive_in_silence)],
    "T20 a worker starts what it was told not to": lambda: [
        (Cancels, "forbid", lambda self, execution_id, token: False)
    ],
    "T21 the end of a log is its stable end": lambda: [(SimTakeover, "end", stable_end)],
    "T22 memory is kept over a loss": lambda: [(TriggerLoop, "_note_assignment", note_without_forgetting)],
    "T23 an aborted turn is not sent again": lambda: [(TriggerLoop, "_send_again", drop_unsent)],
    "T23 a commit of unknown outcome counts as aborted": lambda: [wrapped(SimShardLog, "_end", unknown_is_aborted)],
    "T8 index before commit": lambda: [wrapped(TriggerLoop, "_commit", write_before_commit)],
    "W0 a stale token is accepted": lambda: [(ReportDesk, "_under_own_head", any_token)],
    "W0 what waits is still current": lambda: [wrapped(ReportDesk, "_decide", waiting_is_current)],
    "W0 a redelivery is not marked": lambda: [wrapped(Losses, "_lost", loss_unmarked)],
    "W0 what may have run is made again under at_most_once": lambda: [wrapped(Losses, "_lost", lost_as_ever)],
    "W0 any failure is retried under at_most_once": lambda: [(report_desk, "_why_final", any_failure_may_be_repeated)],
    "W1 the highest offset seen is committed": lambda: [
        (OffsetWindow, "prefix", property(highest_seen)),
        (OffsetWindow, "_relative", of_what_is_ahead),
    ],
    "W1 the settled set is not written": lambda: [wrapped(OffsetWindow, "metadata", metadata_without("_settled"))],
    "W2 the begun list is not written": lambda: [wrapped(OffsetWindow, "metadata", metadata_without("_begun"))],
    "W2 start, then mark": lambda: [wrapped(WorkerLoop, "_commit_and_start", start_before_mark)],
    "W3 a commit of unknown outcome is followed by others": lambda: [wrapped(Lane, "commit", never_suspect)],
    "W4 settle before the report is acknowledged": lambda: [wrapped(Attempts, "_close", settle_at_once)],
    "W5 an assignment goes on with an old one's items": lambda: [
        wrapped(Lane, "assigned", same_partition_again),
        wrapped(Partition, "settle", settle_what_was_dropped),
    ],
    "W6 a revoke settles what has no lease": lambda: [(Attempts, "hand_over", settle_at_revoke)],
    "W7 a successor runs what its predecessor had begun": lambda: [
        wrapped(OffsetWindow, "received", begun_counts_for_new)
    ],
    "W7 any return ends a lease": lambda: [wrapped(Losses, "returned", any_return_counts)],
    "W15 lost offsets count for none": lambda: [wrapped(Lane, "_predecessor", without_doubt)],
    "W10 a process is silent after four seconds": lambda: [(FleetWatch, "_is_silent", silent_soon)],
    "W12 a successor does not wait for the end of what it replaces": lambda: [
        wrapped(Overlaps, "admit", replace_without_waiting)
    ],
    "W12 what stands behind others is forgotten at a takeover": lambda: [
        wrapped(restore, "_take_in", restore_without_the_queue)
    ],
    "W12 the newest of a queue goes first": lambda: [(Actives, "next_free", release_the_newest)],
    "W12 jobs of a group do not see one another": lambda: [(Actives, "is_taken", Actives.has_job_of)],
    "W12 workers are not told what is being ended": lambda: [wrapped(Stops, "begin", end_in_silence)],
    "W12 what is being ended is attempted again": lambda: [(Stops, "take", go_on_though_ending)],
    "W12 a successor owner forgets what is being ended": lambda: [
        wrapped(restore, "_take_in", restore_without_endings)
    ],
}
"""By name: what is replaced."""

UNSEEN: Final[dict[str, str]] = {
    "T16 commands are deleted by their owner only": (
        "tests/contract/test_shard_log.py::test_old_applied_records_are_deleted_and_others_stay"
    ),
    "T17 what fails is set aside alone": (
        "tests/unit/trigger/test_isolation.py::test_an_entry_that_fails_is_set_aside_its_job_paused_and_all_others_fire"
    ),
    "T21 the predecessor is fenced, which shortens the wait for what it left open": (
        "tests/contract/test_shard_log.py::test_a_fenced_owner_commits_nothing_more"
    ),
    "T24 settings of the real client": (
        "tests/contract/test_shard_log.py::test_a_member_of_a_past_generation_commits_nothing_and_may_send_again"
    ),
    "W8 the client of HTTP targets retries nothing": (
        "tests/e2e/test_one_off.py::test_a_failing_target_ends_dead_with_its_reason"
    ),
    "W9 only the death of its own process counts against a suspect": (
        "tests/unit/targets/test_alone.py::test_a_child_that_dies_is_returned_as_reaped_and_its_neighbours_go_on"
    ),
    "W11 a lease is not forgotten": (
        "tests/unit/worker/test_worker_handover.py"
        "::test_a_lease_survives_the_loss_of_its_partition_and_its_return_to_this_very_worker"
    ),
    "W13 a stop returns what has not started": (
        "tests/unit/worker/test_worker_handover.py::test_a_stop_whose_grace_is_over_returns_the_rest"
    ),
    "W14 a message, its report and its offset are one transaction": (
        "tests/integration/test_message_lane.py::test_every_message_is_visible_once_through_kills_freezes_and_rebalances"
    ),
}
"""Rules that no simulation of these parts can see, with the test that does."""


def unreached(seeds: Sequence[int]) -> list[str]:
    """Run seeds, and return what mutants would replace and nothing has called.

    Raises:
        AttributeError: a mutant would replace what is not there.
    """
    from tests.simulation.runner import run_seeds

    places = {(owner, name) for make in MUTANTS.values() for owner, name, _ in make()}
    called: set[tuple[Any, str]] = set()
    with _replaced([(owner, name, _noting(_present(owner, name), (owner, name), called)) for owner, name in places]):
        for seed in seeds:
            run_seeds([seed])
            if called == places:
                break
    return sorted(f"{owner.__name__}.{name}" for owner, name in places - called)


def _present(owner: Any, name: str) -> Any:
    if name not in owner.__dict__:
        raise AttributeError(f"a mutant replaces {owner.__name__}.{name}, which is not there: name what took its place")
    return owner.__dict__[name]


def _noting(real: Any, place: tuple[Any, str], called: set[tuple[Any, str]]) -> Any:
    if isinstance(real, property):
        return property(_noting(real.fget, place, called))

    def noting(*given: Any, **named: Any) -> Any:
        called.add(place)
        return real(*given, **named)

    return noting


@contextmanager
def mutation(name: str | None) -> Iterator[None]:
    """Break a rule meanwhile."""
    if name is None:
        with nullcontext():
            yield
        return
    with _replaced(MUTANTS[name]()):
        yield


@contextmanager
def _replaced(patches: Sequence[Patch]) -> Iterator[None]:
    former = [(owner, attribute, _present(owner, attribute)) for owner, attribute, _ in patches]
    for owner, attribute, instead in patches:
        setattr(owner, attribute, instead)
    try:
        yield
    finally:
        for owner, attribute, real in former:
            setattr(owner, attribute, real)
