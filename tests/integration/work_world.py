"""An owner, turned by the test, that deals with workers in processes of their own, on a real broker and in scaled time.

The silence after which leases are taken back is a fifth of the real one, as is the distance of beats that it is judged
by; sessions are as long as brokers keep them.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiohttp import web
from confluent_kafka import Consumer, TopicPartition

from tests.http_receiver import Call, HttpReceiver
from tests.integration.lane_world import WorkerProcess
from tests.integration.owner_world import CODEC, LANE_PARTITIONS, SHARDS, Owner, OwnerWorld
from tocsin.adapters.kafka.fleet_beats import KafkaFleetBeats
from tocsin.adapters.kafka.fleet_log import KafkaFleetLog
from tocsin.domain.executions import AttemptHead, AttemptReport, ExecutionEvent
from tocsin.domain.fleet import DeadLetter, Heartbeat
from tocsin.domain.instants import SECOND
from tocsin.engine import fleet_watch
from tocsin.ports.fleet_log import SeenBeat

SCALE: Final = 5
BEAT_EVERY_S: Final = 0.5
SILENCE_S: Final = 30.0 / SCALE


class CountedFleet(KafkaFleetLog):
    """Counts the beats that an owner has seen, by the name of who sent them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: Counter[str] = Counter()

    def poll(self, limit: int) -> list[SeenBeat]:
        beats = super().poll(limit)
        self.seen.update(beat.heartbeat.name for beat in beats)
        return beats


class Tail:
    """The committed values of a topic, as far as they have come."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "tail", "enable.auto.commit": False, "log_level": 0}
        self._reader = Consumer(settings | {"isolation.level": "read_committed"})
        self._reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._values: list[bytes] = []

    def values(self) -> list[bytes]:
        """Return all, in the order of each partition."""
        while messages := [m for m in self._reader.consume(500, 0.02) if m.error() is None]:
            self._values += [message.value() or b"" for message in messages]
        return self._values

    def close(self) -> None:
        self._reader.close()


class BeatingOwner(Owner):
    """An owner that beats with its turns, and sees its beats come back."""

    def __init__(self, world: OwnerWorld, name: str) -> None:
        self._beats = KafkaFleetBeats(world.bootstrap, name, world.names.fleet, CODEC, 5.0)
        self.fleet = CountedFleet(world.bootstrap, world.names.fleet, name, CODEC)
        self._beat_at = 0.0
        super().__init__(world, name, world.bootstrap, fleet=self.fleet)

    def turn(self) -> None:
        if time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + BEAT_EVERY_S
            self._beats.send(Heartbeat(self.name, self.name, "trigger", "here", "0", 0, False, time.time_ns() // 1000))
        super().turn()

    def close(self, *, leave: bool = True) -> None:
        super().close(leave=leave)
        self._beats.close(1.0)
        self.fleet.close()


class HeldTarget:
    """A target whose calls last until they are let go, one by one or all."""

    def __init__(self) -> None:
        self._let_go: set[str] = set()
        self.all_let_go = False
        self.server = HttpReceiver({"/held": self._hold})

    async def _hold(self, request: web.Request) -> web.StreamResponse:
        while not self.all_let_go and request.headers["Tocsin-Token"] not in self._let_go:
            await asyncio.sleep(0.01)
        return web.Response(text="done")

    @property
    def calls(self) -> list[Call]:
        return self.server.calls

    def let_go(self, call: Call) -> None:
        """Answer one call."""
        self._let_go.add(call.headers["Tocsin-Token"])

    def close(self) -> None:
        self.all_let_go = True
        self.server.close()


class WorkWorld(OwnerWorld):
    """Topics, one owner of all shards, workers by name, and a target."""

    def __init__(
        self,
        bootstrap: str,
        unique: str,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        pools: Sequence[str] = (),
    ) -> None:
        super().__init__(bootstrap, unique, pools)
        monkeypatch.setattr(fleet_watch, "SILENCE", round(SILENCE_S * SECOND))
        monkeypatch.setattr(fleet_watch, "SILENCE_OF_RESTARTED", fleet_watch.SILENCE_OF_RESTARTED // SCALE)
        monkeypatch.setattr(fleet_watch, "STEADY_GAP", fleet_watch.STEADY_GAP // SCALE)
        self._directory = directory
        self.workers: dict[str, WorkerProcess] = {}
        self.target = HeldTarget()
        topics = (self.names.events, self.names.reports, self.names.dead_letters)
        self._events, self._reports, self._letters = (Tail(bootstrap, topic, SHARDS) for topic in topics)
        self._dispatches = Tail(bootstrap, self.names.executions("default"), LANE_PARTITIONS)
        self.owner = self._new_owner("owner")

    def _new_owner(self, name: str) -> BeatingOwner:
        owner = BeatingOwner(self, name)
        self.owners.append(owner)
        self.until_owned(owner)
        return owner

    def replace_owner(self) -> None:
        """Let another owner restore everything from the log."""
        self.owners.remove(self.owner)
        self.owner.close()
        self.owner = self._new_owner("successor")

    def start_worker(
        self, name: str, *, altered: str = "", bootstrap: str | None = None, **settings: Any
    ) -> WorkerProcess:
        """Start a worker; return when it is a member. ``bootstrap``: where it finds the broker."""
        given = {"lease_after_s": 0.3, "stop_grace_s": 120, **settings}
        place = SimpleNamespace(bootstrap=bootstrap or self.bootstrap, names=self.names)
        (self._directory / f"{name}.json").unlink(missing_ok=True)
        worker = self.workers[name] = WorkerProcess(place, self._directory, name, altered=altered, **given)
        self.until(f"{name} to be ready", lambda: worker.ready_file.exists() or worker.process.poll() is not None)
        assert worker.process.poll() is None, worker.log.read_text()
        return worker

    def stop_worker(self, name: str) -> None:
        """Ask a worker to stop; it must have let end what it runs."""
        worker = self.workers[name]
        worker.process.terminate()
        self.until(f"{name} to end", lambda: worker.process.poll() is not None)
        assert worker.process.returncode == 0, worker.log.read_text()

    def signal_worker(self, name: str, number: signal.Signals) -> None:
        self.workers[name].process.send_signal(number)

    def run(self, **more: Any) -> str:
        """Have one execution of the held target made now; return its job."""
        return self.run_target({"type": "http", "url": f"{self.target.server.url}/held", "timeout_s": 60.0, **more})

    def run_target(self, target: dict[str, Any]) -> str:
        """Have one execution of any target made now; return its job."""
        job = self.new_id()
        # The broker refuses what is stamped more than an hour ahead, and the owner may be.
        self.send_create(job, 0.0, time.time_ns() // 1000, target=target)
        return job

    def events(self, job: str) -> list[ExecutionEvent]:
        """Return what was decided of a job's executions, in order."""
        events = [CODEC.decode_event(value) for value in self._events.values()]
        return [event for event in events if event.head.job_id == job]

    def reports(self) -> list[AttemptReport]:
        return [CODEC.decode_report(value) for value in self._reports.values()]

    def dead_letters(self) -> list[DeadLetter]:
        return [CODEC.decode_dead_letter(value) for value in self._letters.values()]

    def until_beats(self, count: int, *names: str) -> None:
        """Turn the owner until it has seen so many more beats of each of these."""
        wanted = {name: self.owner.fleet.seen[name] + count for name in names}
        self.until("beats to pass", lambda: all(self.owner.fleet.seen[name] >= n for name, n in wanted.items()))

    def head_of(self, job: str) -> AttemptHead:
        """Return the head of a job's only dispatch."""
        heads = [CODEC.decode_head(value) for value in self._dispatches.values()]
        (head,) = [head for head in heads if head.job_id == job]
        return head

    def all_reports_applied(self) -> bool:
        """Tell whether the owner has decided on every report that is in the log."""
        return all(e.state.reports_offset >= self._end(self.names.reports, n) for n, e in self.owner.engines.items())

    def all_commands_applied(self) -> bool:
        """Tell the same of commands."""
        return all(e.state.commands_offset >= self._end(self.names.commands, n) for n, e in self.owner.engines.items())

    def _end(self, topic: str, shard: int) -> int:
        return self._reader.get_watermark_offsets(TopicPartition(topic, shard), timeout=20)[1]

    def close(self) -> None:
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.kill()
        self.target.close()
        for tail in (self._events, self._reports, self._letters, self._dispatches):
            tail.close()
        super().close()
