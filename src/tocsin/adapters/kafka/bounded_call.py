"""Calls of the client that may hang for ever, made so that the caller does not.

``send_offsets_to_transaction`` of librdkafka (2.16 and before) forgets its time limit where the group's coordinator
left the cluster in the middle of it, and then waits until that very broker is back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

HUNG_AFTER_S: Final = 1.0
"""How long after its time limit a call counts as hung."""


class HungCall(Exception):
    """A call did not come back in time; nobody knows what it did, and the client that it was made on is lost."""


class BoundedCaller:
    """Makes calls, one at a time, on a thread of its own; after a ``HungCall`` it is of no further use."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._ends: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        threading.Thread(target=self._run, name="bounded-calls", daemon=True).start()

    def call(self, make: Callable[[], Any], wait_s: float) -> Any:
        """Return what a call returns, or raise what it raises.

        Raises:
            HungCall: it did not come back within ``wait_s``; its thread stays with it, for nothing can end that.
        """
        self._calls.put(make)
        try:
            result, error = self._ends.get(timeout=wait_s)
        except Empty:
            self.close()
            raise HungCall(f"a call of the Kafka client did not come back within {wait_s:.0f} s") from None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the thread, once it is free."""
        self._calls.put(None)

    def _run(self) -> None:
        while (make := self._calls.get()) is not None:
            try:
                self._ends.put((make(), None))
            except Exception as error:  # noqa: BLE001 - it is the caller's
                self._ends.put((None, error))
            # Not held until the next call: it refers to the producer, which may have to go meanwhile.
            del make
