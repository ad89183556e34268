"""Requests that are asked again until they succeed: one thread that sends, bounded in flight, reads before writes.

Failures are paced as a whole as well as one by one: while the store does not answer, one request at a time is the
probe, so an outage costs a request a pause and not a storm. A request that the store answers with a refusal of its
values is no outage: it holds nobody up, and is asked again by itself after much longer pauses, for nothing is dropped
in here. Nothing in here knows what a request means.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from cassandra.cluster import ResultSet

from tocsin.adapters.cassandra.driver_errors import refuses_values, translated
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.errors import TocsinError

log = structlog.get_logger()

PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 5.0
REFUSED_PAUSE_FIRST_S: Final = 5.0
REFUSED_PAUSE_MAX_S: Final = 300.0
_LOG_EVERY_S: Final = 10.0
_DOUBLINGS_MAX: Final = 16


def pause_s(failures: int, first_s: float = PAUSE_FIRST_S, max_s: float = PAUSE_MAX_S) -> float:
    """Return how long to wait after so many failures in a row: the first pause, doubled up to the longest."""
    return min(max_s, first_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))


def _keep(_error: TocsinError) -> bool:
    return False


@dataclass(slots=True, eq=False)
class Request:
    """One request.

    Attributes:
        build: makes the statement; runs in the sending thread and may block (it prepares).
        succeeded: called once with the rows, in the driver's thread; must be quick.
        wanted: asked before each sending; when False, the request is dropped without a word.
        urgent: goes before those that are not: a read that somebody waits for.
        paging_state: where to go on, for the later pages of a read.
        failed: called after each sending that failed, before the next; must be quick.
        refused: called when the store refuses the values; True where that settles the request, and False where it is
            to be asked again, later and apart from the others.
        what: names the request for the operator's eyes.
    """

    build: Callable[[Connection], Any]
    succeeded: Callable[[ResultSet], None]
    wanted: Callable[[], bool]
    urgent: bool = False
    paging_state: bytes | None = None
    failed: Callable[[], None] = lambda: None
    refused: Callable[[TocsinError], bool] = _keep
    what: Callable[[], str] = lambda: "a request"
    failures: int = 0
    refusals: int = 0


class RequestPump:
    """Sends what is submitted, for ever if need be.

    What waits here is bounded by whoever submits; what is in flight is bounded here.
    """

    def __init__(
        self, connection: Connection, in_flight_max: int, refused_pause_first_s: float = REFUSED_PAUSE_FIRST_S
    ) -> None:
        self._connection = connection
        self._refused_pause_first_s = refused_pause_first_s
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._urgent: deque[Request] = deque()
        self._others: deque[Request] = deque()
        self._later: list[tuple[float, int, Request]] = []
        self._order = itertools.count()
        self._failures = 0
        """In a row, over all requests; 0 while the store answers."""
        self._not_before = 0.0
        self._logged_at = float("-inf")
        self._outage_told = False
        self._refusal_logged_at = float("-inf")
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="store-requests", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a request; returns at once."""
        self.submit_all((request,))

    def submit_all(self, requests: tuple[Request, ...] | list[Request]) -> None:
        """Queue several; returns at once."""
        with self._changed:
            for request in requests:
                (self._urgent if request.urgent else self._others).append(request)
            self._changed.notify()

    def waiting(self) -> int:
        """Return how many requests are neither done nor in flight."""
        with self._changed:
            return len(self._urgent) + len(self._others) + len(self._later)

    def close(self) -> None:
        """Send nothing more. Requests in flight may still succeed, unheard."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout=PAUSE_MAX_S)

    def _run(self) -> None:
        while (request := self._next()) is not None:
            self._send(request)

    def _next(self) -> Request | None:
        """Wait for a request that may be sent; None: closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    request = heapq.heappop(self._later)[2]
                    (self._urgent if request.urgent else self._others).appendleft(request)
                wait_s = self._wait_s(now)
                if wait_s is None or wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                request = (self._urgent or self._others).popleft()
                if request.wanted():
                    self._in_flight += 1
                    return request
        return None

    def _wait_s(self, now: float) -> float | None:
        """Return the seconds until something may be sent: 0 is now, None is when something changes."""
        if not (self._urgent or self._others):
            return self._later[0][0] - now if self._later else None
        if self._failures:
            return None if self._in_flight else max(0.0, self._not_before - now)
        return 0.0 if self._in_flight < self._in_flight_max else None

    def _send(self, request: Request) -> None:
        try:
            statement = request.build(self._connection)
            future = self._connection.session.execute_async(statement, paging_state=request.paging_state)
        except Exception as error:  # noqa: BLE001 - whatever it is, a request is asked again until it succeeds
            self._failed(error, request)
            return
        future.add_callbacks(self._answered, self._failed, callback_args=(future, request), errback_args=(request,))

    def _answered(self, rows: Any, future: Any, request: Request) -> None:
        with self._changed:
            self._in_flight -= 1
            recovered, self._failures = self._failures, 0
            told, self._outage_told = self._outage_told, False
            self._changed.notify()
        if told:
            log.info("the store answers again", action="store.recovered", failures=recovered)
        request.succeeded(ResultSet(future, rows))

    def _failed(self, error: Exception, request: Request) -> None:
        if refuses_values(error):
            self._refused(translated(error), request)
            return
        request.failed()
        now = time.monotonic()
        with self._changed:
            self._in_flight -= 1
            if self._closed:
                return
            self._failures += 1
            self._not_before = now + pause_s(self._failures)
            request.failures += 1
            heapq.heappush(self._later, (now + pause_s(request.failures), next(self._order), request))
            told = now - self._logged_at >= _LOG_EVERY_S
            if told:
                self._logged_at, self._outage_told = now, True
            waiting = len(self._urgent) + len(self._others) + len(self._later)
            self._changed.notify()
        if told:
            self._tell(translated(error), request, waiting)

    def _refused(self, error: TocsinError, request: Request) -> None:
        """Set a request apart: it says nothing about how the store is, neither good nor bad."""
        with self._changed:
            self._in_flight -= 1
            self._changed.notify()
            if self._closed:
                return
        if request.refused(error):
            return
        now = time.monotonic()
        with self._changed:
            request.refusals += 1
            pause = pause_s(request.refusals, self._refused_pause_first_s, REFUSED_PAUSE_MAX_S)
            heapq.heappush(self._later, (now + pause, next(self._order), request))
            told = now - self._refusal_logged_at >= _LOG_EVERY_S
            if told:
                self._refusal_logged_at = now
            self._changed.notify()
        if told:
            log.error(
                "the store refuses this for good; what waits for it stays undone until somebody acts",
                action="store.refused",
                error=str(error),
                request=request.what(),
                refusals=request.refusals,
                again_in_s=pause,
            )

    def _tell(self, error: TocsinError, request: Request, waiting: int) -> None:
        log.warning(
            "the store does not answer as it must; asking again",
            action="store.retry",
            error=str(error),
            kind=type(error).__name__,
            failures=request.failures,
            waiting=waiting,
        )
