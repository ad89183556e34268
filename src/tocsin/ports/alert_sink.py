"""Port: alerting people from outside of an owner's turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.domain.alerts import Alert


class AlertSink(Protocol):
    """Writes alerts."""

    def send(self, alerts: Sequence[Alert]) -> None:
        """Return once all are in the log; raises ``Unavailable`` where some are not, or may not be."""
        ...
