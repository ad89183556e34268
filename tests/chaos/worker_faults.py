"""What is done to workers under load. Each fault leaves as many of them as there were.

A victim stands still before it is killed, so that one can see from which ports it calls: that is what tells repeated
calls that a fault explains from those that it does not.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.history import Fault
from tests.chaos.rig import PATIENCE_S, Rig
from tests.e2e.system import wait_for

SESSION_OVER_S: Final = 12.0
"""The development brokers give a silent member 10 s."""
ASLEEP_S: Final = 45.0
"""Longer than a session and than the silence of 30 s after which leases are taken back."""
AWAY_S: Final = 8.0
"""How long the coordinator is away."""
REBALANCE_EVERY_S: Final = 10.0


@dataclass
class WorkerDrill:
    """A rig under load, and the faults that were made.

    Attributes:
        rebalances: how many there are in a stretch.
        turn: grows, so that repeated faults meet other processes.
    """

    rig: Rig
    rebalances: int = 6
    faults: list[Fault] = field(default_factory=list)
    turn: int = 0

    @contextmanager
    def fault(self, name: str, what: str, *victims: str, standing: bool = False) -> Iterator[None]:
        """Note when a fault is at work, and from which ports its victims call; they are left standing still if told."""
        print(f"{time.strftime('%H:%M:%S')} {name}: {what}", flush=True)
        for victim in victims if standing else ():
            self.rig.signal(victim, signal.SIGSTOP)
        began = time.time_ns() // 1000
        pids = [self.rig.system.processes[victim].pid for victim in victims]
        ports = frozenset(port for pid in pids for port in ports_of(pid))
        try:
            yield
        finally:
            self.faults.append(Fault(name, what, began, time.time_ns() // 1000, ports))

    def victim(self) -> str:
        """Return a worker, each time another one."""
        self.turn += 1
        workers = self.workers()
        return workers[self.turn % len(workers)]

    def workers(self) -> list[str]:
        """Return the workers that a supervisor keeps running."""
        return [name for name in self.rig.fleet if name.startswith("worker")]

    def succeed(self, name: str) -> None:
        """Ask a worker to stop, and start another under its name while it lets end what it runs."""
        processes = self.rig.system.processes
        self.rig.signal(name, signal.SIGTERM)
        self.turn += 1
        processes[f"{name}-until-{self.turn}"] = processes.pop(name)
        self.rig.start(name)


def ports_of(pid: int) -> frozenset[int]:
    """Return the local ports of a process's TCP connections."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(link.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue  # It was closed meanwhile.
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return frozenset(int(row[1].rpartition(":")[2], 16) for row in rows if row[9] in inodes)


def kill(drill: WorkerDrill) -> None:
    """Kill a worker, and start it again when the others have taken over."""
    name = drill.victim()
    with drill.fault("kill_worker", name, name, standing=True):
        drill.rig.kill(name)
        time.sleep(SESSION_OVER_S)
    drill.rig.start(name)


def kill_and_restart(drill: WorkerDrill) -> None:
    """Kill a worker, and start it again at once: its former self is still a member of the group."""
    name = drill.victim()
    with drill.fault("kill_and_restart_worker", name, name, standing=True):
        drill.rig.kill(name)
        drill.rig.start(name)
        time.sleep(SESSION_OVER_S)


def sleep(drill: WorkerDrill) -> None:
    """Stop a worker for longer than its session and its leases, and let it go on."""
    name = drill.victim()
    with drill.fault("sleep_worker", name, name, standing=True):
        time.sleep(ASLEEP_S)
        drill.rig.signal(name, signal.SIGCONT)
        time.sleep(2)


def stop_coordinator(drill: WorkerDrill) -> None:
    """Kill the broker that coordinates the workers' group, and start it again."""
    server = drill.rig.coordinator(drill.rig.worker_group)
    with drill.fault("stop_coordinator", server):
        drill.rig.cluster.kill(server)
        time.sleep(AWAY_S)
        drill.rig.cluster.start(server, die_with_parent=True)
        time.sleep(5)


def rebalance(drill: WorkerDrill) -> None:
    """Let a member join and another leave every 10 s; who leaves lets end what it runs."""
    with drill.fault("rebalances", f"{drill.rebalances} times a member joins and leaves"):
        for _ in range(drill.rebalances):
            began = time.monotonic()
            drill.turn += 1
            name = f"worker-guest{drill.turn}"
            drill.rig.start(name)
            time.sleep(max(0.0, REBALANCE_EVERY_S / 2 - (time.monotonic() - began)))
            drill.rig.signal(name, signal.SIGTERM)
            time.sleep(max(0.0, REBALANCE_EVERY_S - (time.monotonic() - began)))


def roll(drill: WorkerDrill) -> None:
    """Deploy anew: every worker is asked to stop, and its successor starts while it lets end what it runs."""
    with drill.fault("roll_workers", "each in turn"):
        for name in drill.workers():
            drill.succeed(name)


def lose_offsets(drill: WorkerDrill) -> None:
    """Delete the group's offsets once all workers have left it; their successors find none."""
    rig, workers = drill.rig, drill.workers()
    with drill.fault("offsets_deleted", "of the workers' group", *workers):
        leaving = [rig.system.processes[name] for name in workers]
        for number, name in enumerate(workers):
            rig.signal(name, signal.SIGTERM)
            rig.system.processes[f"{name}-until-{drill.turn}-{number}"] = rig.system.processes.pop(name)
        drill.turn += 1
        rig.delete_offsets(rig.worker_group)
        assert any(process.poll() is None for process in leaving), "some let end what they run"
        rig.start(*workers)


WORKER_FAULTS: Final[dict[str, Callable[[WorkerDrill], None]]] = {
    "kill": kill,
    "kill_and_restart": kill_and_restart,
    "sleep": sleep,
    "stop_coordinator": stop_coordinator,
    "rebalance": rebalance,
    "roll": roll,
    "lose_offsets": lose_offsets,
}
"""Everything that can be done, in the order of a full run."""


def wait_gone(rig: Rig) -> None:
    """Wait until every worker that was asked to stop has; it must have let end all that it ran."""
    leaving = {name: p for name, p in rig.system.processes.items() if "-until-" in name or "-guest" in name}
    wait_for("those who leave to be gone", lambda: all(p.poll() is not None for p in leaving.values()), PATIENCE_S)
    assert {name: p.returncode for name, p in leaving.items() if p.returncode != 0} == {}
