"""Rules broken one at a time, to see that the simulation notices: ``make mutants``.

A mutant replaces one function of the code, or of the adapter that stands for it here, by one that leaves a rule out.
Its name begins with the rule's number in docs/invariants.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final

from tests.simulation.trigger_ports import SimShardLog, SimTakeover
from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.instants import MINUTE
from tocsin.domain.shard_records import Phase
from tocsin.engine import command_reader, restore, shard_engine
from tocsin.engine.broker_clock import BrokerClock
from tocsin.engine.filing import Filing
from tocsin.engine.firing_desk import FiringDesk
from tocsin.engine.fleet_watch import FleetWatch
from tocsin.engine.fresh_ids import FreshIds
from tocsin.engine.horizon import Horizon
from tocsin.engine.job_rows import JobRows, KnownRow
from tocsin.engine.offset_window import OffsetWindow
from tocsin.engine.outbox import Outbox
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.shard_engine import ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.engine.successors import Successors
from tocsin.ports.dispatch_log import CommitOutcome
from tocsin.ports.schedule_store import StoreWrites
from tocsin.roles.trigger.loop import TriggerLoop
from tocsin.roles.worker.attempts import Attempts
from tocsin.roles.worker.lane import Lane
from tocsin.roles.worker.loop import WorkerLoop
from tocsin.roles.worker.partitions import Item, Partition

Patch = tuple[Any, str, Any]
"""Owner, name and what stands there instead."""


def _wrapped(owner: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    return owner, name, make(getattr(owner, name))


def _nothing(*_args: Any, **_named: Any) -> None:
    """Leave it out."""


# The owner's turn


def _delta_without_changes(real: Any) -> Any:
    def delta_records(codec: Any, state: Any, step: Any, *rest: Any) -> Any:
        changed, step.changed = step.changed, {}
        records = real(codec, state, step, *rest)
        step.changed = changed
        return records

    return delta_records


def _delta_without_work(real: Any) -> Any:
    def delta_records(codec: Any, state: Any, step: Any, *rest: Any) -> Any:
        work, step.work = step.work, []
        records = real(codec, state, step, *rest)
        step.work = work
        return records

    return delta_records


def _newest_chunks(chunks: list[Any]) -> list[Any]:
    newest = max((chunk.base for chunk in chunks), default=0)
    return sorted((chunk for chunk in chunks if chunk.base == newest), key=lambda chunk: chunk.index)


def _admit_by_time(self: Any, entries: Any) -> None:
    cursor = self._state.cursor
    self._wheel.add(entry for entry in entries if entry.run_at > cursor.run_at)


def _admit_rows_by_time(self: Any, step: Any, rows: Any) -> None:
    _admit_by_time(self, rows)


def _at_its_time(self: Any, job_id: str, version: int, scheduled_for: int) -> EntryKey:
    return EntryKey(scheduled_for, job_id, version, scheduled_for)


def _next_after_command(self: Any, job: Any, command_at: int) -> EntryKey | None:
    at = self.plan(job).next_after(command_at)
    return None if at is None else self.late_or_on_time(job.job_id, job.version, at)


def _derive_ignoring_names(real: Any) -> Any:
    def derive_again(self: Any, entry: Entry) -> Entry | None:
        named, self._state.named = self._state.named, {}
        try:
            return real(self, entry)  # type: ignore[no-any-return]
        finally:
            self._state.named = named

    return derive_again


def _adopt_nothing(self: Any, snapshots: Any, jobs_end: int) -> StoreWrites:
    return StoreWrites()


def _insert_over_delete(self: Any, shard: int, writes: StoreWrites) -> None:
    for entry in writes.inserts:
        self._deleted.discard((shard, entry.key))
    _APPLY(self, shard, writes)


_APPLY = MemoryTables.apply


def _only_the_present(self: Any, former: Any) -> tuple[EntryKey, ...]:
    present = self.present_key(former)
    return (present,) if present is not None else ()


def _stored_at_once(real: Any) -> Any:
    def watermarks(self: Any, step: Any) -> None:
        real(self, step)
        self.state.successors_upto = max(self.state.successors_upto, self.state.cursor)

    return watermarks


def _forget_all_voids(real: Any) -> Any:
    def forget_passed(self: Any) -> None:
        real(self)
        self.voids.clear()

    return forget_passed


def _row_taken_for_missing(self: Any, job_id: str) -> KnownRow:
    return _GET(self, job_id) or KnownRow(None, None, 0)


_GET = JobRows.get


class _NothingParked:
    """Parking, as firing sees it when it does not look."""

    def __init__(self, parking: Any) -> None:
        self._parking = parking

    def has(self, job_id: str) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parking, name)


def _fire_past_parked(real: Any) -> Any:
    def decide(self: Any, *given: Any) -> Any:
        parking, self._parking = self._parking, _NothingParked(self._parking)
        try:
            return real(self, *given)
        finally:
            self._parking = parking

    return decide


def _judge_at_once(self: Any, seen: int) -> int:
    return 1 << 60


def _stable_end(self: Any, topic: str, shard: int) -> int:
    return self._broker.partition(topic, shard).stable_end()  # type: ignore[no-any-return]


def _note_without_forgetting(self: Any, polled: Any) -> None:
    self._owned -= polled.lost
    self._owned |= polled.assigned


def _drop_unsent(self: Any) -> None:
    self._unsent = {}


def _unknown_is_aborted(real: Any) -> Any:
    from tocsin.domain.errors import OwnershipLost, TurnAborted

    def end(self: Any, transaction: Any) -> None:
        try:
            real(self, transaction)
        except OwnershipLost as error:
            # As a client would that begins a new producer under the same id, and sends the turn again.
            self._handle = self._broker.init(transaction.handle.producer_id)
            raise TurnAborted(str(error)) from error

    return end


def _write_before_commit(real: Any) -> Any:
    def commit(self: Any, steps: Any) -> None:
        for shard, step in steps.items():
            if step.writes():
                self._store.begin_writes(shard, step.number, step.writes())
        real(self, steps)

    return commit


# The worker


def _any_token(self: Any, report: Any, active: Any) -> Any:
    head, head_bytes = self._codec.split_head(active.execution)
    return replace(report, head=head, head_bytes=head_bytes)


def _waiting_is_current(real: Any) -> Any:
    def decide(self: Any, step: Any, report: Any, kind: Any, place: Any) -> None:
        active = self._actives.get(report.head.execution_id)
        if active is not None and active.phase == Phase.WAITING and kind == "SUCCEEDED":
            self._actives.put(report.head.execution_id, active._replace(phase=Phase.QUEUED))
        real(self, step, report, kind, place)

    return decide


def _loss_unmarked(self: Any, step: Any, execution_id: str, active: Any) -> None:
    head, _ = self._codec.split_head(active.execution)
    waiting = active._replace(
        phase=Phase.WAITING, wake_at=step.now, next_attempt=head.attempt, next_losses=head.losses, holder=None
    )
    self._dispatches.change(step, execution_id, waiting)


def _highest_seen(self: Any) -> int:
    return self._position  # type: ignore[no-any-return]


def _metadata_without(part: str) -> Callable[[Any], Any]:
    def make(real: Any) -> Any:
        def metadata(self: Any, *, released: bool = False) -> Any:
            kept = getattr(self, part)
            setattr(self, part, set())
            try:
                return real(self, released=released)
            finally:
                setattr(self, part, kept)

        return metadata

    return make


def _start_before_mark(real: Any) -> Any:
    def commit_and_start(self: Any, lane: Any) -> int:
        self._attempts.take(lane.take_marked())
        return real(self, lane)  # type: ignore[no-any-return]

    return commit_and_start


def _never_suspect(real: Any) -> Any:
    def commit(self: Any) -> CommitOutcome:
        marked = list(self.marked)
        stages = [item.stage for item in marked]
        outcome: CommitOutcome = self._commit([p for p in self.partitions.values() if p.changed], released=False)
        assert len(stages) == len(marked)
        return outcome

    return commit


def _settle_at_once(real: Any) -> Any:
    def close(self: Any, item: Any, job_id: str, report: bytes) -> None:
        real(self, item, job_id, report)
        item.partition.settle(item)

    return close


def _same_partition_again(real: Any) -> Any:
    def assigned(self: Any, starts: Any) -> None:
        kept = self.__dict__.setdefault("_kept", {})
        real(self, [start for start in starts if start.partition not in kept])
        for start in starts:
            if start.partition in kept:
                self.partitions[start.partition] = kept[start.partition]
                kept[start.partition].live = True
        kept.update(self.partitions)

    return assigned


def _settle_at_revoke(self: Any, partitions: Any, reason: str) -> None:
    for partition in partitions:
        for item in partition.running():
            partition.settle(item)


def _begun_counts_for_new(real: Any) -> Any:
    def enqueue(self: Any, item: Item) -> None:
        item.inherited = False
        real(self, item)

    return enqueue


def _any_return_counts(real: Any) -> Any:
    def returned(self: Any, step: Any, report: Any, active: Any) -> None:
        real(self, step, replace(report, worker_id=active.holder or report.worker_id), active)

    return returned


def _silent_soon(self: Any, holder: str, now: int) -> bool:
    known = self._processes.get(holder)
    return known is None or now - known.last_seen >= 4_000_000


MUTANTS: Final[dict[str, Callable[[], list[Patch]]]] = {
    "T1 what changes of an execution is not in the delta": lambda: [
        _wrapped(shard_engine, "delta_records", _delta_without_changes)
    ],
    "T2 a snapshot counts without its last chunk": lambda: [(restore, "_newest_complete", _newest_chunks)],
    "T3 what takes long is not in the delta": lambda: [_wrapped(shard_engine, "delta_records", _delta_without_work)],
    "T5 the cursor is a time": lambda: [
        (FiringDesk, "admit", _admit_by_time),
        (FiringDesk, "admit_rows", _admit_rows_by_time),
    ],
    "T5 the cursor passes what is not loaded": lambda: [
        (Horizon, "loaded_upto", property(lambda self: self._next * MINUTE))
    ],
    "T6 a late create is filed at its time": lambda: [(Filing, "late_or_on_time", _at_its_time)],
    "T6 an edit may file late": lambda: [(Filing, "next_key", _next_after_command)],
    "T6 a successor chosen by now is not named": lambda: [_wrapped(Successors, "derive_again", _derive_ignoring_names)],
    "T7 nothing is derived again": lambda: [(ShardEngine, "_derive_again", _nothing)],
    "T8 an insert wins over a delete": lambda: [(MemoryTables, "apply", _insert_over_delete)],
    "T9 a snapshot lists only the last row that it replaces": lambda: [(Filing, "replaced_by_next", _only_the_present)],
    "T9 a new owner writes nothing again": lambda: [(ShardEngine, "adopt_jobs", _adopt_nothing)],
    "T10 successors count as stored when they are committed": lambda: [
        _wrapped(ShardEngine, "_watermarks", _stored_at_once)
    ],
    "T11 no voids": lambda: [(Filing, "_shadow", _nothing)],
    "T11 voids are forgotten soon": lambda: [_wrapped(ShardState, "forget_passed", _forget_all_voids)],
    "T12 what is committed for a minute that is being read stays out": lambda: [
        (Outbox, "unacknowledged_inserts", lambda self, minute: iter(())),
        (Horizon, "has_begun", lambda self, minute: minute * MINUTE + MINUTE <= self.loaded_upto),
    ],
    "T13 a minute that cannot be read stops nothing": lambda: [
        (Horizon, "loaded_upto", property(lambda self: 1 << 60))
    ],
    "T14 a job that is not in memory is taken for missing": lambda: [(JobRows, "get", _row_taken_for_missing)],
    "T14 every made id counts as new": lambda: [(FreshIds, "is_new", lambda self, job_id, now: True)],
    "T14 what is due goes on past parked commands": lambda: [_wrapped(FiringDesk, "_decide", _fire_past_parked)],
    "T15 a misplaced command is decided where it came": lambda: [
        (command_reader, "shard_of", lambda job_id, shards: 0)
    ],
    "T18 now is not held at the broker's time": lambda: [(BrokerClock, "now", BrokerClock.local)],
    "T19 verdicts are made before the reports are read": lambda: [(ReportDesk, "read_upto", _judge_at_once)],
    "T21 the end of a log is its stable end": lambda: [(SimTakeover, "end", _stable_end)],
    "T22 memory is kept over a loss": lambda: [(TriggerLoop, "_note_assignment", _note_without_forgetting)],
    "T23 an aborted turn is not sent again": lambda: [(TriggerLoop, "_send_again", _drop_unsent)],
    "T23 a commit of unknown outcome counts as aborted": lambda: [_wrapped(SimShardLog, "_end", _unknown_is_aborted)],
    "T8 index before commit": lambda: [_wrapped(TriggerLoop, "_commit", _write_before_commit)],
    "W0 a stale token is accepted": lambda: [(ReportDesk, "_under_own_head", _any_token)],
    "W0 what waits is still current": lambda: [_wrapped(ReportDesk, "_decide", _waiting_is_current)],
    "W0 a redelivery is not marked": lambda: [(ReportDesk, "_wait_after_loss", _loss_unmarked)],
    "W1 the highest offset seen is committed": lambda: [(OffsetWindow, "prefix", property(_highest_seen))],
    "W1 the settled set is not written": lambda: [_wrapped(OffsetWindow, "metadata", _metadata_without("_settled"))],
    "W2 the begun list is not written": lambda: [_wrapped(OffsetWindow, "metadata", _metadata_without("_begun"))],
    "W2 start, then mark": lambda: [_wrapped(WorkerLoop, "_commit_and_start", _start_before_mark)],
    "W3 a commit of unknown outcome is followed by others": lambda: [_wrapped(Lane, "commit", _never_suspect)],
    "W4 settle before the report is acknowledged": lambda: [_wrapped(Attempts, "_close", _settle_at_once)],
    "W5 an assignment goes on with an old one's items": lambda: [_wrapped(Lane, "assigned", _same_partition_again)],
    "W6 a revoke settles what has no lease": lambda: [(Attempts, "hand_over", _settle_at_revoke)],
    "W7 a successor runs what its predecessor had begun": lambda: [
        _wrapped(Partition, "enqueue", _begun_counts_for_new)
    ],
    "W7 any return ends a lease": lambda: [_wrapped(ReportDesk, "_returned", _any_return_counts)],
    "W10 a process is silent after four seconds": lambda: [(FleetWatch, "_is_silent", _silent_soon)],
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


@contextmanager
def mutation(name: str | None) -> Iterator[None]:
    """Break a rule meanwhile."""
    if name is None:
        with nullcontext():
            yield
        return
    patches = MUTANTS[name]()
    former = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    for owner, attribute, instead in patches:
        setattr(owner, attribute, instead)
    try:
        yield
    finally:
        for owner, attribute, real in former:
            setattr(owner, attribute, real)
