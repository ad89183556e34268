"""Owners on a real broker, turned by the test: the real loop, engine, takeover and log; only the store is in memory."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import uuid_utils
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from prometheus_client import CollectorRegistry

from tocsin import resources
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.shard_log import KafkaShardLog
from tocsin.adapters.kafka.takeover import KafkaTakeover
from tocsin.adapters.kafka.topics import TopicAdmin, load_declarations
from tocsin.adapters.memory.fleet_log import MemoryFleetLog
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.adapters.memory.schedule_store import MemoryScheduleStore, MemoryTables
from tocsin.adapters.memory.shard_log import MemoryLog
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.instants import SECOND, Micros, format_rfc3339
from tocsin.domain.pools import lane_of_pool
from tocsin.domain.sharding import shard_of
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.restore import restore
from tocsin.engine.shard_engine import EngineLimits, ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.ports.fleet_log import FleetLog
from tocsin.roles.trigger.fleet import FleetReader
from tocsin.roles.trigger.loop import LoopLimits, TriggerLoop
from tocsin.roles.trigger.takeover import ClusterFacts, Restorer

CODEC = AvroCodec()
SHARDS = 2
LANE_PARTITIONS = 2
POOL_PARTITIONS = 1
"""So many partitions of a pool are used: all of its executions are neighbours."""
PATIENCE_S = 120.0
TARGET = {"type": "http", "url": "https://example.test/run"}


class WallClock:
    """Fulfils ``ports.clock.TriggerClock`` with this machine's clock, which is the broker's too."""

    def __init__(self) -> None:
        self.ahead: Micros = 0

    def now(self) -> Micros:
        return time.time_ns() // 1000 + self.ahead

    local = at_most = now

    def is_known(self) -> bool:
        return True

    def off_by(self) -> None:
        """Say that the clock is right."""


class Owner:
    """One trigger.

    Attributes:
        ids: the transactional ids that it took, in order.
        slowest_s: the longest turn so far, seconds.
    """

    def __init__(
        self,
        world: OwnerWorld,
        name: str,
        bootstrap: str,
        transaction_timeout_s: float = 5.0,
        session_timeout_s: float = 10.0,
        fleet: FleetLog | None = None,
    ) -> None:
        self.name = name
        self.ids: list[str] = []
        self.slowest_s = 0.0
        self.log = KafkaShardLog(
            bootstrap,
            world.names,
            name,
            session_timeout_s=session_timeout_s,
            transaction_timeout_s=transaction_timeout_s,
        )
        self._numbers = itertools.count()
        self._prefix = f"{world.names.prefix}{name}"
        pools = dict.fromkeys(map(lane_of_pool, world.pools), POOL_PARTITIONS)
        lanes = Lanes({"default": LANE_PARTITIONS, "message": LANE_PARTITIONS} | pools, 2)
        takeover = KafkaTakeover(bootstrap, world.names, name, {})
        restorer = Restorer(takeover, CODEC, ClusterFacts(1, SHARDS), lanes, EngineLimits(), 1, world.clock)
        self.loop = TriggerLoop(
            self.log,
            MemoryScheduleStore(world.tables),
            restorer,
            self._new_id,
            FleetReader(fleet or MemoryFleetLog(), name),
            world.clock,
            PrometheusMeter(CollectorRegistry()),
            LoopLimits(),
            MemoryJobsLog(MemoryLog(world.clock)),
            lanes,
        )
        self.loop.join()

    def _new_id(self) -> str:
        self.ids.append(f"{self._prefix}.{next(self._numbers)}")
        return self.ids[-1]

    @property
    def engines(self) -> dict[int, ShardEngine]:
        return dict(self.loop.engines)

    @property
    def member_id(self) -> str:
        return self.log._commands.memberid()

    def turn(self) -> None:
        began = time.monotonic()
        self.loop.turn()
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def close(self, *, leave: bool = True) -> None:
        """End it; ``leave`` False: as a crash would, but for the client's threads."""
        self.log.close(leave=leave)


class OwnerWorld:
    """The declared topics under one prefix, and owners of their shards; ``pools``: also the topics of these."""

    def __init__(self, bootstrap: str, unique: str, pools: Sequence[str] = ()) -> None:
        self.bootstrap = bootstrap
        self.pools = pools
        self.names = TopicNames(f"{unique}.")
        self.clock = WallClock()
        self.tables = MemoryTables()
        self.owners: list[Owner] = []
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topics = TopicAdmin(bootstrap)
        counts = {"shards": SHARDS, "lane": LANE_PARTITIONS, "outcomes": 1}
        self._declared = load_declarations(resources.topics_dir(), self.names.prefix, counts, pools)
        self.apply_topics()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{unique}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        lane = self.names.executions("default")
        self._reader.assign([TopicPartition(lane, partition, 0) for partition in range(LANE_PARTITIONS)])
        self._fired: Counter[str] = Counter()

    def accept_times_ahead(self, hours: int) -> None:
        """Have the brokers take commands that are stamped so far ahead of their own time: an owner's may be, where a
        test moves its clock. Elsewhere its clock follows theirs."""
        resource = ConfigResource(ResourceType.TOPIC, self.names.commands)
        entry = ConfigEntry(
            "message.timestamp.after.max.ms",
            str(hours * 3_600_000),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource.add_incremental_config(entry)
        self.admin.incremental_alter_configs([resource])[resource].result(20)

    def apply_topics(self) -> None:
        """Create the topics that are missing, and begin the lanes, as ``tocsin topics apply`` does."""
        self._topics.apply(self._topics.plan(self._declared), None)
        lanes = ("default", *map(lane_of_pool, self.pools))
        LaneGroups(self.bootstrap).begin(
            {self.names.group(f"worker.{one}"): self.names.executions(one) for one in lanes}
        )

    def start(self, name: str = "a", *, bootstrap: str | None = None, **settings: float) -> Owner:
        """Start an owner; it joins with its first turns."""
        owner = Owner(self, name, bootstrap or self.bootstrap, **settings)
        self.owners.append(owner)
        return owner

    def close(self) -> None:
        for owner in self.owners:
            owner.close()
        self._reader.close()

    def create(self, *, in_s: float = 0.0, count: int = 1) -> list[str]:
        """Send creates of one-offs; return their jobs' ids."""
        made = [self.new_id() for _ in range(count)]
        for job_id in made:
            self.send_create(job_id, in_s)
        return made

    @staticmethod
    def new_id() -> str:
        """Make an id as a gateway does."""
        return ids.made_job_id(uuid_utils.uuid7().hex)

    def send_create(self, job_id: str, in_s: float, timestamp: Micros | None = None, **more: Any) -> None:
        """Send one create, and wait until it is in the log; ``timestamp``: its record's."""
        run_at = format_rfc3339(self.clock.now() + round(in_s * SECOND))
        definition = {"run_at": run_at, "target": TARGET, **more}
        command = Command("create", f"c{job_id}", job_id, None, 0, definition)  # type: ignore[arg-type]
        milliseconds = (timestamp or self.clock.now()) // 1000
        value, shard = CODEC.encode_command(command), shard_of(job_id, SHARDS)
        self._producer.produce(self.names.commands, value, job_id, shard, timestamp=milliseconds)
        assert self._producer.flush(30) == 0

    def until(self, what: str, holds: Callable[[], object], *owners: Owner) -> None:
        """Turn owners (all, unless some are named) until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"waited {PATIENCE_S:.0f} s for {what}"
            for owner in owners or self.owners:
                owner.turn()

    def until_owned(self, *owners: Owner) -> None:
        """Turn owners until every shard has been restored by one of them."""
        among = owners or self.owners
        self.until("every shard to be restored", lambda: sum(len(o.engines) for o in among) == SHARDS, *among)

    def until_fired(self, jobs: list[str], *owners: Owner) -> None:
        """Turn owners until all these jobs' executions are visible, then some more; none may be there twice."""
        self.until("all jobs to fire", lambda: set(self.fired()) >= set(jobs), *owners)
        for _ in range(20):
            for owner in owners or self.owners:
                owner.turn()
        assert set(self.fired().values()) == {1}, "nothing is published twice"

    def fired(self) -> Counter[str]:
        """Count the committed dispatches of each job, as any read_committed reader sees them."""
        while messages := [m for m in self._reader.consume(500, 0.05) if m.error() is None]:
            self._fired.update(CODEC.decode_execution(message.value() or b"").head.job_id for message in messages)
        return self._fired

    def states(self) -> dict[int, ShardState]:
        """Return the states as the log has them."""
        found = KafkaTakeover(self.bootstrap, self.names, "looker", {}).read_states(range(SHARDS))
        restored = {shard: restore(shard, records, CODEC) for shard, records in found.items()}
        return {shard: state for shard, state in restored.items() if state is not None}

    def recorded_owners(self) -> set[str]:
        """Return the transactional ids that the shards' states name."""
        return {state.owner for state in self.states().values()}

    def start_of(self, topic: str, shard: int) -> int:
        """Return the first offset that is left."""
        return self._reader.get_watermark_offsets(TopicPartition(topic, shard), timeout=20)[0]

    def config(self, topic: str) -> dict[str, str | None]:
        """Return a topic's effective configuration."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        described = self.admin.describe_configs([resource])[resource].result(20)
        return {name: entry.value for name, entry in described.items()}

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and return once the broker no longer tells of it."""
        self.admin.delete_topics([topic])[topic].result(20)
        self.until("the topic to be gone", lambda: topic not in self.admin.list_topics(timeout=20).topics)
