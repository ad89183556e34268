"""A cluster in memory with a projector that files what its log holds, and a reconciler that looks at both."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.trigger.world import CODEC, World
from tocsin.adapters.memory.index_reader import MemoryIndexReader
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.adapters.memory.views import MemoryViews
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Unavailable
from tocsin.domain.instants import MINUTE, minute_of
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.projection_log import ProjectedRecord
from tocsin.ports.projection_progress import Ends
from tocsin.ports.shard_log import EVENTS, executions
from tocsin.roles.projector.sorting import sort_records
from tocsin.roles.reconciler.reconciler import Findings, Limits, Missing, Reconciler

TOPICS = (EVENTS, executions("default"), executions("message"))
PARTITIONS = 4
"""More than any of them has."""
PLACES = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]


class Projector:
    """Files everything on demand; ``stopped``: nothing any more. Also fulfils ``ports.projection_progress``."""

    def __init__(self, world: World, views: MemoryViews) -> None:
        self._world = world
        self._views = views
        self._filed = dict.fromkeys(PLACES, 0)
        self.stopped = False

    def run(self) -> None:
        for topic, partition in () if self.stopped else PLACES:
            records = self._world.log.read(topic, partition, self._filed[topic, partition])
            self._filed[topic, partition] = self._end((topic, partition))
            seen = [ProjectedRecord(topic, r.partition, r.offset, r.timestamp, r.value) for r in records]
            batch = sort_records(seen, CODEC, 1)
            self._views.write(batch.jobs, batch.dispatches, batch.events)

    def ends(self) -> Ends:
        return {place: self._end(place) for place in PLACES}

    def behind(self, ends: Ends) -> Ends:
        return {place: end for place, end in ends.items() if self._filed[place] < end}

    def _end(self, place: tuple[str, int]) -> int:
        records = self._world.log.read(*place)
        return records[-1].offset + 1 if records else 0


class Meddling(MemoryIndexReader):
    """The world may go on while it is looked at."""

    def __init__(self, house: House) -> None:
        super().__init__(house.world.tables)
        self._house = house

    def rows(self, shard, minute):  # type: ignore[no-untyped-def]
        if self._house.meddles_s:
            self._house.run(self._house.meddles_s)
        yield from list(super().rows(shard, minute))


class House:
    """Everything that a reconciler looks at."""

    def __init__(self, limits: EngineLimits | None = None, shards: int = 2) -> None:
        self.world = World(shards=shards, limits=limits)
        self.world.start()
        self.world.settle()
        self.views = MemoryViews(self.world.tables)
        self.projector = Projector(self.world, self.views)
        self.meddles_s = 0.0
        self.began = self.world.clock.now()
        self.owned = True
        self.reconciler = Reconciler(
            MemoryTakeover(self.world.log),
            Meddling(self),
            self.views,
            self.projector,
            CODEC,
            self._wait,
            Limits(reads_max=5, waits_max=20),
        )

    def run(self, seconds: float, step_s: float = 1.0) -> None:
        self.world.run(seconds, step_s)
        self.projector.run()

    def reconcile(self, shards: Sequence[int] | None = None) -> Findings:
        minutes = range(minute_of(self.began), minute_of(self.world.clock.now()) + 1)
        return self.reconciler.reconcile(dict.fromkeys(shards or range(self.world.shards), minutes))

    def forget(self, job: str, attempt_of: int | None = None) -> str:
        """Take a run of a job out of history, that of a nominal time or the first; return its execution."""
        places = sorted(place for place in self.views._runs if place[0] == job)
        place = next(p for p in places if attempt_of in (None, p[1]))
        for one in [p for p in places if p[2] == place[2]]:
            del self.views._runs[one]
        return place[2]

    def _wait(self) -> None:
        if self.owned:
            self.run(2)
        else:
            self.projector.run()


class Sink:
    """Keeps alerts; ``away``: takes none."""

    def __init__(self) -> None:
        self.sent: list[Alert] = []
        self.away = False

    def send(self, alerts: Sequence[Alert]) -> None:
        if self.away:
            raise Unavailable("kafka", "was told to fail")
        self.sent += alerts


def names(missing: Sequence[Missing]) -> list[str]:
    return [one.execution_id for one in missing]


def past_the_minute(house: House) -> None:
    """Let the present minute close."""
    left = MINUTE - house.world.clock.now() % MINUTE
    house.run(left / 1_000_000 + 15)
