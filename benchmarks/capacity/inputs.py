"""What the model reckons with: each figure with where it is from. Nothing is measured here, and nothing typed in but
what is assumed, which says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from tocsin.ports.shard_log import COMMANDS

Results = Mapping[str, Mapping[str, Any]]
"""The figures of each result, by its name."""


class From(StrEnum):
    """Where a figure is from."""

    MEASURED = "measured"
    STAND_IN = "stand-in"
    """Put together from parts that were measured, for the whole was not."""
    ASSUMED = "assumed"


@dataclass(frozen=True)
class Input:
    """One figure."""

    what: str
    value: float
    unit: str
    origin: From
    source: str


PHASES: Final = ("create", "load", "fire", "report", "end", "remove")
REPLICAS: Final = 3
DRIVEN: Final = "peak, started anew and driven, MiB"
"""The table of the result ``memory`` that counts."""

ASSUMED: Final = {
    "busy_hour": Input("rate of the busiest hour, to the mean", 2.0, "", From.ASSUMED, "people sleep; measure yours"),
    "one_offs": Input(
        "share of executions that are one-offs", 0.87, "", From.ASSUMED, "200 M of 230 M a day; the rest recurs"
    ),
    "attempt_s": Input("how long an attempt takes", 0.2, "s", From.ASSUMED, "an HTTP call; yours decides the workers"),
    "retries": Input("attempts for each execution", 1.05, "", From.ASSUMED, "a twentieth fails once"),
    "largest_tenant": Input("share of a burst that is one tenant's", 0.1, "", From.ASSUMED, "as in the simulation"),
    "trigger_busy": Input("of a trigger's core, in the busiest hour", 0.5, "", From.ASSUMED, "rule of headroom"),
    "server_busy": Input("of a server's cores, in the busiest hour", 0.5, "", From.ASSUMED, "rule of headroom"),
    "server_full": Input("of a server's disk", 0.6, "", From.ASSUMED, "compaction and a lost neighbour need the rest"),
    "broker_cores": Input("cores of a broker", 8, "", From.ASSUMED, "a usual size"),
    "broker_tb": Input("disk of a broker", 4, "TB", From.ASSUMED, "a usual size"),
    "node_cores": Input("cores of a store node", 16, "", From.ASSUMED, "a usual size"),
    "node_tb": Input("disk of a store node", 4, "TB", From.ASSUMED, "what one node serves and repairs well"),
    "row_overhead": Input("what a store adds to a row's values", 40, "bytes", From.ASSUMED, "names, times, keys"),
    "batch_overhead": Input(
        "what a broker adds to a record", 12, "bytes", From.ASSUMED, "its format; lz4 is not counted"
    ),
    "history_days": Input("days of history looked at", 90, "", From.ASSUMED, "nothing deletes `runs`"),
}


def figure(results: Results, name: str, *path: str) -> Any:
    """Return a figure of a result, or None where it is not there."""
    found: Any = results.get(name)
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


class Costs:
    """The figures, looked up in results."""

    def __init__(self, results: Results) -> None:
        self._results = results
        own = results["capacity"]
        self.life: Mapping[str, Any] = own["one_offs"]
        self.recurring: Mapping[str, Any] = own["recurring"]
        self.log: Mapping[str, Any] = own["servers"]["log"]
        self.store: Mapping[str, Any] = own["servers"]["store"]
        self.spread: Mapping[str, Any] = own["spread"]
        self.memory: Mapping[str, Any] = own["memory"]
        self.turn: Mapping[str, Any] = own["turn"]
        self.run_row_bytes = float(own["run_row_bytes"])
        self.inputs: dict[str, Input] = dict(ASSUMED)
        self._take_triggers()
        self._take_roles()
        self._take_servers()

    def __getitem__(self, key: str) -> float:
        return self.inputs[key].value

    def _take(self, key: str, what: str, unit: str, whole: tuple[str, ...], parts: float | None, of: str) -> None:
        found = figure(self._results, *whole)
        if found is not None:
            self.inputs[key] = Input(what, float(found), unit, From.MEASURED, f"`{whole[0]}.json`")
        elif parts is not None:
            self.inputs[key] = Input(what, round(parts, 1), unit, From.STAND_IN, of)

    def _phase(self, phases: Mapping[str, Any], phase: str) -> float:
        """Return µs of a trigger for a phase: its engine and loop, and its clients for what is sent, read and filed."""
        one = phases[phase]
        # What was read: the command, the report, or the owner's own command that many share.
        read = 1 if phase in ("create", "report") else one["records"].get(COMMANDS, 0)
        records = sum(one["records"].values()) + read
        store = self.store
        rows = one["store"]
        clients = records * self.log["per_record"]["client_cpu_us"]
        entries = rows.get("insert_entry", 0) + rows.get("delete_entry", 0)
        # What is created, or ended, is due at any time; what recurs, at the times of many.
        kind = "index_row_written" if phases is self.recurring else "index_row_scattered"
        clients += entries * store[kind]["client_cpu_us"]
        clients += (rows.get("upsert_job", 0) + rows.get("delete_job", 0)) * store["job_row_written"]["client_cpu_us"]
        clients += store["index_row_read"]["client_cpu_us"] if phase == "load" else 0
        return float(one["cpu_us"] + clients)

    def _take_triggers(self) -> None:
        of = "`capacity.json`: the engine in memory, and its clients"
        for phase in PHASES:
            whole = ("create", "topic", "trigger_cpu_us_per_create") if phase == "create" else ("", "")
            name = {
                "load": "reading a row ahead",
                "fire": "a fire",
                "end": "the end of a one-off",
                "remove": "its removal",
            }
            what = f"trigger, {name.get(phase, f'a {phase}')}"
            self._take(f"trigger_{phase}", what, "µs", whole, self._phase(self.life, phase), of)
        self._take(
            "trigger_fire_again", "trigger, a fire of a recurring job and its successor", "µs", ("", ""),
            self._phase(self.recurring, "fire"), of,
        )  # fmt: skip
        burst = figure(self._results, "burst", "n=50000", "executions_per_s")
        if burst is not None:
            self.inputs["burst_per_s"] = Input(
                "fires of one trigger in a burst", float(burst), "/s", From.MEASURED, "`burst.json`, n=50000"
            )
        else:
            self._take("burst_per_s", "fires of one trigger in a burst", "/s", ("", ""), 1e6 / self["trigger_fire"], of)

    def _take_roles(self) -> None:
        self._take("worker_http", "worker, an HTTP attempt", "µs", ("worker", "http", "cpu_us_worker"), None, "")
        self._take("worker_handler", "worker, a handler's", "µs", ("worker", "handler", "cpu_us_worker"), None, "")
        row = self.store["run_row_written"]["client_cpu_us"] + self._results["capacity"]["codec"]["decode_event"]
        of = "`capacity.json`: decoding an event, and the store's client"
        self._take("projector", "projector, a row", "µs", ("history", "projector_cpu_us_per_event"), row, of)
        self._take("gateway", "gateway, a create", "µs", ("create", "rest", "gateway_cpu_us_per_create"), None, "")
        # The most of each role with any number of jobs pending, for that does not change it.
        driven = figure(self._results, "memory", DRIVEN) or {}
        self.peak_mib: dict[str, float] = {
            role: max(float(column[role]) for column in driven.values()) for role in next(iter(driven.values()), {})
        }
        for role, mib in self.peak_mib.items():
            key = "trigger_mib" if role == "trigger" else f"{role}_mib"
            self.inputs[key] = Input(
                f"{role}, its peak while driven a little", mib, "MiB", From.MEASURED, "`memory.json`"
            )
        for key, what, value, unit in (
            ("gateway", "gateway, a create", 1_500, "µs"),
            ("trigger_mib", "trigger, before it has jobs", 200, "MiB"),
        ):
            self.inputs.setdefault(key, Input(what, value, unit, From.ASSUMED, "not measured yet"))

    def _take_servers(self) -> None:
        log, store = self.log, self.store
        few, many = log["transaction_of_16"]["server_cpu_us"], log["transaction_of_256"]["server_cpu_us"]
        servers = {
            "trigger_touch": (
                "trigger, a partition that its turn touches",
                (log["transaction_of_256"]["client_cpu_us"] - log["transaction_of_16"]["client_cpu_us"]) / 240,
            ),
            "broker_record": ("broker, a record in a large batch", log["per_record"]["server_cpu_us"]),
            "broker_touch": ("broker, a partition that a transaction touches, with its marker", (many - few) / 240),
            "broker_transaction": ("broker, a transaction of one partition", log["transaction_of_1"]["server_cpu_us"]),
            "node_index": (
                "store node, an index row, of many in its minute",
                store["index_row_written"]["server_cpu_us"],
            ),
            "node_scattered": (
                "store node, an index row of a minute of its own",
                store["index_row_scattered"]["server_cpu_us"],
            ),
            "node_read": ("store node, an index row read", store["index_row_read"]["server_cpu_us"]),
            "node_job": ("store node, a row of jobs written", store["job_row_written"]["server_cpu_us"]),
            "node_run": ("store node, a row of runs written", store["run_row_written"]["server_cpu_us"]),
        }
        for key, (what, value) in servers.items():
            self.inputs[key] = Input(what, round(value, 1), "µs", From.MEASURED, "`capacity.json`, one server alone")

    def transaction_ms(self, touched: float) -> float:
        """Return how long a transaction takes that touches so many partitions, between what was measured."""
        points = [(n, float(self.log[f"transaction_of_{n}"]["ms_p50"])) for n in (1, 16, 64, 256)]
        for (low, low_ms), (high, high_ms) in pairwise(points):
            if touched <= high or high == points[-1][0]:
                return low_ms + (max(touched, 1) - low) / (high - low) * (high_ms - low_ms)
        raise AssertionError("the last pair reaches as far as one likes")

    def fullest(self, kind: str, parts: int) -> float:
        """Return the fullest of so many parts to the mean, as simulated: of the next larger number of parts."""
        known = self.spread["shards"][kind]
        sizes = sorted(map(int, known))
        size = next((size for size in sizes if size >= parts), sizes[-1])
        return float(known[str(size)][1])
