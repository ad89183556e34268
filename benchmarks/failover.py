"""``failover``: how late jobs are when their owner is killed (kill -9), and when it is stopped politely, under load.

Two triggers share the shards while one-offs come due all the time, in every shard; then one of the two goes. The
figures come from what a read_committed reader sees. Run it by ``make bench-failover``.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter, defaultdict
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.creates import Creates
from benchmarks.reader import Seen, reading
from benchmarks.results_file import Goal
from benchmarks.rig import READY_S, Rig, rig, wait_until
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.sharding import shard_of

GOALS_S: Final = {"kill": 15.0, "stop": 2.0}
SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}
STEADY_S: Final = 5.0
"""Jobs are due for so long before the owner goes: their lateness is what it is without a takeover."""
AFTER_S: Final = {"kill": 30.0, "stop": 15.0}
LEAD_S: Final = 10.0
CREATES_PER_S: Final = 500.0
"""All creates are to be decided before the first job is due."""
BEFORE_GOAL_S: Final = 1.0
"""A machine on which jobs are later than this without a takeover says nothing of takeovers."""
DRAIN_S: Final = 120.0
QUIET_S: Final = 1.0
VICTIM: Final = "victim"

console = Console()


class Load:
    """One-offs that come due at a steady rate; ``due``: by job, Unix seconds."""

    def __init__(self, system: Rig, names: TopicNames, begin_s: float, last_s: float, per_s: float) -> None:
        self.due: dict[str, float] = {}
        target = {"type": "http", "url": "http://127.0.0.1:9/nobody"}
        creates = Creates(system, names, "failover")
        for n in range(round((last_s - begin_s) * per_s)):
            due_us = round((begin_s + n / per_s) * 1e6)
            job_id = creates.send({"run_at": format_rfc3339(due_us), "target": target})
            self.due[job_id] = due_us / 1e6
        creates.flush()


def shards_of(system: Rig, names: TopicNames) -> dict[str, set[int]]:
    """Return the shards of each trigger by its name, as the group tells."""
    admin, group = AdminClient({"bootstrap.servers": system.bootstrap, "log_level": 0}), names.group("trigger")
    members = admin.describe_consumer_groups([group])[group].result(READY_S).members
    return {
        member.client_id.rpartition("-")[2]: {p.partition for p in member.assignment.topic_partitions}
        for member in members
        if member.assignment
    }


def both_own_some(system: Rig, names: TopicNames) -> bool:
    owned = shards_of(system, names)
    return len(owned) == 2 and all(owned.values()) and sum(map(len, owned.values())) == system.shards


def measure(system: Rig, names: TopicNames, how: str, victim: subprocess.Popen[bytes], per_s: float) -> dict[str, Any]:
    """Have a trigger go under load, and return what became of the jobs."""
    wait_until(lambda: both_own_some(system, names))
    moved = shards_of(system, names)[VICTIM]
    lasts_s = STEADY_S + AFTER_S[how]
    count = round(lasts_s * per_s)
    begin_s = time.time() + LEAD_S + count / CREATES_PER_S
    gone_s, last_s = begin_s + STEADY_S, begin_s + lasts_s
    with reading(system.bootstrap, names.executions("default"), count, last_s + DRAIN_S, QUIET_S) as reader:
        reader.wait_ready()
        load = Load(system, names, begin_s, last_s, per_s)
        console.print(f"{how}: {len(load.due):,} one-offs; {len(moved)} of {system.shards} shards will move")
        time.sleep(max(0.0, gone_s - time.time()))
        victim.send_signal(SIGNALS[how])
        ended_s = time.time()
        victim.wait(READY_S)
        ended_s = time.time() - ended_s
        seen = reader.seen(last_s - time.time() + DRAIN_S + QUIET_S)
    return figures_of(seen, load.due, moved, gone_s, system.shards) | {"process_ended_after_s": round(ended_s, 3)}


def figures_of(seen: list[Seen], due: dict[str, float], moved: set[int], gone_s: float, shards: int) -> dict[str, Any]:
    """Judge what a reader saw."""
    executions = Counter(record.key.split(b"|")[1].decode() for record in seen)
    before, worst, early = [0.0], defaultdict[int, float](float), 0
    fired = set()
    for record in seen:
        job = record.key.split(b"|")[1].decode().rsplit(".", 2)[0].rpartition("@")[2]
        late_s = record.appended_ms / 1000 - due[job]
        early += late_s < -0.001  # the broker keeps whole milliseconds
        fired.add(job)
        if due[job] < gone_s - 1:
            before.append(late_s)
        else:
            shard = shard_of(job, shards)
            worst[shard] = max(worst[shard], late_s)
    return {
        "one_offs": len(due),
        "shards_moved": len(moved),
        "shards": shards,
        "latest_before_s": round(max(before), 3),
        "latest_of_moved_shards_s": round(max(worst[shard] for shard in moved), 3),
        "latest_of_other_shards_s": round(max(worst[shard] for shard in set(range(shards)) - moved), 3),
        "early": early,
        "lost": len(due) - len(fired),
        "published_twice": sum(count - 1 for count in executions.values()),
    }


def goals_of(how: str, figures: dict[str, Any]) -> list[Goal]:
    latest_s, before_s = figures["latest_of_moved_shards_s"], figures["latest_before_s"]
    none = [
        Goal(f"{what}, {how}", "0", figures[what], figures[what] == 0) for what in ("early", "lost", "published_twice")
    ]
    return [
        Goal(f"latest job before, s, {how}", f"<= {BEFORE_GOAL_S:.0f}", before_s, before_s <= BEFORE_GOAL_S),
        Goal(f"latest job of a moved shard, s, {how}", f"<= {GOALS_S[how]:.0f}", latest_s, latest_s <= GOALS_S[how]),
        *none,
    ]


def main() -> None:
    """Run both, and write the result."""
    words = parser("failover", __doc__)
    words.add_argument("--per-s", type=float, default=200.0, help="one-offs that come due each second")
    given = begin(words)
    figures: dict[str, Any] = {}
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        system.stamp_on_append(names.executions("default"))
        with system.role("trigger", lambda facts: True, "survivor"):
            for how in ("kill", "stop"):
                with system.role("trigger", lambda facts: True, VICTIM) as victim:
                    figures[how] = measure(system, names, how, victim, given.per_s)
                    console.print(figures[how])
    goals = [goal for how, found in figures.items() for goal in goals_of(how, found)]
    conclude("failover", given, figures, goals)


if __name__ == "__main__":
    main()
