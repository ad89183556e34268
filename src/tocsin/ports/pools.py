"""Port: which worker pools there are, and whether work waits in them. It blocks, so a thread of its own asks."""

from __future__ import annotations

from typing import Protocol


class PoolRoll(Protocol):
    """The pools of a cluster: a pool exists where its topic does. All raise ``Unavailable`` without an answer."""

    def partitions(self) -> dict[str, int]:
        """Return each pool with the number of its topic's partitions."""
        ...

    def has_work(self, pool: str) -> bool:
        """Tell whether an execution lies in a pool that its workers have not settled."""
        ...

    def close(self) -> None: ...
