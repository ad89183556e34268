"""What the oracle makes of zone data that change: which rows may still be filed by the former ones, and until when."""

from __future__ import annotations

import json
from collections import defaultdict

from tests.simulation.broker import Violation
from tests.simulation.known_job import EPOCH, Asked, Known
from tests.simulation.zones import Change
from tocsin.domain import ids
from tocsin.domain.entries import Place
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import WorkItem


class ZoneChanges:
    """The zone data of all shards.

    Attributes:
        of: by shard: by which it goes.
    """

    def __init__(self, jobs: defaultdict[int, list[Known]]) -> None:
        self.of: defaultdict[int, list[Change]] = defaultdict(list)
        self._jobs = jobs
        self._have_moved: set[int] = set()
        """Shards whose last turn told the end of moving."""

    def take(self, shard: int, work: list[WorkItem], cursor: Place) -> None:
        """Take in what a turn says of a shard's zone data; ``cursor``: before it."""
        if shard in self._have_moved:
            # All that was not late by then has moved.
            self._have_moved.discard(shard)
            for job in self._jobs[shard]:
                job.moving = {row: at for row, at in job.moving.items() if job.is_overdue(row, cursor)}
        for item in work:
            if item.kind == "zone_era":
                tables = next(one for one in work if one.kind == "zone_tables")
                change = Change(json.loads(item.data)["at"], json.loads(tables.data)["release"])
                self.of[shard].append(change)
                for job in self._jobs[shard]:
                    job.change_zone_data(change.at)
            elif item.kind == "move_filed" and json.loads(item.data)["done"]:
                self._have_moved.add(shard)

    def awaits_rows(self) -> bool:
        """Tell whether rows are to come that were not moved in time, and stand for what was due before."""
        return any(job.state == "ACTIVE" and job.awaits_row() for jobs in self._jobs.values() for job in jobs)


def move(job: Known, asked: Asked, state: str) -> None:
    """An owner has moved a job by a command of its own."""
    if asked.command.if_version != job.version or state != "ACTIVE" or not job.moving:
        raise Violation(f"{asked.command_id} {asked.command.kind} {asked.job_id} was carried out on {job}")
    job.become(ids.version_of(EPOCH, asked.offset), state)
    job.moving = {}


def give_way(job: Known, row: Micros, now: Micros) -> None:
    """A row of former zone data was passed over for a time to come."""
    later = job.moved(job.moving[row]) if row in job.moving else None
    if later is None or later <= row or row > now or row in job.decided:
        raise Violation(f"{job.job_id} at {row} gave way to {later}, it is {now}: {job}")
    job.decided.add(row)


def edit_late(job: Known) -> None:
    """A job was edited, and its times were not: a row that is late already stays, and nobody knows any more what else
    it stands for."""
    stands_behind = {at for at in job.late if job.stands_behind(at) and job.is_owed(max(job.moving))}
    job.doubtful |= stands_behind
    job.decided |= stands_behind
    job.late -= job.decided
