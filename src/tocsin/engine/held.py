"""Due entries that wait in the state because commands of their job are parked.

The cursor passes such an entry in the turn in which it is put into the state, so the shard goes on; it counts as not
decided wherever the present row of its job is asked for, and nothing is derived from it before it is decided. So no
watermark of successors passes it: after a crash its row is what the next one is derived from.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Final

from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.shard_records import WorkItem
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState

HELD: Final = "held"
"""Kind of the work items that hold entries back; nothing goes on with them but the end of their job's parking."""


class HeldEntries:
    """Due entries whose jobs have undecided commands."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._by_job: dict[str, list[Entry]] = {}
        for item in state.work.values():
            if item.kind == HELD:
                entry = _entry_of(item)
                self._by_job.setdefault(entry.job_id, []).append(entry)

    def jobs(self) -> list[str]:
        return list(self._by_job)

    def has(self, job_id: str) -> bool:
        return job_id in self._by_job

    def key_of(self, job_id: str, version: int) -> EntryKey | None:
        """Return the key of the entry that is held of a job at a version, or None."""
        for entry in self._by_job.get(job_id, ()):
            if entry.version == version:
                return entry.key
        return None

    def decided_upto(self, cursor: Place) -> Place:
        """Return the place up to which nothing is held, at most the cursor."""
        for entries in self._by_job.values():
            for entry in entries:
                cursor = min(cursor, Place(entry.run_at, entry.job_id, entry.scheduled_for - 1))
        return cursor

    def hold(self, step: Step, entry: Entry) -> None:
        """Set an entry aside."""
        item = _item_of(entry)
        self._state.work[item.id] = item
        self._by_job.setdefault(entry.job_id, []).append(entry)
        step.work.append(item)
        step.turn = True

    def take(self, step: Step, job_id: str) -> list[Entry]:
        """Take out what is held of a job, to be decided in this very step."""
        entries = self._by_job.pop(job_id, [])
        for entry in entries:
            item_id = _item_id(entry)
            self._state.work.pop(item_id, None)
            step.work_done.append(item_id)
            step.turn = True
        return entries


def _item_id(entry: Entry) -> str:
    return f"{HELD}.{entry.run_at}.{entry.job_id}.{entry.version}.{entry.scheduled_for}"


def _item_of(entry: Entry) -> WorkItem:
    # No job is named: what becomes of it is decided by the parked commands, not by whoever looks after a job's work.
    fields = entry._replace(execution=b64encode(entry.execution))
    data = json.dumps([part.decode() if isinstance(part, bytes) else part for part in fields])
    return WorkItem(_item_id(entry), HELD, None, data)


def _entry_of(item: WorkItem) -> Entry:
    entry = Entry(*json.loads(item.data))
    return entry._replace(execution=b64decode(entry.execution))
