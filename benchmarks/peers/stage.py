"""What a round needs of a contestant, whatever it is; and the peers that keep their jobs in PostgreSQL or Redis."""

from __future__ import annotations

import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from benchmarks.peers.programs import PeerFailed, Program
from benchmarks.peers.stores import Postgres, Redis, postgres, redis

HERE: Final = Path(__file__).resolve().parent
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tocsin-peers"
"""Where setup.sh puts what it builds."""
READY_S: Final = 60.0
SETUP_S: Final = 120.0


class Stage(Protocol):
    """A contestant with its servers running and nothing in them.

    Jobs that warm up have numbers below zero; they count nowhere.
    """

    starts: Path
    """Where handlers leave evidence."""

    def insert(self, n: int, warm: int, due_ms: int, wait_s: float) -> None:
        """Insert jobs 0 to n - 1 due at an instant, and some that are due at once."""

    def start_worker(self) -> None:
        """Start a worker, and wait until it says that it works."""

    def kill_worker(self) -> None:
        """End it at once, with all its processes."""

    def open_count(self, n: int) -> int:
        """Tell, at little cost, how many jobs have no durable end yet; it may be asked many times a second."""

    def open_numbers(self, n: int) -> set[int]:
        """Return the jobs whose end is still to come, as far as is known."""

    def ended_numbers(self, n: int) -> set[int] | None:
        """Return the jobs whose end is kept; None: nothing of an end is kept."""

    def processes(self) -> dict[str, int]:
        """Return the roots of all that works, by name."""

    def further(self, n: int, due_ms: int) -> dict[str, Any]:
        """Return more figures of a burst that only this contestant has."""


@dataclass(frozen=True)
class Peer:
    """Another scheduler.

    Attributes:
        words: its program, to be followed by setup, insert or work.
        set_up: how it is configured, for the reader of a result.
        open_query: for the number of each job without an end; for those in PostgreSQL.
        ended_query: for the number of each job with one; empty: it keeps none.
        worker_first: the worker runs before jobs are inserted; else it would take them in when they are due.
    """

    name: str
    words: tuple[str, ...]
    set_up: str
    open_query: str = ""
    ended_query: str = ""
    worker_first: bool = False

    @contextmanager
    def stage(self, directory: Path) -> Iterator[Stage]:
        """Start its servers and make its tables."""
        if not Path(self.words[0]).exists() and shutil.which(self.words[0]) is None:
            raise PeerFailed(f"{self.words[0]} is not there; see benchmarks/peers/setup.sh")
        if self.open_query:
            with postgres(directory) as rows, PostgresStage(self, directory, rows).working() as stage:
                yield stage
        else:
            with redis(directory) as messages, CeleryStage(self, directory, messages).working() as stage:
                yield stage


class PeerStage(ABC):
    """A peer's programs; what its store says is for those below."""

    store: str

    def __init__(self, peer: Peer, directory: Path, server: Postgres | Redis) -> None:
        self.starts = directory / "starts"
        self._peer = peer
        self._directory = directory
        self._pid, self._port = server.pid, server.port
        self._worker: Program | None = None

    @contextmanager
    def working(self) -> Iterator[Stage]:
        """Make its tables; end its worker when the block does."""
        self._program("setup", {}).wait_done(SETUP_S)
        try:
            yield self
        finally:
            self.kill_worker()

    @abstractmethod
    def open_count(self, n: int) -> int: ...

    @abstractmethod
    def open_numbers(self, n: int) -> set[int]: ...

    @abstractmethod
    def ended_numbers(self, n: int) -> set[int] | None: ...

    def insert(self, n: int, warm: int, due_ms: int, wait_s: float) -> None:
        told = {"PEER_N": str(n), "PEER_WARM": str(warm), "PEER_DUE_MS": str(due_ms)}
        self._program("insert", told).wait_done(wait_s)

    def start_worker(self) -> None:
        self._worker = self._program("work", {"PEER_STARTS": str(self.starts)})
        self._worker.wait_ready(READY_S)

    def kill_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def processes(self) -> dict[str, int]:
        assert self._worker is not None
        return {"worker": self._worker.pid, self.store: self._pid}

    def further(self, n: int, due_ms: int) -> dict[str, Any]:
        return {}

    def _program(self, what: str, told: Mapping[str, str]) -> Program:
        environ = {f"PEER_{self.store.upper()}_PORT": str(self._port), **told}
        return Program([*self._peer.words, what], self._directory / f"{what}.log", environ, self._directory)


class PostgresStage(PeerStage):
    """A peer whose jobs are rows."""

    store = "postgres"

    def __init__(self, peer: Peer, directory: Path, server: Postgres) -> None:
        super().__init__(peer, directory, server)
        self._server = server

    def insert(self, n: int, warm: int, due_ms: int, wait_s: float) -> None:
        super().insert(n, warm, due_ms, wait_s)
        # Autovacuum would do it within a minute; without figures of the tables queries are planned badly.
        self._server.rows("ANALYZE")

    def open_count(self, n: int) -> int:
        return self._server.number(f"SELECT count(*) FROM ({self._peer.open_query}) AS found")

    def open_numbers(self, n: int) -> set[int]:
        return self._numbers(self._peer.open_query)

    def ended_numbers(self, n: int) -> set[int] | None:
        return self._numbers(self._peer.ended_query) if self._peer.ended_query else None

    def _numbers(self, query: str) -> set[int]:
        return {number for number in map(int, self._server.rows(query)) if number >= 0}


class CeleryStage(PeerStage):
    """Celery: messages in one database of Redis, results in another."""

    store = "redis"

    def __init__(self, peer: Peer, directory: Path, server: Redis) -> None:
        super().__init__(peer, directory, server)
        self._server = server
        self._warm = 0

    def insert(self, n: int, warm: int, due_ms: int, wait_s: float) -> None:
        self._warm += warm
        super().insert(n, warm, due_ms, wait_s)

    def open_count(self, n: int) -> int:
        self._server.ask("SELECT", "1")
        return n + self._warm - int(str(self._server.ask("DBSIZE")))

    def open_numbers(self, n: int) -> set[int]:
        self._server.ask("SELECT", "0")
        taken, waiting = self._server.ask("HVALS", "unacked"), self._server.ask("LRANGE", "celery", "0", "-1")
        assert isinstance(taken, list) and isinstance(waiting, list)
        messages = [json.loads(one)[0] for one in taken] + [json.loads(one) for one in waiting]
        return {number for message in messages if (number := int(message["headers"]["id"])) >= 0}

    def ended_numbers(self, n: int) -> set[int] | None:
        self._server.ask("SELECT", "1")
        names = self._server.ask("KEYS", "celery-task-meta-*")
        assert isinstance(names, list)
        return {number for name in names if (number := int(name.removeprefix("celery-task-meta-"))) >= 0}


def _python(name: str) -> tuple[str, ...]:
    return (str(CACHE / "python" / "bin" / "python"), str(HERE / "python" / f"{name}_peer.py"))


def _java(name: str) -> tuple[str, ...]:
    built = CACHE / name
    return ("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
            f"{built}/{name}-peer-1.jar:{built}/libraries/*", "Peer")  # fmt: skip


PEERS: Final = (
    Peer(
        "river",
        (str(CACHE / "river"),),
        "0.51.2: 500 workers, 20 connections, fetch cooldown 1 ms, poll 10 ms",
        "SELECT args->>'number' FROM river_job WHERE state <> 'completed'",
        "SELECT args->>'number' FROM river_job WHERE state = 'completed'",
    ),
    Peer(
        "db-scheduler",
        _java("dbscheduler"),
        "16.7.1: lock-and-fetch (4, 20), 100 threads, 20 connections, poll 100 ms",
        "SELECT task_instance FROM scheduled_tasks",
    ),
    Peer(
        "quartz",
        _java("quartz"),
        "2.5.2: clustered JDBC store, batches of 50, acquired within the lock, 50 threads, 60 connections",
        "SELECT trigger_name FROM qrtz_triggers UNION SELECT trigger_name FROM qrtz_fired_triggers",
    ),
    Peer(
        "celery",
        _python("celery"),
        "5.7.0: Redis as broker and for results (append-only file), a process for each core",
        worker_first=True,
    ),
    Peer(
        "apscheduler",
        _python("apscheduler"),
        "3.11.3: SQLAlchemy job store in PostgreSQL, 10 threads, no limit to lateness",
        "SELECT id FROM apscheduler_jobs",
    ),
    Peer(
        "procrastinate",
        _python("procrastinate"),
        "3.10.0: 20 jobs at once, 20 connections, poll 50 ms",
        "SELECT args->>'number' FROM procrastinate_jobs WHERE status NOT IN ('succeeded', 'failed')",
        "SELECT args->>'number' FROM procrastinate_jobs WHERE status = 'succeeded'",
    ),
)
