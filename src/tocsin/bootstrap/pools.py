"""Looking up a cluster's pools on a thread of its own: for gateways, and for triggers, which also tell of idle ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.pool_roll import KafkaPoolRoll
from tocsin.config import Settings
from tocsin.roles.pools import LOOK_EVERY_S, PoolBook

CLOSE_WAIT_S: Final = 1.0


def pool_roll(settings: Settings, names: TopicNames, client_id: str) -> KafkaPoolRoll:
    return KafkaPoolRoll(settings.kafka.bootstrap_servers, names, client_id, settings.kafka.extra)


class PoolThread:
    """Looks until it is stopped. A daemon: a look that waits for brokers does not hold the process's end up.

    Args:
        book: kept up to date.
        after_look: called after each look, such as ``IdlePools.look``.
    """

    def __init__(self, book: PoolBook, after_look: Callable[[], None] = lambda: None) -> None:
        self._book = book
        self._after_look = after_look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pools", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._book.look()
            self._after_look()
            self._stopping.wait(LOOK_EVERY_S)
