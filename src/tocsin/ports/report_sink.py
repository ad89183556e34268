"""Port: where workers report. An acknowledged report is durable, so its sender may forget the attempt."""

from __future__ import annotations

from typing import Any, Protocol


class ReportSink(Protocol):
    """Sends reports to the shards that own their jobs. One thread uses it."""

    def send(self, ref: Any, job_id: str, report: bytes) -> None:
        """Hand an encoded report in; never waits, and never gives up on it.

        Args:
            ref: what ``acknowledged`` will return; not looked at.
            job_id: decides the shard.
            report: the encoded ``AttemptReport``.
        """
        ...

    def acknowledged(self, wait_s: float) -> list[Any]:
        """Return the refs of reports that became durable since the last call, waiting at most ``wait_s`` for one.

        Raises:
            Unavailable: no report of this process can be delivered any more; it must start again.
        """
        ...

    def close(self, wait_s: float) -> None:
        """Wait at most ``wait_s`` for what is under way, then release the connections."""
        ...
