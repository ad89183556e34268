"""From the costs of single things to a cluster: pure arithmetic, the same inputs always give the same cluster."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from benchmarks.capacity.inputs import PHASES, REPLICAS, Costs

DAY_S: Final = 86_400
LATE_S: Final = 2.0
"""The last job of a burst may be so late."""
DRAIN_S: Final = 60.0
"""So soon all attempts of a burst are to have been started."""
SHARDS_A_TRIGGER: Final = 4
"""At least: so that a lost trigger's work is shared by several, and the cluster can grow by as much."""
ENDED_KEPT_S: Final = 7 * DAY_S
"""How long a one-off stays after its end, unless it says otherwise."""
INDEX_KEPT_S: Final = DAY_S
AHEAD_S: Final = 210.0
"""Rows of two whole minutes, the one that is read 30 s before it comes among them, and the present one."""
RUNNING_MAX: Final = 200
TENANT_SPREAD: Final = 8
BEGUN_MAX: Final = 500
RETENTION_S: Final = {
    "commands": 7 * DAY_S,
    "reports": 7 * DAY_S,
    "executions.default": 7 * DAY_S,
    "execution-events": 30 * DAY_S,
    "outcomes": 3_600,
    "shard-state": 3_600,
    "jobs": DAY_S,
}
"""How long each topic keeps what is written; of compacted ones, about how long before it is compacted."""
SHARD_TOPICS: Final = 6
"""Commands, jobs, reports, events, dead letters and states of shards have a partition for each shard."""
LANES: Final = 2
SINGLE_TOPICS: Final = 4
"""Outcomes, alerts, the fleet and the control of workers."""
ROUNDS: Final = 200


@dataclass(frozen=True)
class Load:
    """What a cluster is to carry.

    Attributes:
        peak: executions due at once, or each second while the peak lasts.
        peak_s: how long it lasts; 1: a burst.
    """

    name: str
    per_day: float
    peak: float
    peak_s: float
    pending: float

    @property
    def mean_per_s(self) -> float:
        return self.per_day / DAY_S


LOADS: Final = (
    Load("A", 230e6, 250_000, 1, 200e6),
    Load("B", 1e9, 100_000, 60, 200e6),
)


@dataclass(frozen=True)
class Turn:
    """The turn of one trigger at a steady rate."""

    seconds: float
    events: float
    touched: float


@dataclass(frozen=True)
class Cluster:
    """What carries a load, and how far each part of it is from its end.

    Attributes:
        holds_upto: by part, how many times the load it would just carry with nothing spared.
        disk_tb, store_tb: with all replicas.
        rates, sizes: further figures, by name.
    """

    load: Load
    shards: int
    partitions: int
    processes: dict[str, int]
    why: dict[str, str]
    turn: Turn
    disk_tb: dict[str, float]
    store_tb: dict[str, float]
    rates: dict[str, float]
    memory_mib: dict[str, float]
    log_partitions: int
    """Of all topics, without copies."""
    holds_upto: dict[str, float]


def occupied(bins: float, things: float) -> float:
    """Return how many of some bins hold something, if things fall into them at random."""
    return bins * (1 - (1 - 1 / bins) ** things) if bins > 1 else min(1.0, things)


def turn_of(costs: Costs, rates: Counter[str], cpu_us: float, shards: float, partitions: int) -> Turn:
    """Return the turn of one trigger that goes on back to back: it grows until it keeps up.

    Args:
        rates: what happens in it each second: creates, fires, reports, ends and removals.
        cpu_us: for each of these, on average.
        shards: that it owns.
    """
    total = sum(rates.values())
    seconds = 0.05
    for _ in range(ROUNDS):
        n = {name: rate * seconds for name, rate in rates.items()}
        commands = n["create"] + n["end"] + n["remove"]
        touched = 1 + min(1.0, n["create"])  # the group's offsets, and outcomes
        touched += occupied(shards, sum(n.values()))  # states
        touched += occupied(shards, commands) + occupied(shards, n["end"] + n["remove"])  # jobs, and commands to itself
        touched += occupied(shards, n["report"]) + occupied(partitions, n["fire"])  # events, and the lane
        wanted = costs.transaction_ms(touched) / 1000 + total * seconds * cpu_us / 1e6
        seconds += (min(wanted, 5.0) - seconds) / 4
    return Turn(seconds, total * seconds, touched)


def one_off_us(costs: Costs) -> float:
    """Return µs of a trigger for the whole life of a one-off."""
    return sum(costs[f"trigger_{phase}"] for phase in PHASES)


def occurrence_us(costs: Costs) -> float:
    """Return µs of a trigger for an occurrence of a recurring job."""
    return costs["trigger_load"] + costs["trigger_fire_again"] + costs["trigger_report"]


def per_execution(costs: Costs) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return, for each execution of the mix, records and bytes by topic, and rows by statement; attempts count once."""
    share = costs["one_offs"]
    records: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for phases, names, weight in (
        (costs.life, PHASES, share),
        (costs.recurring, ("load", "fire", "report"), 1 - share),
    ):
        for name in names:
            one = phases[name]
            for topic, n in one["records"].items():
                records[topic] += n * weight
                sizes[topic] += (one["bytes"].get(topic, 0) + n * costs["batch_overhead"]) * weight
            for statement, n in one["store"].items():
                rows[statement] += n * weight
        records["reports"] += weight
        sizes["reports"] += (costs.life["report"]["report_bytes"] + costs["batch_overhead"]) * weight
    records["commands"] += share
    sizes["commands"] += (costs.life["create"]["command_bytes"] + costs["batch_overhead"]) * share
    return records, sizes, rows


def triggers_for(costs: Costs, load: Load) -> tuple[int, str]:
    """Return how many triggers a load needs, one of them to spare, and what decides."""
    share = costs["one_offs"]
    busy = load.mean_per_s * costs["busy_hour"]
    cores = busy * (share * one_off_us(costs) + (1 - share) * occurrence_us(costs)) / 1e6
    wanted = {f"{cores:.1f} cores in the busiest hour": math.ceil(cores / costs["trigger_busy"])}
    if load.peak_s > 1:
        peak = load.peak * occurrence_us(costs) / 1e6
        wanted[f"{peak:.1f} cores while the peak lasts"] = math.ceil(peak / 0.7)
    else:
        n = 1
        while burst_s(costs, load, n) > LATE_S:
            n += 1
        wanted[f"a burst out within {LATE_S:.0f} s"] = n
    why, count = max(wanted.items(), key=lambda one: one[1])
    return count + 1, why


def burst_s(costs: Costs, load: Load, triggers: int) -> float:
    """Return how late the last job of a burst is."""
    return load.peak / triggers * costs.fullest("made", triggers) / costs["burst_per_s"]


def workers_for(costs: Costs, load: Load) -> tuple[int, str]:
    """Return how many workers a load needs, and what decides."""
    rate = worker_per_s(costs)
    busy = load.mean_per_s * costs["busy_hour"] * costs["retries"] / rate
    peak = load.peak * costs["retries"] / (rate if load.peak_s > 1 else rate * DRAIN_S)
    if busy > peak:
        return max(2, math.ceil(busy) + 1), "the busiest hour"
    return max(2, math.ceil(peak) + 1), "the peak" if load.peak_s > 1 else f"a burst started within {DRAIN_S:.0f} s"


def worker_per_s(costs: Costs) -> float:
    """Return the attempts a second of one worker: what it may run at once, or its core."""
    return min(RUNNING_MAX / costs["attempt_s"], 0.7e6 / costs["worker_http"])


def tenant_per_s(costs: Costs) -> float:
    """Return the attempts a second of one tenant: half of the workers of its partitions, where others wait too."""
    return TENANT_SPREAD * min(RUNNING_MAX / 2, BEGUN_MAX) / costs["attempt_s"]


def power_of_two(least: float) -> int:
    return 1 << max(0, math.ceil(math.log2(max(1.0, least))))


def cluster(costs: Costs, load: Load) -> Cluster:
    """Return the cluster for a load."""
    share, busy = costs["one_offs"], load.mean_per_s * costs["busy_hour"]
    triggers, triggers_why = triggers_for(costs, load)
    workers, workers_why = workers_for(costs, load)
    shards = max(8, power_of_two(triggers * SHARDS_A_TRIGGER))
    partitions = max(16, power_of_two(workers * 1.5))
    records, sizes, rows = per_execution(costs)
    trigger_cores = busy * (share * one_off_us(costs) + (1 - share) * occurrence_us(costs)) / 1e6

    each = Counter({"create": share, "fire": 1.0, "report": 1.0, "end": share, "remove": share})
    rates = Counter({name: n * busy / triggers for name, n in each.items()})
    cpu_us = trigger_cores * 1e6 / triggers / sum(rates.values())
    turn = turn_of(costs, rates, cpu_us, shards / triggers, partitions)
    transactions = triggers / turn.seconds
    trigger_busy = trigger_cores / triggers + turn.touched / turn.seconds * costs["trigger_touch"] / 1e6
    touches = transactions * turn.touched

    # The projector files a dispatch and an end of each execution, and each snapshot of a job.
    views = 2.0 + records["jobs"]
    projectors = max(2, math.ceil(busy * views * costs["projector"] / 1e6 / 0.5) + 1)
    gateways = max(2, math.ceil(busy * share * costs["gateway"] / 1e6 / 0.5) + 1)

    disk = {topic: load.mean_per_s * sizes[topic] * kept * REPLICAS / 1e12 for topic, kept in RETENTION_S.items()}
    live = load.pending + load.mean_per_s * share * ENDED_KEPT_S
    snapshot = costs.life["snapshot_bytes"] + 40
    disk["jobs"] += live * snapshot * REPLICAS / 1e12
    broker_cores = REPLICAS * busy * sum(records.values()) * costs["broker_record"] / 1e6
    broker_cores += REPLICAS * touches * costs["broker_touch"] / 1e6
    broker_disk = sum(disk.values())
    brokers = {
        "copies on three brokers": REPLICAS,
        "disk": math.ceil(broker_disk / (costs["broker_tb"] * costs["server_full"])),
        "cores": math.ceil(broker_cores / (costs["broker_cores"] * costs["server_busy"])),
    }

    # Index rows: of what is pending, of ended one-offs that wait for their removal, and of the last day.
    entry, timer = costs.life["create"]["store_bytes"]["insert_entry"], costs.life["end"]["store_bytes"]["insert_entry"]
    over = costs["row_overhead"]
    ended = load.mean_per_s * share * ENDED_KEPT_S
    timers = sum(costs.life[phase]["store"].get("insert_entry", 0) for phase in PHASES[1:])
    passed = load.mean_per_s * INDEX_KEPT_S * (entry + over + timers * share * (timer + over))
    store = {
        "schedule_index": (load.pending * (entry + over) + ended * (timer + over) + passed) * REPLICAS / 1e12,
        "jobs": live * (snapshot + over) * REPLICAS / 1e12,
        "jobs_by_tenant": live * (snapshot + over) * REPLICAS / 1e12,
        "runs": load.per_day * costs["history_days"] * (costs.run_row_bytes + over) * REPLICAS / 1e12,
    }
    job_rows = rows["upsert_job"] + rows["delete_job"]
    scattered = share * sum(costs.life[phase]["store"].get("insert_entry", 0) for phase in PHASES)
    node_us = (rows["insert_entry"] + rows["delete_entry"] - scattered) * costs["node_index"] + costs["node_read"]
    node_us += scattered * costs["node_scattered"]
    node_us += 2 * job_rows * costs["node_job"] + 2 * costs["node_run"]
    node_cores = REPLICAS * busy * node_us / 1e6
    nodes = {
        "copies on three nodes": REPLICAS,
        "disk": math.ceil(sum(store.values()) / (costs["node_tb"] * costs["server_full"])),
        "cores": math.ceil(node_cores / (costs["node_cores"] * costs["server_busy"])),
    }

    burst = load.peak if load.peak_s == 1 else load.peak * load.peak_s
    ahead = busy * AHEAD_S + burst
    under_way = burst + busy * costs["attempt_s"]
    mib = (
        costs["trigger_mib"]
        + (ahead * costs.memory["row_ahead_bytes"] + under_way * costs.memory["under_way_bytes"])
        / (triggers - 1)
        * costs.fullest("made", triggers)
        / 2**20
    )

    broker_n, broker_why = max((count, why) for why, count in brokers.items())
    node_n, node_why = max((count, why) for why, count in nodes.items())
    last_s = burst_s(costs, load, triggers - 1)
    peak_cores = load.peak * occurrence_us(costs) / 1e6
    lane_tenant = tenant_per_s(costs)
    holds = {
        "triggers' cores, one trigger lost": (triggers - 1) / (trigger_busy * triggers),
        "triggers, one on each shard": shards / trigger_cores,
        "brokers' cores, one broker lost": (broker_n - 1) * costs["broker_cores"] / broker_cores,
        "brokers' disks": broker_n * costs["broker_tb"] / broker_disk,
        "store's cores, one node lost": (node_n - 1) * costs["node_cores"] / node_cores,
        "store's disks": node_n * costs["node_tb"] / sum(store.values()),
        "workers, one on each partition": partitions * worker_per_s(costs) / (busy * costs["retries"]),
    }
    if load.peak_s == 1:
        holds[f"the burst out within {LATE_S:.0f} s, one trigger lost"] = LATE_S / last_s
        one = load.peak * costs["largest_tenant"]
        holds[f"one tenant's share of the burst started within {DRAIN_S:.0f} s"] = lane_tenant * DRAIN_S / one
    else:
        holds["the peak, one trigger lost"] = (triggers - 1) / peak_cores
        one = load.peak * costs["largest_tenant"] * load.peak_s
        holds[f"one tenant's share of the peak started within {DRAIN_S:.0f} s of it"] = (
            lane_tenant * (load.peak_s + DRAIN_S) / one
        )
    return Cluster(
        load=load,
        shards=shards,
        partitions=partitions,
        processes={
            "trigger": triggers, "worker": workers, "projector": projectors, "gateway": gateways,
            "broker": broker_n, "store node": node_n,
        },
        why={
            "trigger": f"{triggers_why}, and one to spare",
            "worker": workers_why,
            "projector": f"{views:.1f} rows an execution",
            "gateway": "all creates through REST; none of them where services write to the topic",
            "broker": broker_why,
            "store node": node_why,
        },
        turn=turn,
        disk_tb=disk,
        store_tb=store,
        rates={
            "executions a second, mean": load.mean_per_s,
            "executions a second, busiest hour": busy,
            "creates a second, busiest hour": busy * share,
            "records a second into the log": busy * sum(records.values()),
            "MB a second into the log, before copies": busy * sum(sizes.values()) / 1e6,
            "transactions a second": transactions,
            "transaction markers a second": touches,
            "brokers' cores": broker_cores,
            "rows a second into the store": busy * (sum(rows.values()) + job_rows + 2),
            "store's cores": node_cores,
            "triggers' cores, but for what their turns cost": trigger_cores,
            "of a trigger's core, with its turns": trigger_busy,
            "last of the burst after, s" if load.peak_s == 1 else "triggers' cores in the peak": (
                last_s if load.peak_s == 1 else peak_cores
            ),
        },
        memory_mib={"trigger": mib, **{role: costs.peak_mib[role] for role in costs.peak_mib if role != "trigger"}},
        log_partitions=SHARD_TOPICS * shards + LANES * partitions + SINGLE_TOPICS,
        holds_upto=dict(sorted(holds.items(), key=lambda one: one[1])),
    )  # fmt: skip
