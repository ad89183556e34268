"""The faults, by name: what is done to a rig that is under load. Each leaves things as a supervisor would mend them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.history import Fault
from tests.chaos.load import Load, duplicated_and_reordered
from tests.chaos.rig import PATIENCE_S, Rig
from tests.chaos.small_disk import BROKER
from tests.e2e.system import wait_for
from tocsin.bootstrap import faults as points

ASLEEP_S: Final = 20.0
"""Longer than the sessions (6 and 10 s) and transactions (5 s) of those who are put to sleep."""
SETTLE_S: Final = 5.0
STORE_AWAY_S: Final = 60.0
RAW_COMMANDS: Final = 30
FAKETIME: Final = (
    Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"),
    Path("/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"),
)


@dataclass(frozen=True)
class Pace:
    """How long faults last, and the calm between them.

    Attributes:
        asleep_s: how long a process stands still: longer than its session and transaction.
        settle_s: how long everything goes well between two faults.
    """

    asleep_s: float = ASLEEP_S
    settle_s: float = SETTLE_S


class Skipped(Exception):
    """A fault cannot be made here; the text says why."""


@dataclass
class Drill:
    """A rig under load, and the faults that were made.

    Attributes:
        pace: how long things last.
        moved: of rolls of triggers: the share of shards that had another owner afterwards.
        turn: grows, so that repeated faults meet other processes.
    """

    rig: Rig
    load: Load
    pace: Pace = Pace()
    faults: list[Fault] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    turn: int = 0

    @contextmanager
    def fault(self, name: str, what: str) -> Iterator[None]:
        """Note when a fault is at work."""
        print(f"{time.strftime('%H:%M:%S')} {name}: {what}", flush=True)
        began = time.time_ns() // 1000
        try:
            yield
        finally:
            self.faults.append(Fault(name, what, began, time.time_ns() // 1000))

    def victim(self, role: str) -> str:
        """Return a living process of a role, each time another one."""
        names = sorted(self.rig.names(role))
        self.turn += 1
        return names[self.turn % len(names)]


def kill(role: str) -> Callable[[Drill], None]:
    """Return a fault that kills a process, which is then started again."""

    def make(drill: Drill) -> None:
        name = drill.victim(role)
        with drill.fault(f"kill_{role}", name):
            drill.rig.kill(name)
            # Long enough that it is the others who take over, and not the same name come back.
            time.sleep(10 if role in ("trigger", "worker") else 1)
        drill.rig.start(name)

    return make


def sleep(role: str) -> Callable[[Drill], None]:
    """Return a fault that stops a process for longer than its session and transaction, and lets it go on."""

    def make(drill: Drill) -> None:
        name = drill.victim(role)
        with drill.fault(f"sleep_{role}", name):
            drill.rig.signal(name, signal.SIGSTOP)
            time.sleep(drill.pace.asleep_s)
            drill.rig.signal(name, signal.SIGCONT)

    return make


def at_point(role: str, point: str, *, dies: bool) -> Callable[[Drill], None]:
    """Return a fault at a named point of the turn: death, or a sleep longer than session and transaction."""
    variable = points.DIE_VARIABLE if dies else points.STOP_VARIABLE

    def make(drill: Drill) -> None:
        rig, name = drill.rig, drill.victim(role)
        with drill.fault(f"{'die' if dies else 'sleep'}_{role}_{point}", name):
            rig.stop(name)
            rig.start(name, env={variable: point}, wait=False)
            process = rig.system.processes[name]
            if dies:
                wait_for(f"{name} to die {point}", lambda: process.poll() is not None, PATIENCE_S)
                assert process.returncode == -signal.SIGKILL, f"{name} ended with {process.returncode}"
                time.sleep(10)
            else:
                wait_for(f"{name} to stand still {point}", lambda: rig.is_standing(name), PATIENCE_S)
                time.sleep(drill.pace.asleep_s)
                rig.signal(name, signal.SIGCONT)
        if dies:
            rig.start(name)

    return make


def stop_trigger(drill: Drill) -> None:
    """Stop a trigger politely, and start it again some time after."""
    name = drill.victim("trigger")
    with drill.fault("stop_trigger", name):
        drill.rig.stop(name)
        time.sleep(10)
    drill.rig.start(name)


def kill_broker(drill: Drill) -> None:
    """Kill a broker that does not coordinate the triggers' group, and start it again."""
    others = [f"kafka-{n}" for n in (1, 2, 3) if f"kafka-{n}" != drill.rig.coordinator()]
    _kill_server(drill, "kill_broker", others[drill.turn % len(others)], 15)


def kill_coordinator(drill: Drill) -> None:
    """Kill the broker that coordinates the triggers' group."""
    _kill_server(drill, "kill_coordinator", drill.rig.coordinator(), 15)


def kill_store_node(drill: Drill) -> None:
    """Kill one store node; a quorum is left."""
    _kill_server(drill, "kill_store_node", f"cassandra-{1 + drill.turn % 3}", 20)


def _kill_server(drill: Drill, fault: str, name: str, away_s: float) -> None:
    drill.turn += 1
    with drill.fault(fault, name):
        drill.rig.cluster.kill(name)
        time.sleep(away_s)
        drill.rig.cluster.start(name, die_with_parent=True)


def fill_disk(drill: Drill) -> None:
    """Fill a broker's disk until it gives up, then make room and start it again."""
    disk, cluster = drill.rig.small_disk, drill.rig.cluster
    assert disk is not None, "the rig is made with a small disk where this is among the faults"
    with drill.fault("fill_disk", BROKER):
        disk.fill()

        def given_up() -> bool:
            return {node.name: node.state for node in cluster.status()}[BROKER] != "running"

        wait_for(f"{BROKER} to give up over its disk", given_up, PATIENCE_S)
        time.sleep(15)
        disk.empty()
        cluster.start(BROKER, die_with_parent=True)


def store_away(drill: Drill) -> None:
    """Stop the whole store for a minute, and start it again."""
    stores = [node.name for node in drill.rig.cluster.status() if node.name.startswith("cassandra")]
    with drill.fault("store_away", f"{len(stores)} nodes for {STORE_AWAY_S:.0f} s"):
        for name in stores:
            drill.rig.cluster.kill(name)
        time.sleep(STORE_AWAY_S)
        drill.rig.cluster.up(die_with_parent=True)


def roll(drill: Drill) -> None:
    """Restart every process, one after another, politely; see how many shards have moved in the end."""
    rig = drill.rig
    before = rig.wait_owned()
    for role in ("trigger", "worker", "projector", "gateway"):
        with drill.fault(f"roll_{role}", "each in turn"):
            for name in sorted(rig.names(role)):
                rig.stop(name)
                rig.start(name)
                rig.wait_owned()
        if role == "trigger":
            after = rig.wait_owned()
            drill.moved.append(sum(after[shard] != owner for shard, owner in before.items()) / len(before))


def scale(drill: Drill) -> None:
    """Add two triggers and two workers, and take them away again."""
    more = ["trigger-4", "trigger-5", "worker-4", "worker-5"]
    with drill.fault("scale_up", "two triggers and two workers more"):
        drill.rig.start(*more)
        time.sleep(10)
    with drill.fault("scale_down", "and less"):
        drill.rig.stop(*more)
        time.sleep(5)


def offsets_deleted(drill: Drill) -> None:
    """Stop all triggers, delete their group's offsets, and start them again."""
    rig = drill.rig
    triggers = sorted(rig.names("trigger"))
    with drill.fault("offsets_deleted", "of the triggers' group, while all are stopped"):
        rig.stop(*triggers)
        rig.delete_offsets(rig.trigger_group)
        rig.start(*triggers)


def commands_twice(drill: Drill) -> None:
    """Write commands twice and out of order."""
    with drill.fault("commands_twice", f"{RAW_COMMANDS} creates, each twice, some after their delete"):
        duplicated_and_reordered(drill.rig, drill.load, RAW_COMMANDS)
        time.sleep(8)


def faketime(off_by: str) -> dict[str, str] | None:
    """Return the environment of a process whose wall clock is off, such as ``+1y``; None without libfaketime."""
    library = next((path for path in FAKETIME if path.exists()), None)
    if library is None:
        return None
    preloaded = f"{library}:{os.environ.get('LD_PRELOAD', '')}".rstrip(":")
    return {"LD_PRELOAD": preloaded, "FAKETIME": off_by, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def clock_off(by: str) -> Callable[[Drill], None]:
    """Return a fault that starts a trigger on a host whose wall clock is off: behind, and then ahead."""

    def make(drill: Drill) -> None:
        rig, name = drill.rig, drill.victim("trigger")
        for sign in ("-", "+"):
            env = faketime(f"{sign}{by}")
            if env is None:
                raise Skipped("libfaketime is not installed here")
            with drill.fault(f"clock_{sign}{by}", name):
                rig.stop(name)
                rig.start(name, env=env, wait=False)
                time.sleep(20)
                rig.kill(name)
            rig.start(name)

    return make


FAULTS: Final[dict[str, Callable[[Drill], Any]]] = {
    "kill_trigger": kill("trigger"),
    "kill_worker": kill("worker"),
    "kill_projector": kill("projector"),
    "kill_gateway": kill("gateway"),
    "stop_trigger": stop_trigger,
    "sleep_trigger": sleep("trigger"),
    "sleep_worker": sleep("worker"),
    "sleep_before_commit": at_point("trigger", points.BEFORE_TURN_COMMIT, dies=False),
    "sleep_in_transaction": at_point("trigger", points.IN_OPEN_TRANSACTION, dies=False),
    "sleep_after_commit": at_point("trigger", points.AFTER_TURN_COMMIT, dies=False),
    "sleep_after_restore": at_point("trigger", points.AFTER_RESTORE, dies=False),
    "sleep_after_mark": at_point("worker", points.AFTER_MARK, dies=False),
    "sleep_after_report": at_point("worker", points.AFTER_REPORT, dies=False),
    "die_before_commit": at_point("trigger", points.BEFORE_TURN_COMMIT, dies=True),
    "die_in_transaction": at_point("trigger", points.IN_OPEN_TRANSACTION, dies=True),
    "die_after_commit": at_point("trigger", points.AFTER_TURN_COMMIT, dies=True),
    "die_after_restore": at_point("trigger", points.AFTER_RESTORE, dies=True),
    "die_after_mark": at_point("worker", points.AFTER_MARK, dies=True),
    "die_after_report": at_point("worker", points.AFTER_REPORT, dies=True),
    "kill_broker": kill_broker,
    "kill_coordinator": kill_coordinator,
    "fill_disk": fill_disk,
    "kill_store_node": kill_store_node,
    "store_away": store_away,
    "roll": roll,
    "scale": scale,
    "offsets_deleted": offsets_deleted,
    "commands_twice": commands_twice,
    "clock_second": clock_off("1s"),
    "clock_year": clock_off("1y"),
}
"""Everything that can be done, in the order of a full run."""
