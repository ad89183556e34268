"""All meters on one Prometheus registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from tocsin.adapters.metrics.batched_histogram import BatchedHistogram
from tocsin.domain.alerts import AlertKind
from tocsin.domain.letters import KINDS
from tocsin.engine.notification_desk import Fate

LATENESS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
OVERDUE_S = 60.0
"""So late, by default, an occurrence counts as missed."""
SKIPPED_KINDS = ("job", "event", "execution", "dead_letter")
DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class PrometheusMeter:
    """Fulfils every port of ``ports.meters``; a process uses the part that its role needs."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        r = self.registry
        self._lateness = BatchedHistogram(
            "tocsin_lateness_seconds", "Commit of an execution after its due time", LATENESS_BUCKETS, r
        )
        self._fired = Counter("tocsin_fired", "Executions committed", registry=r)
        self._early = Counter("tocsin_early", "Executions committed before they were due; must stay 0", registry=r)
        self._overdue = Counter(
            "tocsin_overdue", "Executions committed more than a minute after they were due", registry=r
        )
        self._turn = Histogram(
            "tocsin_turn_seconds", "Duration of an owner's transaction", buckets=DURATION_BUCKETS, registry=r
        )
        self._commands = Counter("tocsin_commands", "Commands decided", ["kind", "accepted"], registry=r)
        self._completed = Counter("tocsin_completed", "Executions that ended", ["state"], registry=r)
        self._stale = Counter("tocsin_stale_reports", "Reports under another than the current token", registry=r)
        self._redelivered = Counter("tocsin_redelivered", "Attempts that may have run before", registry=r)
        self._dead_letters = Counter("tocsin_dead_letters", "Dead letters written", ["kind"], registry=r)
        # A counter whose first value is 1 has grown by nothing, to those who compare values: each begins with 0.
        for kind in KINDS:
            self._dead_letters.labels(kind)
        self._alerts = Counter("tocsin_alerts", "What people were alerted to", ["kind"], registry=r)
        for alert_kind in AlertKind:
            self._alerts.labels(str(alert_kind))
        self._cursor_age = Gauge(
            "tocsin_cursor_age_seconds", "How far a shard's cursor is behind now", ["shard"], registry=r
        )
        self._unwritten = Gauge(
            "tocsin_unwritten_turns", "Turns whose index writes are not acknowledged", ["shard"], registry=r
        )
        self._owned = Gauge("tocsin_shards_owned", "Shards owned by this process", registry=r)
        self._shards = Gauge("tocsin_shards", "Shards of the cluster, as far as this process knows", registry=r)
        self._clock_off = Gauge(
            "tocsin_clock_off_seconds", "By how much this trigger's clock is certainly off; 0: good enough", registry=r
        )
        self._isolated = Gauge(
            "tocsin_shards_waiting", "Shards that fail each time, for which nothing can be blamed", registry=r
        )
        self._standing = Gauge("tocsin_shards_standing", "Own shards that cannot be restored", registry=r)
        self._lanes_missing = Gauge("tocsin_lanes_missing", "Lanes whose topics are not there", registry=r)
        self._pools_idle = Gauge(
            "tocsin_pools_idle", "Pools in which work waits and that no living worker serves", registry=r
        )
        self._started = Counter("tocsin_attempts_started", "Attempts started", ["redelivered"], registry=r)
        self._attempts = BatchedHistogram(
            "tocsin_attempt_seconds", "Duration of attempts", DURATION_BUCKETS, r, label="kind"
        )
        self._reported = Counter("tocsin_reports_acknowledged", "Reports acknowledged by the log", registry=r)
        self._leased = Counter("tocsin_attempts_leased", "Attempts reported as going on", registry=r)
        self._returned = Counter(
            "tocsin_dispatches_returned",
            "Dispatches given back to their owners; cap and breaker: without having started",
            ["reason"],
            registry=r,
        )
        self._breakers = Gauge(
            "tocsin_breakers_open", "Targets that fail as a whole and are kept away from", registry=r
        )
        self._running = Gauge("tocsin_attempts_running", "Attempts under way", registry=r)
        self._unsettled = Gauge("tocsin_offsets_unsettled", "Records received and not settled", registry=r)
        self._commit = Histogram(
            "tocsin_offset_commit_seconds", "Duration of offset commits", buckets=DURATION_BUCKETS, registry=r
        )
        self._commit_max_s = 0.0
        self._commit_max = Gauge(
            "tocsin_offset_commit_seconds_max", "Longest offset commit of this process", registry=r
        )
        self._commits_refused = Counter("tocsin_offset_commits_refused", "Offset commits refused", registry=r)
        self._undecodable = Counter(
            "tocsin_undecodable_executions", "Execution records that could not be read", registry=r
        )
        self._output_kept = Counter("tocsin_output_bytes", "Output of attempts written to the store", registry=r)
        self._output_lost = Counter(
            "tocsin_output_lost_bytes", "Output of attempts that was not kept: too much, or a slow store", registry=r
        )
        self._projected = Counter("tocsin_projected", "Records filed into the views", ["kind"], registry=r)
        self._lag = Gauge("tocsin_lag_records", "Records that a consumer has not handled yet", ["topic"], registry=r)
        self._skipped = Counter("tocsin_projection_skipped", "Records that could not be read", ["kind"], registry=r)
        for kind in SKIPPED_KINDS:
            self._skipped.labels(kind)
        for redelivered in ("false", "true"):
            self._started.labels(redelivered)
        self._requests = Histogram(
            "tocsin_request_seconds",
            "REST requests",
            ["method", "route", "status"],
            buckets=DURATION_BUCKETS,
            registry=r,
        )
        self._missing = Counter(
            "tocsin_reconciler_missing", "Occurrences that were decided and that history lacks", registry=r
        )
        self._reconciled_age = Gauge(
            "tocsin_reconciler_age_seconds", "Age of the oldest minute that no reconciler has judged", registry=r
        )
        self._notified = Counter(
            "tocsin_notifications", "What became of alerts that were to be posted", ["outcome"], registry=r
        )
        for fate in Fate:
            self._notified.labels(str(fate))
        self._notifications_waiting = Gauge(
            "tocsin_notifications_waiting", "Alerts that are neither delivered nor given up", registry=r
        )
        self._pending = Gauge("tocsin_requests_waiting", "Requests waiting for an outcome", registry=r)

    def fired(self, shard: int, lateness_s: list[float]) -> None:
        self._fired.inc(len(lateness_s))
        self._lateness.observe_all(lateness_s)
        if min(lateness_s, default=0) < 0:
            self._early.inc(sum(lateness < 0 for lateness in lateness_s))
        if max(lateness_s, default=0) > OVERDUE_S:
            self._overdue.inc(sum(lateness > OVERDUE_S for lateness in lateness_s))

    def turn(self, duration_s: float) -> None:
        self._turn.observe(duration_s)

    def command_decided(self, kind: str, accepted: bool) -> None:
        self._commands.labels(kind, str(accepted).lower()).inc()

    def completed(self, state: str, count: int) -> None:
        self._completed.labels(state).inc(count)

    def stale_reports(self, count: int) -> None:
        self._stale.inc(count)

    def redelivered(self, count: int) -> None:
        self._redelivered.inc(count)

    def dead_letters(self, kind: str, count: int) -> None:
        self._dead_letters.labels(kind).inc(count)

    def alerted(self, kind: str, count: int) -> None:
        self._alerts.labels(kind).inc(count)

    def cursor_age(self, shard: int, age_s: float) -> None:
        self._cursor_age.labels(shard).set(age_s)

    def unwritten_turns(self, shard: int, count: int) -> None:
        self._unwritten.labels(shard).set(count)

    def isolated(self, shards: int) -> None:
        self._isolated.set(shards)

    def pools_idle(self, count: int) -> None:
        self._pools_idle.set(count)

    def standing(self, shards: int) -> None:
        self._standing.set(shards)

    def lanes_missing(self, count: int) -> None:
        self._lanes_missing.set(count)

    def owned(self, shards: int) -> None:
        self._owned.set(shards)

    def gone(self, shard: int) -> None:
        for gauge in (self._cursor_age, self._unwritten):
            with suppress(KeyError):
                gauge.remove(shard)

    def shards(self, count: int) -> None:
        """Say how many shards the cluster has."""
        self._shards.set(count)

    def clock_off(self, off_by_s: float) -> None:
        self._clock_off.set(off_by_s)

    def started(self, first: int, redelivered: int) -> None:
        self._started.labels("false").inc(first)
        if redelivered:
            self._started.labels("true").inc(redelivered)
            self._redelivered.inc(redelivered)

    def finished(self, kind: str, durations_s: Sequence[float]) -> None:
        self._attempts.observe_all(durations_s, str(kind))

    def reported(self, count: int) -> None:
        self._reported.inc(count)

    def leased(self, count: int) -> None:
        self._leased.inc(count)

    def returned(self, reason: str, count: int) -> None:
        self._returned.labels(reason).inc(count)

    def breakers(self, count: int) -> None:
        self._breakers.set(count)

    def running(self, count: int) -> None:
        self._running.set(count)

    def unsettled(self, count: int) -> None:
        self._unsettled.set(count)

    def commit(self, duration_s: float, refused: bool) -> None:
        self._commit.observe(duration_s)
        if duration_s > self._commit_max_s:
            self._commit_max_s = duration_s
            self._commit_max.set(duration_s)
        if refused:
            self._commits_refused.inc()

    def undecodable(self) -> None:
        self._undecodable.inc()

    def output(self, kept_bytes: int, lost_bytes: int) -> None:
        self._output_kept.inc(kept_bytes)
        self._output_lost.inc(lost_bytes)

    def projected(self, kind: str, count: int) -> None:
        self._projected.labels(kind).inc(count)

    def lag(self, topic: str, records: int) -> None:
        self._lag.labels(topic).set(records)

    def skipped(self, kind: str) -> None:
        self._skipped.labels(kind).inc()

    def missing(self, count: int) -> None:
        self._missing.inc(count)

    def reconciled_age(self, age_s: float) -> None:
        self._reconciled_age.set(age_s)

    def notified(self, outcome: str, count: int) -> None:
        self._notified.labels(outcome).inc(count)

    def notifications_waiting(self, count: int) -> None:
        self._notifications_waiting.set(count)

    def request(self, method: str, route: str, status: int, duration_s: float) -> None:
        self._requests.labels(method, route, status).observe(duration_s)

    def pending(self, count: int) -> None:
        self._pending.set(count)


def serve_metrics(meter: PrometheusMeter, host: str, port: int) -> tuple[str, Callable[[], None]]:
    """Serve the registry over HTTP in a thread.

    Returns:
        The URL, and a function that stops serving.
    """
    server, thread = start_http_server(port, addr=host, registry=meter.registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        if thread is not threading.current_thread():
            thread.join(timeout=5)

    return f"http://{host}:{server.server_port}/metrics", stop
