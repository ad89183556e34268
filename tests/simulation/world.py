"""The whole simulated system: it carries out a plan's actions, and lets processes act between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.broker import Broker, Transaction, Violation
from tests.simulation.groups import Group, LaneGroup
from tests.simulation.known_job import SHARDS
from tests.simulation.nodes import LANES, NODE_TYPES, Killed, Node, TriggerNode, WorkerNode, new_machine
from tests.simulation.oracle import Oracle
from tests.simulation.trigger_ports import SimTakeover
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.instants import SECOND, Micros
from tocsin.engine.fleet_watch import SILENCE_OF_RESTARTED
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.schedule_store import StoreWrites
from tocsin.ports.targets import Attempt

if TYPE_CHECKING:
    from tests.simulation.plan import Action

BEAT_EVERY: Micros = 5 * SECOND
SESSION: Micros = 10 * SECOND
TRIGGERS = 3
WORKERS = 2


class World:
    """One simulated system.

    Attributes:
        broker, triggers, workers, tables, beats: what processes share.
        store_mood: ``calm``, ``slow`` or ``down``; ``reports_mood``: ``calm``, ``slow`` or ``held``.
        chance: of the action at hand.
        story: what happened, if it is kept.
    """

    takeover_type: type[SimTakeover] = SimTakeover

    def __init__(self, seed: int, start_at: Micros, *, keep_story: bool = False) -> None:
        self.seed = seed
        self.shards = SHARDS
        self.codec = AvroCodec()
        self.broker = Broker(start_at)
        self.triggers = Group(SHARDS)
        self.workers = LaneGroup(LANES.partitions["default"])
        self.tables = MemoryTables()
        self.beats: list[SeenBeat] = []
        self.orphans: list[tuple[int, StoreWrites]] = []
        """Rows of dead processes that may still be applied."""
        self.store_mood = "calm"
        self.reports_mood = "calm"
        self.deaf = (0, 0)
        """After how many polls owners read no reports, and for how many."""
        self.chance = Random(seed)
        self.story: list[str] | None = [] if keep_story else None
        self.foreign: list[Transaction] = []
        self.sent: list[tuple[int, bytes, bytes]] = []
        """Commands as they were sent: to which shard, key and value."""
        self.commands_sent = 0
        self.jobs: list[str] = []
        """Ids under which clients have created something, but for the few of ``commands.NAMES``."""
        self.overlapping: list[str] = []
        """Those of jobs whose runs often overlap."""
        self.oracle = Oracle(self)
        self.broker.on_commit = self.oracle.committed
        self.broker.on_append = self.oracle.appended
        self._pending: list[Action] = []
        self._starts = 0
        self.nodes: list[Node] = []
        for number in range(TRIGGERS):
            self._start("trigger", f"T{number + 1}")
        for number in range(WORKERS):
            self._start("worker", f"W{number + 1}")

    def tell(self, text: str) -> None:
        """Note something for the story."""
        if self.story is not None:
            self.story.append(f"{self.broker.now - self.oracle.began_at:>12,} {text}")

    # Acting

    def run(self, actions: Sequence[Action]) -> None:
        """Carry a plan out, to its end. It begins when every shard has an owner."""
        while any(shard.cursor is None for shard in self.oracle.shards):
            self.pass_time(SECOND)
            self.pulse(1.0)
        self._pending = list(reversed(actions))
        while self._pending:
            self.go_on(1)

    def go_on(self, steps: int) -> None:
        """Carry out the next actions; called from within a process that waits or is frozen, too."""
        for _ in range(steps):
            if not self._pending:
                self.pass_time(SECOND)
                if not self._alive_and_waiting():
                    return
                continue
            action = self._pending.pop()
            outer, self.chance = self.chance, Random(action.seed)
            action.carry_out(self)
            self.pulse()
            self.chance = outer

    def _alive_and_waiting(self) -> bool:
        return any(node.busy and node.frozen_at is None for node in self.nodes)

    def pulse(self, share: float = 0.8) -> None:
        """Let processes turn, in any order."""
        self.broker.progress(self.chance, 0.3)
        nodes = list(self.nodes)
        self.chance.shuffle(nodes)
        for node in nodes:
            if self.chance.random() < share:
                self.turn(node)

    def turn(self, node: Node) -> None:
        if node.is_able and not node.busy:
            self.let(node, node.turn)

    def let(self, node: Node, act: Callable[[], None]) -> None:
        """Let a process do something; it may die of it, and others may act meanwhile."""
        node.busy = True
        try:
            act()
        except Killed:
            node.die()
        except (Unavailable, Refused) as error:
            self.tell(f"{node.name}: ends itself: {error}")
            node.die()
        finally:
            node.busy = False

    # Time

    def pass_time(self, by: Micros) -> None:
        """Let time go on: beats are sent, sessions end, writes of the dead arrive."""
        self.broker.now += by
        self.broker.time_passed()
        now = self.broker.now
        for node in self.nodes:
            while node.is_able and node.next_beat_at <= now:
                self.beat(node, node.next_beat_at)
                node.next_beat_at += BEAT_EVERY
            silent_since = node.gone_at if node.gone_at is not None else node.frozen_at
            if silent_since is not None and now - silent_since > SESSION:
                node.expel()
        self.beats.sort(key=lambda beat: beat.appended_at)
        for _ in range(min(3, len(self.orphans))):
            if self.chance.random() < 0.4:
                shard, row = self.orphans.pop(self.chance.randrange(len(self.orphans)))
                self.tables.apply(shard, row)
        if self.workers.under_way and self.chance.random() < 0.3:
            self.workers.land(self.chance.randrange(len(self.workers.under_way)))

    def beat(self, node: Node, at: Micros, *, stopped: bool = False) -> None:
        heartbeat = node.heartbeat(at, stopped=stopped)
        self.beats.append(SeenBeat(heartbeat, at // 1000 * 1000))

    # Processes

    def _start(self, role: str, name: str, *, wrong_clock: bool = False) -> Node:
        self._starts += 1
        machine = new_machine(self, self.chance, wrong=wrong_clock)
        node = NODE_TYPES[role](self, name, self._starts, machine)
        self.nodes.append(node)
        self.beat(node, self.broker.now)
        node.next_beat_at = self.broker.now + BEAT_EVERY
        return node

    def restart(self, node: Node, *, wrong_clock: bool = False) -> None:
        """Start the next process of a name; the former one, if it is frozen, stays a zombie."""
        self.tell(f"{node.name}: starts again" + (" with a wrong clock" if wrong_clock else ""))
        if node.gone_at is not None:
            node.expel()
            self.nodes.remove(node)
        self._start(node.role, node.name, wrong_clock=wrong_clock)

    def kill(self, node: Node) -> None:
        if node.gone_at is None and not node.busy:
            self.tell(f"{node.name}: killed")
            node.die()

    def some(self, role: str | None = None) -> Node | None:
        """Return some process that could act."""
        able = [n for n in self.nodes if n.is_able and not n.busy and (role is None or n.role == role)]
        return self.chance.choice(able) if able else None

    def started(self, node: WorkerNode, attempt: Attempt) -> None:
        """A worker starts an attempt."""
        head = attempt.execution.head
        self.tell(f"{node.name}: starts {head.execution_id} attempt {head.attempt} token {head.token}")
        self.oracle.ends.started(node.process_id, attempt, node.cancels.told.get(head.execution_id, -1))

    def is_deaf(self) -> bool:
        """Tell whether a poll brings no reports, as a reader that is held up."""
        wait, left = self.deaf
        self.deaf = (wait - 1, left) if wait > 0 else (0, max(0, left - 1))
        return wait <= 0 < left

    def was_silent(self, process_id: str) -> bool:
        """Tell whether a process said goodbye, or ever nothing for about the shortest time that counts as silence."""
        beats = [beat for beat in self.beats if beat.heartbeat.process_id == process_id]
        times = [*(beat.appended_at for beat in beats), self.broker.now]
        longest = max((later - earlier for earlier, later in pairwise(times)), default=SILENCE_OF_RESTARTED)
        return longest >= SILENCE_OF_RESTARTED - SECOND // 100 or any(beat.heartbeat.stopped for beat in beats)

    def heard_upto(self, process_id: str, leased_at: Micros) -> Micros:
        """Return before when all that a process said of a lease must be heard before it counts as gone; 0: unknown."""
        beats = [beat for beat in self.beats if beat.heartbeat.process_id == process_id]
        times = [*(beat.appended_at for beat in beats), self.broker.now]
        for earlier, later in pairwise(times):
            if later > leased_at and later - earlier >= SILENCE_OF_RESTARTED - SECOND // 100:
                return earlier + SILENCE_OF_RESTARTED - SECOND // 100
        # Who stops says so last.
        return next((beat.appended_at + 1000 for beat in beats if beat.heartbeat.stopped), 0)

    # Rest

    def calm(self) -> None:
        """All faults are over, and every process that should be there is."""
        self.tell("--- all faults are over")
        self.store_mood = self.reports_mood = "calm"
        self.deaf = (0, 0)
        self.broker.slow_markers = False
        for node in self.nodes:
            node.fuse = node.commit_fault = None
        for transaction in self.foreign:
            self.broker.end_foreign(transaction, self.chance.random() < 0.5)
        for node in list(self.nodes):
            if node.gone_at is not None:
                node.expel()
                self.nodes.remove(node)
            elif isinstance(node, TriggerNode) and node.clock.off_by() is not None:
                node.die()
                node.expel()
                self.nodes.remove(node)
        names = {node.name for node in self.nodes}
        wanted = [("trigger", f"T{n + 1}") for n in range(TRIGGERS)] + [("worker", f"W{n + 1}") for n in range(WORKERS)]
        for role, name in wanted:
            if name not in names:
                self._start(role, name)

    def rest(self, seconds: int, step: Micros = SECOND) -> None:
        """Let time pass in peace."""
        for _ in range(seconds * SECOND // step):
            self.pass_time(step)
            self.broker.progress(self.chance, 1.0)
            for _ in range(3):
                for node in list(self.nodes):
                    self.turn(node)
            self._replace_the_dead()

    def _replace_the_dead(self) -> None:
        for node in list(self.nodes):
            if node.gone_at is not None:
                self.restart(node)

    def fail(self, text: str) -> None:
        raise Violation(text)
