"""Port: alerts as a member of the notifiers' group reads them. One partition, so one member has it at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class SeenAlert(NamedTuple):
    """A committed record of the topic of alerts."""

    offset: int
    value: bytes | None


class Begin(NamedTuple):
    """Where a new assignment goes on, and what the last member committed beside that."""

    offset: int
    metadata: str


@dataclass(slots=True)
class AlertsPolled:
    """What one poll brought.

    Attributes:
        begin: the partition came to this member; what it knew of it before is void, and ``alerts`` follow this.
        gone: the partition was taken away, and did not come back.
    """

    alerts: list[SeenAlert] = field(default_factory=list)
    begin: Begin | None = None
    gone: bool = False


class AlertLog(Protocol):
    """Reads alerts in order.

    A group that never committed begins at the end: what was told before there was a notifier is not told by it.
    """

    def poll(self, limit: int, wait_s: float) -> AlertsPolled:
        """Return what has come, waiting at most ``wait_s`` for the first. Raises ``Unavailable``."""
        ...

    def commit(self, offset: int, metadata: str) -> bool:
        """Say where a successor is to go on; tell whether the brokers took it. What is refused is said again later."""
        ...

    def close(self) -> None: ...
