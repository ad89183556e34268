"""Dispatches executions: the first time when they are due, again after a failure or a loss.

Every source of fires passes here; whether it may start is decided before, in one place: see ``overlap``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tocsin.domain.alert_on import AlertOn
from tocsin.domain.catch_up import SkipReason
from tocsin.domain.entries import Entry
from tocsin.domain.errors import Fault, Undecodable
from tocsin.domain.executions import ExecutionEvent, ExecutionState, dispatch_key
from tocsin.domain.firing import Passed, plan_of
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.ids import execution_id as make_execution_id
from tocsin.domain.ids import parse_execution_id
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job
from tocsin.domain.pools import pool_of_lane, unknown_pool
from tocsin.domain.recurrence import CronError
from tocsin.domain.schedules import micros_of
from tocsin.domain.shard_records import Active, Phase
from tocsin.domain.sharding import lane_partition, tenant_partitions
from tocsin.domain.targets import Target, lane_of, pool_of
from tocsin.engine import dead_letters
from tocsin.engine.actives import Actives
from tocsin.engine.alerts import tell_skip
from tocsin.engine.effects import Step
from tocsin.engine.retry_pauses import RetryPauses
from tocsin.engine.suspects import EXECUTION, Suspect
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import EVENTS, JOBS, NewRecord, executions

INDEX = "schedule_index"
"""What a dead letter names as the place of a damaged row."""
SMALLEST_EXECUTION_BYTES = 20
"""A fingerprint, a stamp and the empty fields behind it."""
LANE_MISSING_PAUSE: Micros = 30 * SECOND
"""How long an execution waits before its missing lane is looked at again."""
RELEASED_AT_ONCE = 64
"""Executions looked at together when what waited is dispatched again; bodies may be large."""


Route = tuple[str, Sequence[int]]
"""A lane's topic, and which of its partitions serve a tenant; a job's id decides among them."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """How executions are spread.

    Attributes:
        partitions: of each lane. Those of pools come as they are found.
        tenant_spread: how many of them serve one tenant.
        missing: lanes whose topic is not there; what is due in them waits in the state. Its owner's loop keeps it.
    """

    partitions: dict[str, int]
    tenant_spread: int = 8
    missing: set[str] = field(default_factory=set)

    def lacks(self, lane: str) -> bool:
        """Tell whether nothing can be published in a lane now: its topic is gone, or its pool was not found yet."""
        return lane in self.missing or lane not in self.partitions

    def pools(self) -> list[str]:
        """Return the pools that were ever found."""
        return [pool for lane in self.partitions if (pool := pool_of_lane(lane)) is not None]


class DispatchDesk:
    """The dispatches of one shard."""

    def __init__(self, shard: int, actives: Actives, codec: RecordCodec, lanes: Lanes, pauses: RetryPauses) -> None:
        self._shard = shard
        self._actives = actives
        self._codec = codec
        self._lanes = lanes
        self._pauses = pauses
        self._topics = {lane: executions(lane) for lane in lanes.partitions}

    def admits_any(self, execution_id: str) -> bool:
        """Tell whether nothing of an execution's job has not ended."""
        return not self._actives.has_job_of(execution_id)

    def is_running(self, job: Job) -> bool:
        """Tell whether an execution of a job has not ended."""
        return bool(self._actives.of_job(f"{job.job_id}.{job.created_version}"))

    def without_retries(self, step: Step, execution_id: str) -> None:
        """Let an attempt that runs be the last one."""
        active = self._known(execution_id)
        decoded = self._codec.decode_execution(active.execution)
        if decoded.retry is not None:
            execution = self._codec.encode_execution(
                decoded.head,
                decoded.target,
                attempts_before=decoded.attempts_before,
                redrives=decoded.redrives,
                delivery=decoded.delivery,
                max_duration_s=decoded.max_duration_s,
                alert_on=decoded.alert_on,
            )
            self.change(step, execution_id, active._replace(execution=execution))

    def _known(self, execution_id: str) -> Active:
        active = self._actives.get(execution_id)
        assert active is not None, "the index by job names only what is active"
        return active

    def pool_fault(self, target: Target) -> Fault | None:
        """Tell that a target names a pool that does not exist."""
        pool = pool_of(target)
        if pool is None or lane_of(target) in self._lanes.partitions:
            return None
        return unknown_pool(pool, self._lanes.pools())

    def is_active(self, execution_id: str) -> bool:
        """Tell whether this very execution was dispatched and has not ended."""
        return self._actives.get(execution_id) is not None

    def fault_of(self, entry: Entry) -> str | None:
        """Tell what keeps a row of the store from being fired; None where it is sound. A damaged row must not stop its
        shard, and is looked at as it is loaded: at fire time every microsecond counts."""
        if (fault := self.fault_of_lane(entry.lane)) is not None:
            return fault
        if len(entry.execution) < SMALLEST_EXECUTION_BYTES:
            return "its execution is no record"
        try:
            if self._codec.decode_head(entry.execution).execution_id != entry.execution_id:
                return "its execution is another's"
            plan_of(entry.plan)
            parse_execution_id(entry.execution_id)
        except (CronError, Undecodable, ValueError, TypeError, KeyError) as error:
            return f"it cannot be read: {type(error).__name__}: {error}"
        return None

    def fault_of_lane(self, lane: str) -> str | None:
        """Tell that a lane is unknown here."""
        if lane in self._lanes.partitions or pool_of_lane(lane) is not None:
            return None
        return f"its lane {lane[:64]!r} is not one of this cluster's"

    def ends_job(self, execution_id: str) -> bool:
        """Tell whether an execution is active with whose end its job may end."""
        active = self._actives.get(execution_id)
        return active is not None and active.last

    def set_aside(self, step: Step, entry: Entry, fault: str, *, bare: bool = False) -> None:
        """Make a dead letter of a row that cannot be fired; ``bare``: without its bytes."""
        value = b"" if bare else entry.execution[:DEAD_LETTER_BYTES_MAX]
        letter = DeadLetter(
            "entry", fault[:1000], step.now, INDEX, self._shard, 0, value,
            entry.tenant_id, entry.job_id, entry.execution_id,
        )  # fmt: skip
        dead_letters.set_aside(step, self._codec, self._shard, entry.job_id, letter)

    def tell_of_job(self, step: Step, job_id: str, fault: str) -> None:
        """Make a dead letter that names a job whose snapshot cannot be taken over."""
        letter = DeadLetter("record", fault, step.now, JOBS, self._shard, 0, b"", job_id=job_id)
        dead_letters.set_aside(step, self._codec, self._shard, job_id, letter)

    def fire(
        self,
        step: Step,
        stamp: bytes,
        tenant_id: str,
        job_id: str,
        execution_id: str,
        lane: str,
        execution: bytes,
        max_duration: Micros | None = None,
        *,
        last: bool = False,
    ) -> int:
        """Dispatch an execution for the first time; return the size of its record.

        ``max_duration``: how long it may take, µs, as its record says too; None: as long as its attempts do.
        ``last``: it is the last of its job.
        """
        value = self._codec.restamp(execution, stamp)
        if self._lanes.lacks(lane):
            wake_at = step.now + LANE_MISSING_PAUSE
            self.change(step, execution_id, Active(value, step.now, Phase.WAITING, wake_at, 1, last=last))
            return len(value)
        self._publish(step, tenant_id, job_id, execution_id, lane, 1, value)
        if max_duration is not None:
            self.change(step, execution_id, Active(value, step.now, ends_by=step.now + max_duration, last=last))
            return len(value)
        if last:
            step.dispatched_last.append(value)
            self._actives.begin(execution_id, Active(value, step.now, last=True))
        else:
            step.dispatched.append(value)
            self._actives.begin(execution_id, Active(value, step.now))
        return len(value)

    def route(self, lane: str, tenant_id: str) -> Route | None:
        """Return where a tenant's executions go in a lane; None where nothing can be published in it."""
        if self._lanes.lacks(lane):
            return None
        return self._topic(lane), tenant_partitions(tenant_id, self._lanes.partitions[lane], self._lanes.tenant_spread)

    def skip(
        self,
        step: Step,
        execution: bytes,
        stamp: bytes,
        reason: SkipReason,
        alert_on: Collection[AlertOn],
        passed: Passed | None = None,
    ) -> None:
        """Publish that an occurrence, or a range that begins with it, is not run; alert people if its job wants it."""
        value = self._codec.restamp(execution, stamp)
        head, head_bytes = self._codec.split_head(value)
        more = passed is not None and not passed.exact
        event = ExecutionEvent(
            head,
            ExecutionState.SKIPPED,
            step.now,
            step.now,
            reason=reason,
            skipped_upto=None if passed is None else passed.last,
            skipped_count=1 if passed is None else passed.size,
            skipped_more=more,
            result=f"more than {passed.size} times" if passed is not None and more else None,
        )
        record = self._codec.encode_event(head_bytes, event)
        step.records.append(NewRecord(EVENTS, self._shard, head.execution_id, record))
        count = event.skipped_count or 0
        step.tally.completed["SKIPPED"] = step.tally.completed.get("SKIPPED", 0) + count
        tell_skip(step, head, reason, count, alert_on)
        step.turn = True

    def skip_range(
        self, step: Step, execution: bytes, passed: Passed, reason: SkipReason, alert_on: Collection[AlertOn]
    ) -> None:
        """Publish that a range of a job's occurrences is not run, given the execution of any of them."""
        head, _ = self._codec.split_head(execution)
        created_version = parse_execution_id(head.execution_id).created_version
        execution_id = make_execution_id(head.job_id, created_version, passed.first)
        head = head._replace(execution_id=execution_id, scheduled_for=passed.first, due_at=passed.first)
        stamp = self._codec.stamp(1, step.number, 0)
        self.skip(step, self._codec.rehead(execution, head), stamp, reason, alert_on, passed)

    def let_go(self, step: Step, execution_id: str) -> None:
        """Let an execution that stands behind others go on, as if it had waited for a retry."""
        one = self._known(execution_id)
        self.change(step, execution_id, one._replace(phase=Phase.WAITING, wake_at=max(step.now, one.wake_at)))

    def release(self, step: Step, limit: int, bytes_max: int, takes: Callable[[Step, str], bool]) -> int:
        """Dispatch again what waited long enough, up to so many and about so many bytes; return how many.

        ``takes``: tells of one that it ends instead, and has ended it.
        """
        upto, count = step.bytes + bytes_max, 0
        while count < limit and step.bytes < upto:
            due = self._actives.due(step.now, Phase.WAITING, min(RELEASED_AT_ONCE, limit - count))
            if not due:
                break
            for execution_id in due:
                if step.bytes >= upto:
                    self._actives.wake_again(execution_id)
                    continue
                step.at_hand = Suspect(EXECUTION, execution_id)
                if not takes(step, execution_id):
                    self._dispatch_again(step, execution_id)
                count += 1
        return count

    def change(self, step: Step, execution_id: str, one: Active) -> None:
        """Change what is known of an execution, so that it lasts."""
        self._actives.put(execution_id, one)
        step.changed[execution_id] = one
        step.bytes += len(one.execution)
        step.turn = True

    def _dispatch_again(self, step: Step, execution_id: str) -> None:
        waiting = self._actives.get(execution_id)
        assert waiting is not None and waiting.phase == Phase.WAITING, "stale timers are dropped"
        if waiting.ends_by is not None and waiting.ends_by <= step.now:
            # Its longest duration passed while nothing could be decided: the verdict on it is due, and ends it.
            return
        stamp = self._codec.stamp(waiting.next_attempt, step.number, waiting.next_losses)
        value = self._codec.restamp(waiting.execution, stamp)
        decoded = self._codec.decode_execution(value)
        head = decoded.head
        is_retry = head.attempt - decoded.attempts_before > 1
        if is_retry and self._pauses.hold(head.tenant_id, execution_id):
            return
        lane = lane_of(decoded.target)
        if self._lanes.lacks(lane):
            self.change(step, execution_id, waiting._replace(wake_at=step.now + LANE_MISSING_PAUSE))
            return
        self._publish(step, head.tenant_id, head.job_id, execution_id, lane, head.attempt, value)
        step.bytes += len(value)
        step.tally.redelivered += head.losses > 0
        ends_by = waiting.ends_by
        if ends_by is None and decoded.max_duration_s is not None:
            ends_by = step.now + micros_of(decoded.max_duration_s)
        again = Active(
            value, step.now, returns=waiting.returns, reaps=waiting.reaps, ends_by=ends_by, last=waiting.last
        )
        self.change(step, execution_id, again)

    def _publish(
        self, step: Step, tenant_id: str, job_id: str, execution_id: str, lane: str, attempt: int, value: bytes
    ) -> None:
        partition = lane_partition(tenant_id, job_id, self._lanes.partitions[lane], self._lanes.tenant_spread)
        key = dispatch_key(tenant_id, execution_id, attempt, step.number)
        step.records.append(NewRecord(self._topic(lane), partition, key, value))

    def _topic(self, lane: str) -> str:
        return self._topics.get(lane) or self._topics.setdefault(lane, executions(lane))
