"""Port: what the roles count. Names and meanings are the operator's; the adapter decides how they are exported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TriggerMeter(Protocol):
    """What an owner counts."""

    def fired(self, shard: int, lateness_s: list[float]) -> None:
        """Executions were committed, each so long after it was due (below 0: early, which must never happen)."""
        ...

    def turn(self, duration_s: float) -> None:
        """A turn was decided and committed."""
        ...

    def command_decided(self, kind: str, accepted: bool) -> None: ...

    def completed(self, state: str, count: int) -> None: ...

    def stale_reports(self, count: int) -> None: ...

    def redelivered(self, count: int) -> None: ...

    def dead_letters(self, kind: str, count: int) -> None: ...

    def alerted(self, kind: str, count: int) -> None:
        """People were alerted to so many things of a kind; see ``domain.alerts``."""
        ...

    def cursor_age(self, shard: int, age_s: float) -> None:
        """How far a shard's cursor is behind now."""
        ...

    def unwritten_turns(self, shard: int, count: int) -> None: ...

    def owned(self, shards: int) -> None: ...

    def gone(self, shard: int) -> None:
        """A shard is no longer ours: what was said of it is not to be repeated."""
        ...

    def clock_off(self, off_by_s: float) -> None:
        """By how much this process's clock is certainly off, above the bound; 0 while it is good enough."""
        ...

    def isolated(self, shards: int) -> None:
        """So many shards stand still, for they fail and nothing can be blamed."""
        ...

    def standing(self, shards: int) -> None:
        """So many shards are ours and cannot be restored."""
        ...

    def lanes_missing(self, count: int) -> None:
        """The topics of so many lanes are not there."""
        ...

    def pools_idle(self, count: int) -> None:
        """In so many pools work has waited for long, and no living worker serves them."""
        ...


class WorkerMeter(Protocol):
    """What a worker counts."""

    def started(self, first: int, redelivered: int) -> None:
        """So many attempts were started for the first time, and so many that may have run before."""
        ...

    def finished(self, kind: str, durations_s: Sequence[float]) -> None:
        """Attempts have ended in this way, after so long each."""
        ...

    def reported(self, count: int) -> None:
        """So many reports were acknowledged."""
        ...

    def leased(self, count: int) -> None:
        """So many attempts were reported as going on."""
        ...

    def returned(self, reason: str, count: int) -> None:
        """So many dispatches were given back to their owners; ``cap`` and ``breaker``: without having started."""
        ...

    def breakers(self, count: int) -> None:
        """So many targets fail as a whole, and are kept away from."""
        ...

    def running(self, count: int) -> None: ...

    def unsettled(self, count: int) -> None: ...

    def commit(self, duration_s: float, refused: bool) -> None: ...

    def undecodable(self) -> None: ...


class OutputMeter(Protocol):
    """What a worker counts of what its attempts print."""

    def output(self, kept_bytes: int, lost_bytes: int) -> None:
        """So many bytes were written to the store, and so many were given up."""
        ...


class ProjectorMeter(Protocol):
    """What a projector counts."""

    def projected(self, kind: str, count: int) -> None: ...

    def lag(self, topic: str, records: int) -> None: ...

    def skipped(self, kind: str) -> None: ...


class GatewayMeter(Protocol):
    """What a gateway counts."""

    def request(self, method: str, route: str, status: int, duration_s: float) -> None: ...

    def pending(self, count: int) -> None: ...


class ReconcilerMeter(Protocol):
    """What a reconciler counts."""

    def missing(self, count: int) -> None:
        """So many occurrences are certainly missing in history, that were not told of before."""
        ...

    def reconciled_age(self, age_s: float) -> None:
        """How long ago the oldest minute was that is not judged."""
        ...


class NotifierMeter(Protocol):
    """What a notifier counts."""

    def notified(self, outcome: str, count: int) -> None:
        """So many alerts, or attempts to post them, came to this; see ``engine.notification_desk.Fate``."""
        ...

    def notifications_waiting(self, count: int) -> None:
        """So many alerts are neither delivered nor given up."""
        ...
