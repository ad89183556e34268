"""What the oracle knows of one job, and what is said of commands about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.zones import Change, zoned
from tocsin.domain import ids
from tocsin.domain.catch_up import SkipReason
from tocsin.domain.commands import Command, OutcomeDetail
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.entries import Place
from tocsin.domain.firing import FiringPlan, plan_of, plan_text
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.schedules import Delay, RunAt

EPOCH = 1
SHARDS = 2


OUTLIVED: Micros = 60 * SECOND
"""What is queued so long is dispatched again."""
CLOCKS_APART = 10 * SECOND
"""More than any owner's clock is behind the broker's."""
TOLD_BY_COMMANDS = (SkipReason.PAUSED, SkipReason.UPDATED, SkipReason.DELETED)


def times_of(plan: FiringPlan, after: Micros, upto: Micros) -> list[Micros]:
    """Return the occurrences after one instant, up to and including another, by walking."""
    times: list[Micros] = []
    at = plan.next_after(after)
    while at is not None and at <= upto:
        times.append(at)
        at = plan.next_after(at)
    return times


class Asked(NamedTuple):
    """A command in the log, not answered yet."""

    shard: int
    offset: int
    at: Micros
    command_id: str
    command: Command

    @property
    def job_id(self) -> str:
        """Return the job that it concerns, empty where that is not said."""
        command = self.command
        tenant_id = command.tenant_id or ids.DEFAULT_TENANT
        key = (command.definition or {}).get("idempotency_key")
        if command.job_id is None:
            return ids.keyed_job_id(tenant_id, key) if command.kind == "create" and key else ""
        return ids.full_job_id(tenant_id, command.job_id) or ""


class Cursors(NamedTuple):
    """A shard's cursor as the turn before a decision left it, and as the turn of the decision did."""

    before: Place
    after: Place


class Refusal(Exception):
    """What the oracle expects a command to be refused with."""

    def __init__(self, detail: OutcomeDetail) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(slots=True)
class Known:
    """A job.

    Attributes:
        once: nominal time of a one-off that is not decided; of a paused one, when it would have fired.
        is_late: it was behind the cursor when it was asked for, so the cursor does not say when it is decided.
        base: the occurrences of a recurring job past this place are owed.
        done: they were looked at up to here.
        late: those that were behind the cursor when the job was created, and are not decided.
        maybe: those that a change may or may not have passed over: the cursor that it met lies between two commits.
        decided: nominal times that fired or were skipped, over all versions.
        doubtful: of those, what counts as decided since an edit, though a row of former zone data may stand for it.
        stood_upto: a late run stood for all up to here, so a change may begin only after it.
        begun_upto: what an earlier version began to catch up with may have stood for all up to here.
        zones: by which zone data its shard goes.
        moving: nominal times that it may be filed under by former zone data, and from when on those do not count.
        plans: of each version, while it was or is the present one.
        is_loose: some of ``maybe`` may have been held back, as further commands are parked, and be decided later.
    """

    job_id: str
    shard: int
    version: int
    created_version: int
    created_at: Micros
    state: str
    definition: JobDefinition
    body: dict[str, Any]
    plan: FiringPlan
    once: Micros | None = None
    is_late: bool = False
    base: Place = Place(0, "", 0)
    done: Place = Place(0, "", 0)
    late: set[Micros] = field(default_factory=set)
    maybe: set[Micros] = field(default_factory=set)
    decided: set[Micros] = field(default_factory=set)
    doubtful: set[Micros] = field(default_factory=set)
    is_loose: bool = False
    stood_upto: Micros = 0
    begun_upto: Micros = 0
    zones: list[Change] = field(default_factory=list)
    moving: dict[Micros, Micros] = field(default_factory=dict)
    plans: dict[int, FiringPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plans[self.version] = self.plan

    def become(self, version: int, state: str) -> None:
        """Go on under the version that a command has made; its definition is there already."""
        self.version, self.state = version, state
        self.plans[version] = self.plan

    @property
    def is_one_off(self) -> bool:
        return isinstance(self.definition.schedule, RunAt | Delay)

    def place(self, at: Micros) -> Place:
        return Place(at, self.job_id, at)

    def define(self, definition: JobDefinition) -> None:
        self.definition = definition
        self.plan = zoned(plan_of(plan_text(definition, self.job_id, self.created_at)), self.zones)

    def go_by(self, zones: list[Change]) -> None:
        """Read all plans by zone data."""
        self.zones = zones
        self.plan = zoned(self.plan, zones)
        self.plans = {version: zoned(plan, zones) for version, plan in self.plans.items()}

    def change_zone_data(self, at: Micros) -> None:
        """Go by the last of its shard's zone data from an instant on; where a row was filed under the former, it may
        still be."""
        row = self.plan.next_after(at - 1)
        self.go_by(self.zones)
        if row is not None and row != self.moved(at) and not self.is_one_off:
            self.moving[row] = at

    def moved(self, at: Micros) -> Micros | None:
        return self.plan.next_after(at - 1)

    def is_owed(self, at: Micros) -> bool:
        return self.plan.next_after(at - 1) == at

    def is_overdue(self, row: Micros, cursor: Place) -> bool:
        """Tell whether what a row of former zone data stands for was due before, and is not decided."""
        first = self.moved(self.moving[row])
        return first is not None and first < row and self.place(first) <= cursor and first not in self.decided

    def stands_behind(self, at: Micros) -> bool:
        """Tell whether an occurrence may wait for a row of former zone data."""
        firsts = ((self.moved(since), row) for row, since in self.moving.items())
        return any(first is not None and first <= at < row for first, row in firsts)

    def awaits_row(self) -> bool:
        """Tell whether something late waits for a row of former zone data that is still to come."""
        rows = [(self.moved(since), row) for row, since in self.moving.items() if self.place(row) > self.done]
        return any(first is not None and first <= at < row for first, row in rows for at in self.late)

    def owe_from(self, at: Micros, cursors: Cursors) -> None:
        """Owe what is past the cursor and after the command at hand."""
        self.base = self.done = max(cursors.before, Place.before(at + 1))
        self.late, self.is_loose, self.moving = set(), False, {}
        self.maybe = set(times_of(self.plan, self.base.run_at - 1, max(cursors.after.run_at, self.stood_upto)))

    def next_owed(self, cursor: Place) -> Micros | None:
        """Return the nominal time of the one row past the cursor, where there is one."""
        if self.state != "ACTIVE":
            return None
        if self.is_one_off:
            return self.once
        late = [row for row in self.moving if self.place(row) > cursor and self.is_overdue(row, cursor)]
        if late:
            return late[0]
        at = self.plan.next_after(max(self.base.run_at - 1, cursor.run_at - 1))
        while at is not None and (self.place(at) <= max(cursor, self.base) or at in self.decided):
            at = self.plan.next_after(at)
        return at
