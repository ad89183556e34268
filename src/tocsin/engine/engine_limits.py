"""The bounds of an owner's step, in one place: what one shard may do, hold and leave unfinished."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tocsin.engine.catch_up import CatchUpLimits
from tocsin.engine.horizon import HorizonLimits
from tocsin.engine.parking import ParkingLimits
from tocsin.engine.passed_buckets import PassedLimits
from tocsin.engine.retry_pauses import RetryPauseLimits
from tocsin.engine.ring import DELTA_RING


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Bounds of one step of one shard.

    Attributes:
        fires_max: executions dispatched in one step.
        fire_bytes_max: their bytes, roughly.
        plain_fires_min: so many that are due together are dispatched in one go; at least 2, so that a single one can be
            blamed for a failure.
        owed_min: what follows so many fires is filed in the next step, after they are out.
        retry_bytes_max: bytes of what is dispatched again in one step, roughly.
        reports_max, report_bytes_max: reports decided in one step, and about how many bytes they and verdicts lead to.
        commands_max, command_bytes_max: commands decided in one step, and their bytes.
        unwritten_turns_max, unwritten_bytes_max: with so many turns, or so many bytes of rows, unacknowledged by the
            store, commands wait.
        work_portions_max, work_bytes_max: what work items do in one step, and its bytes.
        catch_up: how fast missed occurrences are run.
        delta_bytes_max: size of a part of a delta, and of a chunk of a snapshot.
        returned_per_s: dispatches of one tenant that workers gave back, and that go out again in one second.
        retry_pause: when the retries of a tenant pause.
        outlived_after_s: what is queued so long nearly outlived its lane's topic, and is dispatched again.
        outlived_look_s: how often that is looked for; much shorter than the day that is left then.
        alerts_max: of one turn that are told one by one; the rest is summed up.
        alert_gap_s: how far apart alerts are by which one job asks to be told of the same.
        zone_change_after_s: how long after an owner has found other zone data than its shard's those count.
        overlap_queue_max: executions of a job, or of a concurrency group, that may stand behind others.
        overlap_allow_max: executions of a job that may be active beside one another, where it allows that.
        cursor_persist_s: an idle shard writes its cursor this often.
        horizon: how far ahead the index is read.
        max_reaps: so many deaths of processes that ran an execution alone make it a dead letter.
        passed: how long its passed minutes are kept.
        parking: how many commands wait for a silent store in the state.
        ring: deltas kept; changed only by tests.
    """

    fires_max: int = 5_000
    fire_bytes_max: int = 16_000_000
    plain_fires_min: int = 8
    owed_min: int = 100
    retry_bytes_max: int = 8_000_000
    reports_max: int = 5_000
    report_bytes_max: int = 8_000_000
    commands_max: int = 1_000
    command_bytes_max: int = 8_000_000
    unwritten_turns_max: int = 10_000
    unwritten_bytes_max: int = 64_000_000
    work_portions_max: int = 500
    work_bytes_max: int = 4_000_000
    catch_up: CatchUpLimits = field(default_factory=CatchUpLimits)
    delta_bytes_max: int = 512_000
    returned_per_s: int = 500
    retry_pause: RetryPauseLimits = field(default_factory=RetryPauseLimits)
    outlived_after_s: float = 6 * 86_400.0
    outlived_look_s: float = 600.0
    alerts_max: int = 20
    alert_gap_s: float = 60.0
    zone_change_after_s: float = 600.0
    overlap_queue_max: int = 100
    overlap_allow_max: int = 10_000
    cursor_persist_s: float = 10.0
    horizon: HorizonLimits = field(default_factory=HorizonLimits)
    max_reaps: int = 3
    passed: PassedLimits = field(default_factory=PassedLimits)
    parking: ParkingLimits = field(default_factory=ParkingLimits)
    ring: int = DELTA_RING

    def portion(self, divisor: int) -> EngineLimits:
        """Return limits that do so many times less in a step; 0: one thing."""

        def share(bound: int) -> int:
            return max(1, bound // divisor) if divisor else 1

        return replace(
            self,
            fires_max=share(self.fires_max),
            commands_max=share(self.commands_max),
            reports_max=share(self.reports_max),
            work_portions_max=share(self.work_portions_max),
        )
