"""A world with jobs that overlap, and what tests ask of it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.trigger.world import CODEC, TARGET, World
from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.executions import Execution, ExecutionEvent
from tocsin.domain.fleet import Cancel
from tocsin.domain.shard_records import Active
from tocsin.engine.engine_limits import EngineLimits
from tocsin.ports.shard_log import EVENTS, WORKER_CONTROL


class OverlapWorld(World):
    """A cluster of one shard, begun."""

    def __init__(self, limits: EngineLimits | None = None, shards: int = 1) -> None:
        super().__init__(shards, limits)
        self.start()
        self._uuids = 0

    def manual(self, concurrency: str, group: str | None = None, **fields: object) -> str:
        """Create a job that runs by triggers; return its id."""
        return self.job(concurrency, group, **fields)

    def job(self, concurrency: str, group: str | None = None, **fields: object) -> str:
        """Create a job; return its id."""
        definition = {"target": TARGET, "concurrency": concurrency, **fields}
        self._uuids += 1
        if group is None:
            job_id = self._new_id()
            self._ids += 1
        else:
            job_id = ids.grouped_job_id("default", group, f"{self.clock.now() // 1000:012x}{self._uuids:020x}")
            definition["concurrency_group"] = group
        command_id = f"create{self._uuids}"
        self.send(Command("create", command_id, job_id, None, 0, definition))
        self.settle()
        assert self.outcomes()[command_id].accepted, self.outcomes()[command_id].faults
        return job_id

    def trigger(self, job_id: str) -> str:
        """Trigger a job; return the execution's id, empty where that was refused."""
        command_id = self.order("trigger", job_id)
        self.settle()
        outcome = self.outcomes()[command_id]
        return outcome.execution_id or "" if outcome.accepted else ""

    def cancel(self, execution_id: str, **fields: object) -> tuple[bool, str]:
        """Cancel an execution; return what its owner says."""
        job_id = execution_id.split(".", 1)[0]
        command_id = self.order("cancel", job_id, execution_id=execution_id, **fields)
        self.settle()
        outcome = self.outcomes()[command_id]
        return outcome.accepted, outcome.detail

    def dispatch_of(self, execution_id: str) -> Execution:
        """Return an execution's latest dispatch."""
        return [e for e in self.executions() if e.head.execution_id == execution_id][-1]

    def end(self, execution_id: str, kind: str = "SUCCEEDED", **changes: object) -> None:
        """Report that an execution's latest attempt has ended."""
        self.report(self.dispatch_of(execution_id), kind, **changes)
        self.settle()

    def started(self) -> list[str]:
        """Ids of executions in the order of their dispatches."""
        return [e.head.execution_id for e in self.executions()]

    def events(self, execution_id: str | None = None) -> list[ExecutionEvent]:
        found = [CODEC.decode_event(record.value) for record in self.log.all(EVENTS)]
        return [event for event in found if execution_id in (None, event.head.execution_id)]

    def story(self, execution_id: str) -> Sequence[tuple[str, str | None]]:
        """States of an execution with their reasons."""
        return [(event.state, event.reason) for event in self.events(execution_id)]

    def cancels(self) -> list[Cancel]:
        return [CODEC.decode_cancel(record.value) for record in self.log.all(WORKER_CONTROL)]

    def active(self) -> dict[str, Active]:
        return {name: one for engine in self.engines.values() for name, one in engine.state.active.items()}
