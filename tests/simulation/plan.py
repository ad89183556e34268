"""What happens in a simulated run: a list of actions, drawn from a seed.

An action is a kind and a seed of its own, and chooses among what is there when its turn comes. So actions can be left
out of a plan, and the others still mean the same.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from tests.simulation import commands, zones
from tests.simulation.world import World
from tocsin.domain.instants import SECOND, Micros, parse_rfc3339
from tocsin.ports.shard_log import COMMANDS, REPORTS

ACTIONS: Final = 90

STARTS: Final = tuple(
    map(
        parse_rfc3339,
        (
            "2026-03-29T00:58:30Z",  # Berlin's clocks go from 02:00 to 03:00
            "2026-10-25T00:58:30Z",  # and from 03:00 back to 02:00
            "2026-04-04T14:58:45Z",  # Lord Howe goes back by half an hour
            "2026-06-15T11:59:10Z",
            "2026-12-31T23:58:50Z",
        ),
    )
)


class Action(NamedTuple):
    """One thing that happens."""

    kind: str
    seed: int

    def carry_out(self, world: World) -> None:
        (SOMETIMES.get(self.kind) or KINDS[self.kind][1])(world)


class Plan(NamedTuple):
    """All of a run."""

    seed: int
    start_at: Micros
    actions: tuple[Action, ...]


def plan_of(seed: int) -> Plan:
    """Draw a plan."""
    chance = Random(seed)
    start_at = chance.choice(STARTS) + chance.randrange(SECOND)
    names = list(KINDS)
    # Each run has its own climate: some kinds of trouble are frequent in it, others do not occur.
    weights = [KINDS[name][0] * (chance.choice((0.0, 0.5, 1.0, 2.0, 4.0)) if name in FAULTS else 1.0) for name in names]
    kinds = chance.choices(names, weights, k=ACTIONS)
    settled = ["pass", "pass", "create", "create"]
    actions = [Action(kind, chance.getrandbits(32)) for kind in [*settled, *kinds]]
    if seed % 4 == 3:
        _add_zone_data(seed, actions)
    if seed % 9 in (0, 8) or seed % 7 == 1:  # none of those that found something before there were overlaps
        _add_overlaps(seed, actions)
    if seed % 10 == 8:
        _add_late_moves(seed, actions)
    if seed % 10 == 9:
        _add_far_jobs(seed, actions)
    return Plan(seed, start_at, tuple(actions))


def _add_zone_data(seed: int, actions: list[Action]) -> None:
    """Let zone data change in a run, and have jobs that these concern."""
    chance = Random(f"zone data {seed}")
    for kind in ["zoned"] * chance.randrange(3, 9) + ["zone data"] * chance.choice((1, 1, 2, 3)):
        actions.insert(chance.randrange(2, len(actions)), Action(kind, chance.getrandbits(32)))


def _add_late_moves(seed: int, actions: list[Action]) -> None:
    """Let zone data change, and jobs of that zone come due before anybody has moved them."""
    chance = Random(f"late moves {seed}")
    for kind in ["zoned"] * chance.randrange(5, 10) + ["late zone data"] * chance.choice((1, 2)):
        actions.insert(chance.randrange(2, len(actions)), Action(kind, chance.getrandbits(32)))


def _add_far_jobs(seed: int, actions: list[Action]) -> None:
    """Let jobs that are due in hours be moved again and again, by owners that die before the store has heard of it."""
    chance = Random(f"far jobs {seed}")
    for kind in ["far"] * chance.randrange(4, 9) + ["hurried"] * chance.randrange(5, 10):
        actions.insert(chance.randrange(2, len(actions)), Action(kind, chance.getrandbits(32)))


def _add_overlaps(seed: int, actions: list[Action]) -> None:
    """Let runs of jobs overlap, and be cancelled."""
    chance = Random(f"overlaps {seed}")
    for kind in ["overlapping"] * chance.randrange(3, 9) + ["overlap trigger"] * chance.randrange(8):
        actions.insert(chance.randrange(2, len(actions)), Action(kind, chance.getrandbits(32)))
    for _ in range(chance.choice((0, 2, 5, 12))):
        actions.insert(chance.randrange(8, len(actions)), Action("cancel", chance.getrandbits(32)))


# Time


def _pass(world: World) -> None:
    world.pass_time(world.chance.choice((500, 40_000, 300_000, SECOND, SECOND, 2 * SECOND, 4 * SECOND)))


def _leap(world: World) -> None:
    by = world.chance.choice((7, 15, 30, 45, 75)) * SECOND
    world.tell(f"{by // SECOND} s pass")
    world.pass_time(by)


def _clock_step(world: World) -> None:
    node = world.some()
    if node is not None:
        by = world.chance.choice((-3_600, -2, 2, 3_600)) * SECOND
        world.tell(f"{node.name}: its wall clock steps by {by // SECOND} s")
        node.machine.step(by)


# Processes


def _kill(world: World) -> None:
    node = world.some()
    if node is not None:
        world.kill(node)


def _start(world: World) -> None:
    dead = [node for node in world.nodes if node.gone_at is not None and not node.busy]
    if dead:
        world.restart(world.chance.choice(dead), wrong_clock=world.chance.random() < 0.1)


def _double(world: World) -> None:
    """A supervisor takes a frozen process for dead, and starts another."""
    frozen = [node for node in world.nodes if node.frozen_at is not None]
    if frozen and len(world.nodes) < 8:
        world.restart(world.chance.choice(frozen))


def _stop(world: World) -> None:
    node = world.some()
    if node is not None:
        world.tell(f"{node.name}: is asked to stop")
        world.let(node, node.stop)


def _fuse(kind: str) -> Callable[[World], None]:
    def light(world: World) -> None:
        node = world.some(world.chance.choice(("trigger", "trigger", "worker")))
        if node is not None and node.fuse is None:
            node.fuse = (world.chance.randrange(12), kind, world.chance.choice((1, 3, 8, 20)))

    return light


# The log


def _commit_fault(world: World) -> None:
    node = world.some(world.chance.choice(("trigger", "worker")))
    if node is not None:
        faults = ("unknown, done", "unknown, lost", "unknown, late")
        own = ("aborted",) if node.role == "trigger" else ("refused",)
        node.commit_fault = world.chance.choice(faults + own)


def _markers(world: World) -> None:
    world.broker.slow_markers = not world.broker.slow_markers
    world.tell(f"markers are {'slow' if world.broker.slow_markers else 'quick'}")


def _rebalance(world: World) -> None:
    group = world.chance.choice((world.triggers, world.workers))
    world.tell(f"the {'triggers' if group is world.triggers else 'workers'} rebalance")
    group.rebalance(world.chance)


def _expel(world: World) -> None:
    node = world.some()
    if node is not None:
        world.tell(f"{node.name}: is expelled from its group")
        node.expel()


def _foreign(world: World) -> None:
    """A client that is not ours leaves a transaction open."""
    transaction = world.broker.foreign()
    topic = world.chance.choice((COMMANDS, REPORTS))
    world.tell(f"somebody opens a transaction on {topic}")
    world.broker.append(topic, world.chance.randrange(world.shards), b"x", b"not a record", None, transaction)
    world.foreign.append(transaction)


def _foreign_end(world: World) -> None:
    if world.foreign:
        transaction = world.foreign.pop(world.chance.randrange(len(world.foreign)))
        world.broker.end_foreign(transaction, world.chance.random() < 0.5)


# Moods


def _store(world: World) -> None:
    world.store_mood = world.chance.choice(("calm", "slow", "slow", "down"))
    world.tell(f"the store is {world.store_mood}")


def _reports(world: World) -> None:
    world.reports_mood = world.chance.choice(("calm", "slow", "slow", "held"))
    world.tell(f"acknowledgements of reports are {world.reports_mood}")


# Troubles that seldom come alone


def _storm(world: World) -> None:
    """After a long silence there is much to catch up with, and processes die in the middle of it."""
    _leap(world)
    for node in world.nodes:
        if node.role == "trigger" and node.is_able and world.chance.random() < 0.6:
            node.fuse = (world.chance.randrange(25), "kill", 0)


def _doubt(world: World) -> None:
    """An offset commit of a worker is late, and the worker dies soon."""
    node = world.some("worker")
    if node is not None:
        node.commit_fault = "unknown, late"
        node.fuse = (world.chance.randrange(3, 30), "kill", 0)


def _deaf(world: World) -> None:
    """For some polls owners read no reports, so that many come at once."""
    world.deaf = (world.chance.randrange(4), world.chance.randrange(4, 20))
    world.tell("owners read no reports for a while")


def _sleeper(world: World) -> None:
    """A worker sleeps until its successors have returned what it had begun, and then reports; all is read at once."""
    node = world.some("worker")
    if node is not None and node.fuse is None:
        node.fuse = (world.chance.randrange(12), "freeze", world.chance.randrange(12, 30))
        world.deaf = (world.chance.randrange(20), world.chance.randrange(20, 80))


def _hurried(world: World) -> None:
    """A job is changed several times while the store is slow, and the owners die soon after."""
    commands.change_twice(world)
    world.store_mood = "slow"
    world.tell("the store is slow")
    for node in world.nodes:
        if node.role == "trigger" and node.is_able:
            node.fuse = (world.chance.randrange(4, 30), "kill", 0)


def _goodbye(world: World) -> None:
    """A worker stops, and owners hear of that before they read its last reports."""
    _deaf(world)
    node = world.some("worker")
    if node is not None:
        world.tell(f"{node.name}: is asked to stop")
        world.let(node, node.stop)


def _shuffle(world: World) -> None:
    """Partitions move, and a worker dies soon after."""
    world.tell("the workers rebalance")
    world.workers.rebalance(world.chance)
    node = world.some("worker")
    if node is not None:
        node.fuse = (world.chance.randrange(3, 20), "kill", 0)


def _forget(world: World) -> None:
    """No worker is there for so long that the brokers forget what their group had committed."""
    workers = [node for node in world.nodes if node.role == "worker"]
    if any(node.busy for node in workers):
        return
    world.tell("what the workers' group had committed is lost")
    for node in workers:
        world.kill(node)
        node.expel()
    world.workers.committed.clear()
    world.workers.under_way.clear()


def _zone_data(world: World) -> None:
    """All owners are replaced by such as have another release of the zone data."""
    _replace_owners(world, 0.7)


def _replace_owners(world: World, share: float) -> None:
    owners = [node for node in world.nodes if node.role == "trigger"]
    if any(node.busy for node in owners):
        return
    release = world.chance.choice([name for name in zones.CLOCKS if name != zones.present()])
    world.tell(f"owners have the zone data {release} from now on")
    for node in owners:
        world.kill(node)
    zones.install(release)
    for node in owners:
        if world.chance.random() < share:
            world.restart(node)


def _late_zone_data(world: World) -> None:
    """Other zone data come, and before their owners have moved anything, the clocks change and much is due."""
    changes = world.oracle.jobs.zones.of
    known = sum(map(len, changes.values()))
    _replace_owners(world, 1.0)
    for _ in range(8):
        if sum(map(len, changes.values())) > known:
            break
        world.pulse(1.0)
    at = max((change.at for of in changes.values() for change in of), default=0)
    by = max(at - world.broker.now, 0) + world.chance.choice((1, 5, 12, 30, 55)) * SECOND
    world.tell(f"{by // SECOND} s pass")
    world.pass_time(by)


Deed = Callable[[World], None]

KINDS: Final[dict[str, tuple[float, Deed]]] = {
    "pass": (26, _pass),
    "create": (14, commands.create),
    "change": (16, commands.change),
    "odd": (3, commands.odd),
    "repeat": (2, commands.repeat),
    "leap": (2.5, _leap),
    "clock step": (0.5, _clock_step),
    "kill": (1.5, _kill),
    "start": (4, _start),
    "double": (1, _double),
    "stop": (2, _stop),
    "fuse kill": (2, _fuse("kill")),
    "fuse freeze": (3, _fuse("freeze")),
    "commit fault": (4, _commit_fault),
    "storm": (2, _storm),
    "doubt": (2, _doubt),
    "sleeper": (1, _sleeper),
    "hurried": (1.5, _hurried),
    "deaf": (1, _deaf),
    "goodbye": (3, _goodbye),
    "shuffle": (1.5, _shuffle),
    "forget": (0.7, _forget),
    "markers": (2, _markers),
    "rebalance": (2.5, _rebalance),
    "expel": (1.5, _expel),
    "foreign": (0.7, _foreign),
    "foreign end": (1, _foreign_end),
    "store": (4, _store),
    "reports": (2, _reports),
}

SOMETIMES: Final[dict[str, Deed]] = {
    "zoned": commands.create_zoned,
    "zone data": _zone_data,
    "late zone data": _late_zone_data,
    "far": commands.create_far,
    "overlapping": commands.create_overlapping,
    "overlap trigger": commands.trigger_overlapping,
    "cancel": commands.cancel,
}
"""Only in some runs."""

FAULTS: Final = frozenset(KINDS) - {"pass", "create", "change", "start"}
