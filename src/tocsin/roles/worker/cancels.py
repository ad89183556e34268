"""What must not be started any more, though it is in the lane, and what is to be stopped.

What was started before a cancel was read is stopped; should it report all the same, its owner knows what it asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tocsin.domain.fleet import Cancel
from tocsin.ports.cancel_log import CancelLog

CANCELLED: Final = "cancelled"
"""Why a dispatch is returned that must not be started."""
POLLED_MAX: Final = 1_000


class Cancels:
    """The cancels that a loop knows.

    Args:
        records: where they come from; None: there are none.
        kept_max: how many are remembered; beyond, the oldest are forgotten.
    """

    def __init__(self, records: CancelLog | None, kept_max: int) -> None:
        self._records = records
        self._kept_max = kept_max
        self._upto: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._upto)

    def load(self) -> None:
        """Learn all that there are; before the first start."""
        if self._records is not None:
            self._note(self._records.load())

    def read(self) -> Sequence[Cancel]:
        """Learn what has come since, and return it."""
        if self._records is not None and (found := self._records.poll(POLLED_MAX)):
            self._note(found)
            return found
        return ()

    def forbid(self, execution_id: str, token: int) -> bool:
        """Tell whether a dispatch must not be started."""
        return token <= self._upto.get(execution_id, -1)

    def close(self) -> None:
        if self._records is not None:
            self._records.close()

    def _note(self, cancels: Iterable[Cancel]) -> None:
        for cancel in cancels:
            # Taken out first, so that the order stays that of the latest word.
            former = self._upto.pop(cancel.execution_id, -1)
            self._upto[cancel.execution_id] = max(former, cancel.token)
            if len(self._upto) > self._kept_max:
                del self._upto[next(iter(self._upto))]
