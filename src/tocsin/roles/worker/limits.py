"""The bounds of a worker process, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.engine.circuit_breaker import BreakerLimits
from tocsin.engine.offset_metadata import BEGUN_MAX, WINDOW_MAX


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Bounds of the worker's loop.

    Attributes:
        running_max: attempts under way at once, over all lanes.
        tenant_running_max: those of one tenant; None: as many as are still free, so at most half of them.
        cap_patience_s: how long fetching is held up by what waits behind its tenant's share, before it is given back.
        breaker: when a target's breaker opens.
        breakers_kept_max: targets of tenants that are watched.
        read_ahead_bytes_max: keys and values that wait to be started, in each lane, before fetching pauses.
        read_ahead_records_max: the same in records.
        window_max, begun_max: see ``OffsetWindow``.
        poll_wait_max_s: how long an idle step waits for records, and how late it sees an attempt's end.
        commit_fresh_s: an attempt starts only if the acknowledged commit was sent at most so long ago.
        lease_after_s: how long an attempt lasts before it is reported as RUNNING.
        handover_wait_s: how long a revoked partition waits for leases and reports.
        suspect_max_s: how long, after a commit of unknown outcome, leases may take before the group is left.
        overdue_s: how long past its own limit an attempt counts as stoppable.
        stuck_attempts_max: attempts that could not be stopped, before the process must start again.
        cancels_kept_max: cancelled executions that are remembered.
    """

    running_max: int = 200
    tenant_running_max: int | None = None
    cap_patience_s: float = 0.5
    breaker: BreakerLimits = field(default_factory=BreakerLimits)
    breakers_kept_max: int = 10_000
    read_ahead_bytes_max: int = 8_000_000
    read_ahead_records_max: int = 2_000
    window_max: int = WINDOW_MAX
    begun_max: int = BEGUN_MAX
    poll_wait_max_s: float = 0.05
    commit_fresh_s: float = 5.0
    lease_after_s: float = 5.0
    handover_wait_s: float = 3.0
    suspect_max_s: float = 20.0
    overdue_s: float = 10.0
    stuck_attempts_max: int = 16
    cancels_kept_max: int = 500_000
