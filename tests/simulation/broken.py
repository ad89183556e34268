"""What stands in place of a function where a rule is left out; see ``mutants``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.policies import DeliveryPolicy, Overlap
from tocsin.domain.shard_records import Phase
from tocsin.engine import report_desk
from tocsin.engine.actives import job_of
from tocsin.engine.job_rows import JobRows, KnownRow
from tocsin.engine.offset_window import Seen
from tocsin.engine.overlap import Way
from tocsin.ports.dispatch_log import CommitOutcome
from tocsin.ports.schedule_store import StoreWrites
from tocsin.ports.shard_log import WORKER_CONTROL

Patch = tuple[Any, str, Any]
"""Owner, name and what stands there instead."""


def wrapped(owner: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    return owner, name, make(getattr(owner, name))


def nothing(*_args: Any, **_named: Any) -> None:
    """Leave it out."""


# The owner's turn


def delta_without_changes(real: Any) -> Any:
    def delta_records(codec: Any, state: Any, step: Any, *rest: Any) -> Any:
        changed, step.changed = step.changed, {}
        records = real(codec, state, step, *rest)
        step.changed = changed
        return records

    return delta_records


def delta_without_work(real: Any) -> Any:
    def delta_records(codec: Any, state: Any, step: Any, *rest: Any) -> Any:
        work, step.work = step.work, []
        records = real(codec, state, step, *rest)
        step.work = work
        return records

    return delta_records


def take_in_without_last(real: Any) -> Any:
    def take_in(state: Any, codec: Any, active: Any, *rest: Any) -> None:
        real(state, codec, [one._replace(last=False) for one in active], *rest)

    return take_in


def send_unnoted(real: Any) -> Any:
    def send(self: Any, step: Any, *given: Any, **named: Any) -> None:
        real(self, step, *given, **named)
        del self._state.work[step.work.pop().id]

    return send


def newest_chunks(chunks: list[Any]) -> list[Any]:
    newest = max((chunk.base for chunk in chunks), default=0)
    return sorted((chunk for chunk in chunks if chunk.base == newest), key=lambda chunk: chunk.index)


def admit_by_time(self: Any, entries: Any) -> None:
    cursor = self._state.cursor
    self._wheel.add(entry for entry in entries if entry.run_at > cursor.run_at)


def admit_rows_by_time(self: Any, step: Any, rows: Any) -> None:
    admit_by_time(self, rows)


def at_its_time(self: Any, job_id: str, version: int, scheduled_for: int) -> EntryKey:
    return EntryKey(scheduled_for, job_id, version, scheduled_for)


def next_after_command(self: Any, job: Any, command_at: int) -> EntryKey | None:
    at = self.plan(job).next_after(command_at)
    return None if at is None else self.late_or_on_time(job.job_id, job.version, at)


def derive_ignoring_names(real: Any) -> Any:
    def derive_again(self: Any, entry: Entry) -> Entry | None:
        named, self._state.named = self._state.named, {}
        try:
            return real(self, entry)  # type: ignore[no-any-return]
        finally:
            self._state.named = named

    return derive_again


def adopt_nothing(self: Any, snapshots: Any, jobs_end: int) -> StoreWrites:
    return StoreWrites()


def insert_over_delete(self: Any, shard: int, writes: StoreWrites) -> None:
    for entry in writes.inserts:
        self._deleted.discard((shard, entry.key))
    apply(self, shard, writes)


apply = MemoryTables.apply


def only_the_present(self: Any, former: Any) -> tuple[EntryKey, ...]:
    present = self.present_key(former)
    return (present,) if present is not None else ()


def stored_at_once(real: Any) -> Any:
    def watermarks(self: Any, step: Any) -> None:
        real(self, step)
        self.state.successors_upto = max(self.state.successors_upto, self.state.cursor)

    return watermarks


def forget_all_voids(real: Any) -> Any:
    def forget_passed(self: Any) -> None:
        real(self)
        self.voids.clear()

    return forget_passed


def following_by_present_data(self: Any, text: str, job_id: str, scheduled_for: int, place: Any) -> int | None:
    if place > self._state.cursor:
        return scheduled_for
    return self.plan(text).first_past(scheduled_for, job_id, self._state.cursor)


def row_taken_for_missing(self: Any, job_id: str) -> KnownRow:
    return get(self, job_id) or KnownRow(None, None, 0)


get = JobRows.get


def judge_at_once(self: Any, seen: int) -> int:
    return 1 << 60


def outlive_in_silence(real: Any) -> Any:
    def outlive(self: Any, step: Any, execution_id: str) -> None:
        real(self, step, execution_id)
        step.records[:] = [record for record in step.records if record.topic != WORKER_CONTROL]

    return outlive


def stable_end(self: Any, topic: str, shard: int) -> int:
    return self._broker.partition(topic, shard).stable_end()  # type: ignore[no-any-return]


def note_without_forgetting(self: Any, polled: Any) -> None:
    self._owned -= polled.lost
    self._owned |= polled.assigned


def drop_unsent(self: Any) -> None:
    self._unsent = {}


def unknown_is_aborted(real: Any) -> Any:
    from tocsin.domain.errors import OwnershipLost, TurnAborted

    def end(self: Any, transaction: Any) -> None:
        try:
            real(self, transaction)
        except OwnershipLost as error:
            # As a client would that begins a new producer under the same id, and sends the turn again.
            self._handle = self._broker.init(transaction.handle.producer_id)
            raise TurnAborted(str(error)) from error

    return end


def write_before_commit(real: Any) -> Any:
    def commit(self: Any, steps: Any) -> None:
        for shard, step in steps.items():
            if step.writes():
                self._store.begin_writes(shard, step.number, step.writes())
        real(self, steps)

    return commit


def replace_without_waiting(real: Any) -> Any:
    def admit(self: Any, step: Any, execution_id: str, overlap: Any) -> Any:
        way = real(self, step, execution_id, overlap)
        return Way.FREE if way is Way.BEHIND and overlap is Overlap.REPLACE else way

    return admit


def release_the_newest(self: Any) -> str | None:
    for shared in self._free:
        return list(self._behind[shared])[-1]
    return None


def group_of_nobody(execution_id: str) -> str:
    return execution_id.split("~")[-1].rsplit(".", 1)[0] if "~" in execution_id else job_of(execution_id)


def restore_without_the_queue(real: Any) -> Any:
    def take_in(state: Any, codec: Any, active: Any, voids: Any, named: Any) -> None:
        real(state, codec, [one for one in active if one.phase != Phase.BEHIND], voids, named)

    return take_in


def end_in_silence(real: Any) -> Any:
    def begin(self: Any, step: Any, execution_id: str, reason: str) -> Any:
        at_once = real(self, step, execution_id, reason)
        step.records[:] = [record for record in step.records if record.topic != WORKER_CONTROL]
        return at_once

    return begin


def go_on_though_ending(self: Any, step: Any, report: Any, kind: Any, active: Any) -> bool:
    return False


def restore_without_endings(real: Any) -> Any:
    def take_in(state: Any, codec: Any, active: Any, voids: Any, named: Any) -> None:
        real(state, codec, [one._replace(ending=None) for one in active], voids, named)

    return take_in


# The worker


def any_token(self: Any, report: Any, active: Any) -> Any:
    head, head_bytes = self._codec.split_head(active.execution)
    return replace(report, head=head, head_bytes=head_bytes)


def waiting_is_current(real: Any) -> Any:
    def decide(self: Any, step: Any, report: Any, kind: Any, place: Any) -> None:
        execution_id = report.head.execution_id
        active = self._actives.get(execution_id)
        if active is None or active.phase != Phase.WAITING or self._under_own_head(report, active) is None:
            real(self, step, report, kind, place)
            return
        current = active._replace(phase=Phase.QUEUED)
        self._actives.put(execution_id, current)
        real(self, step, report, kind, place)
        if self._actives.get(execution_id) is current:
            self._actives.put(execution_id, active)

    return decide


def loss_unmarked(real: Any) -> Any:
    def lost(self: Any, step: Any, report: Any, active: Any, *rest: Any) -> None:
        execution = self._codec.decode_execution(active.execution)
        if not execution.is_repeatable:
            real(self, step, report, active, *rest)
            return
        head = execution.head
        waiting = active._replace(
            phase=Phase.WAITING, wake_at=step.now, next_attempt=head.attempt, next_losses=head.losses, holder=None
        )
        self._dispatches.change(step, head.execution_id, waiting)

    return lost


def any_failure_may_be_repeated(execution: Any, kind: Any, error: Any, made: int) -> str | None:
    return why_final(execution._replace(delivery=DeliveryPolicy.AT_LEAST_ONCE), kind, error, made)


why_final = report_desk._why_final


def lost_as_ever(real: Any) -> Any:
    def lost(self: Any, step: Any, report: Any, active: Any, *rest: Any) -> None:
        codec, self._codec = self._codec, AtLeastOnce(self._codec)
        try:
            real(self, step, report, active, *rest)
        finally:
            self._codec = codec

    return lost


class AtLeastOnce:
    """A codec that reads every execution as one that may be repeated."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def decode_execution(self, value: bytes) -> Any:
        return self._codec.decode_execution(value)._replace(delivery=DeliveryPolicy.AT_LEAST_ONCE)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)


def highest_seen(self: Any) -> int:
    return self._position  # type: ignore[no-any-return]


def of_what_is_ahead(self: Any, prefix: int, *groups: Any) -> list[int]:
    return [offset - prefix for group in groups for offset in group if offset >= prefix]


def metadata_without(part: str) -> Callable[[Any], Any]:
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


def start_before_mark(real: Any) -> Any:
    def commit_and_start(self: Any, lane: Any) -> int:
        self._attempts.take(lane.take_marked())
        return real(self, lane)  # type: ignore[no-any-return]

    return commit_and_start


def never_suspect(real: Any) -> Any:
    def commit(self: Any) -> CommitOutcome:
        marked = list(self.marked)
        stages = [item.stage for item in marked]
        outcome: CommitOutcome = self._commit([p for p in self.partitions.values() if p.changed], released=False)
        assert len(stages) == len(marked)
        return outcome

    return commit


def settle_at_once(real: Any) -> Any:
    def close(self: Any, item: Any, job_id: str, report: bytes) -> None:
        real(self, item, job_id, report)
        item.partition.settle(item)

    return close


def same_partition_again(real: Any) -> Any:
    def assigned(self: Any, starts: Any) -> None:
        kept = self.__dict__.setdefault("_kept", {})
        real(self, [start for start in starts if start.partition not in kept])
        for start in starts:
            if start.partition in kept:
                self.partitions[start.partition] = kept[start.partition]
                kept[start.partition].live = True
        kept.update(self.partitions)

    return assigned


def settle_what_was_dropped(real: Any) -> Any:
    """What an old assignment had in hand was dropped with it; settling it must not break the mutant itself."""

    def settle(self: Any, item: Any) -> None:
        self.in_hand.setdefault(item.offset, item)
        real(self, item)

    return settle


def settle_at_revoke(self: Any, partitions: Any, reason: str) -> None:
    for partition in partitions:
        for item in partition.running():
            partition.settle(item)


def begun_counts_for_new(real: Any) -> Any:
    def received(self: Any, offset: int) -> Seen:
        seen: Seen = real(self, offset)
        return Seen.NEW if seen is Seen.BEGUN else seen

    return received


def any_return_counts(real: Any) -> Any:
    def returned(self: Any, step: Any, report: Any, active: Any, *rest: Any) -> None:
        real(self, step, replace(report, worker_id=active.holder or report.worker_id), active, *rest)

    return returned


def without_doubt(real: Any) -> Any:
    def predecessor(self: Any, start: Any) -> Any:
        return real(self, start)._replace(doubt=0)

    return predecessor


def silent_soon(self: Any, holder: str, now: int) -> bool:
    known = self._processes.get(holder)
    return known is None or now - known.last_seen >= 4_000_000
