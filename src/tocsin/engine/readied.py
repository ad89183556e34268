"""Works out ahead of time what of a due entry does not depend on when, and by which turn, it is fired.

A burst is sorted before it is due; what its records will hold is put together then as well. Whatever comes later, or
was not foreseen, is worked out when it is fired, with the same result: here is nothing that could be out of date.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from tocsin.domain.entries import Entry
from tocsin.domain.executions import dispatch_key_begin
from tocsin.domain.instants import SECOND, Micros

DOTS: Final = 2
"""In the id of an execution that its job's schedule asked for: before the first version of its job, and behind it."""
AT_ONCE: Final = 5_000
"""So many are worked out in one step, 6 ms: whatever comes meanwhile waits for it."""


class Readied(NamedTuple):
    """An entry that may be plain, by what it is itself.

    Attributes:
        entry: it.
        job: as ``Actives`` name its job.
        where: its lane and its tenant.
        spread: decides among their partitions.
        key_begin: what the key of its record begins with.
        rest: its execution, without what firing stamps.
        run_at: when it is due.
    """

    entry: Entry
    job: str
    job_id: str
    execution_id: str
    where: tuple[str, str]
    spread: int
    key_begin: str
    rest: bytes
    plan: str
    run_at: Micros


class ReadyEntries:
    """What is worked out for the entries of one second, the next.

    Args:
        unsent: what executions begin with that were never sent.
        fewest: fewer are not worth it.
    """

    def __init__(self, unsent: bytes, fewest: int) -> None:
        self._unsent = unsent
        self._fewest = fewest
        self._entries: list[Entry] = []
        self._readied: list[Readied | None] = []
        """Of the first of these."""

    def get_ready(self, entries: Sequence[Entry]) -> None:
        """Work out some of what is to come next, given in firing order and all of one second; forget all else.

        A second that has grown is begun with anew only when there is twice as much in it.
        """
        known = self._entries
        if len(entries) < self._fewest:
            self._entries, self._readied = [], []
        elif not known or _second(entries[0]) != _second(known[0]) or len(entries) >= 2 * len(known):
            self._entries, self._readied = list(entries), []
        begin = len(self._readied)
        self._readied += self._work_out(self._entries[begin : begin + AT_ONCE])

    def of(self, due: list[Entry]) -> Sequence[Readied | None]:
        """Return what is worked out for due entries, one for one; None for what can not be plain."""
        begin = bisect_left(self._entries, due[0][:4], key=_key)
        end = begin + len(due)
        if end <= len(self._readied) and self._entries[begin:end] == due:
            return self._readied[begin:end]
        return self._work_out(due)

    def _work_out(self, entries: Iterable[Entry]) -> list[Readied | None]:
        unsent, length, made = self._unsent, len(self._unsent), tuple.__new__
        places: dict[tuple[str, str], tuple[str, str]] = {}
        readied: list[Readied | None] = []
        times: dict[Micros, Micros] = {}
        for entry in entries:
            try:
                run_at, job_id, _, _, execution_id, tenant_id, lane, execution, plan = entry
                if "~" in job_id or execution_id.count(".") != DOTS or not execution.startswith(unsent):
                    readied.append(None)
                    continue
                where = lane, tenant_id
                job, dot, nominal = execution_id.rpartition(".")
                # Made anew: what is fired together then lies together, and rows were read or created in any order.
                execution_id = job + dot + nominal
                # A text keeps its hash once it was asked for; firing puts both into dicts.
                hash(job), hash(execution_id)
                one = (
                    entry,
                    job,
                    job_id,
                    execution_id,
                    places.setdefault(where, where),
                    crc32(job_id.encode()),
                    dispatch_key_begin(tenant_id, execution_id),
                    execution[length:],
                    plan,
                    times.setdefault(run_at, run_at),
                )
                readied.append(made(Readied, one))
            except (AttributeError, TypeError, ValueError):
                # A damaged row may hold anything.
                readied.append(None)
        return readied


def _second(entry: Entry) -> int:
    return entry.run_at // SECOND


def _key(entry: Entry) -> tuple[int, str, int, int]:
    return entry[:4]
