"""The outcomes that this gateway has heard, and the requests that wait for one. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from tocsin.domain import ids
from tocsin.domain.errors import Unavailable
from tocsin.ports.command_bus import OutcomeSeen

FORGOTTEN_AFTER_MS: Final = 3_600_000
"""An hour: as long as the log keeps outcomes."""
AHEAD_MS_MAX: Final = 60_000
"""How far the clock of another gateway may be ahead of ours."""


class OutcomeBook:
    """Outcomes by command, the latest ``kept_max`` (and ``kept_bytes_max``) of them, and who waits for the next.

    Args:
        kept_max: outcomes kept.
        kept_bytes_max: bytes of outcomes kept.
        waiting_max: requests that may wait at once.
        on_waiting: told how many wait whenever that changes.
        now_ms: tells the time, in milliseconds since the epoch.
    """

    def __init__(
        self,
        kept_max: int,
        kept_bytes_max: int,
        waiting_max: int,
        on_waiting: Callable[[int], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._now_ms = now_ms
        self._kept_max = kept_max
        self._kept_bytes_max = kept_bytes_max
        self._waiting_max = waiting_max
        self._on_waiting = on_waiting
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._dropped_upto_ms = -1

    def learn(self, batch: Sequence[OutcomeSeen]) -> None:
        """Keep outcomes, and wake whoever waits for one of them."""
        latest_ms = self._now_ms() + AHEAD_MS_MAX
        for command_id, outcome in batch:
            made_at_ms = ids.command_made_at_ms(command_id)
            # Others are of services that make ids of their own and read the log themselves. Those from the future
            # nobody asks for here, and once dropped they would make all that is sent until then look dropped.
            if made_at_ms is None or made_at_ms > latest_ms:
                continue
            self._kept_bytes += len(outcome) - len(self._kept.get(command_id, b""))
            self._kept[command_id] = outcome
            waiting = self._waiting.get(command_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(outcome)
        while len(self._kept) > self._kept_max or self._kept_bytes > self._kept_bytes_max:
            command_id, outcome = self._kept.popitem(last=False)
            self._kept_bytes -= len(outcome)
            self._dropped_upto_ms = max(self._dropped_upto_ms, ids.command_made_at_ms(command_id) or 0)

    def expect(self, command_id: str) -> asyncio.Future[bytes]:
        """Return a future of a command's outcome; call before the command is sent, and ``forget`` in the end.

        Raises:
            Unavailable: too many requests wait already.
        """
        if len(self._waiting) >= self._waiting_max:
            raise Unavailable("gateway", f"{self._waiting_max} requests wait for their outcomes already")
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[command_id] = future
        self._on_waiting(len(self._waiting))
        return future

    def forget(self, command_id: str) -> None:
        """Stop waiting for a command's outcome."""
        self._waiting.pop(command_id, None)
        self._on_waiting(len(self._waiting))

    def outcome(self, command_id: str) -> bytes | None:
        """Return the outcome of a command, None where it is not known."""
        return self._kept.get(command_id)

    def may_be_pending(self, command_id: str, now_ms: int) -> bool:
        """Tell whether an id without a known outcome can be a command that is still to be decided.

        Not so where it is no id of ours, from the future, older than outcomes are kept, or old enough that its
        outcome may have been dropped to make room.
        """
        made_at_ms = ids.command_made_at_ms(command_id)
        if made_at_ms is None or made_at_ms > now_ms + AHEAD_MS_MAX:
            return False
        return made_at_ms > now_ms - FORGOTTEN_AFTER_MS and made_at_ms > self._dropped_upto_ms
