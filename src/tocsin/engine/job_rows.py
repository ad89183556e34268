"""Jobs as read from their rows: which reads are under way, how long they take, and a bounded memory of answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job
from tocsin.ports.codec import RecordCodec

ROWS_KEPT_MAX: Final = 2_000
ROW_BYTES_KEPT_MAX: Final = 16_000_000
"""How many rows, and bytes of them, are kept after they were needed: commands often come in groups."""


@dataclass(frozen=True, slots=True)
class KnownRow:
    """What a row says.

    Attributes:
        job: None where there is no row, or a damaged one.
        damage: what is wrong with it, where it cannot be read.
        size: bytes of the row.
    """

    job: Job | None
    damage: str | None
    size: int


class JobRows:
    """The rows of one shard's jobs, as far as commands need them. A row is true until its job is filed anew."""

    def __init__(self, codec: RecordCodec, slow_after: Micros) -> None:
        self._codec = codec
        self._slow_after = slow_after
        self._rows: OrderedDict[str, KnownRow] = OrderedDict()
        self._bytes = 0
        self._asked: OrderedDict[str, Micros] = OrderedDict()
        """Reads under way, with when they began."""
        self._aside: set[str] = set()
        """Those under way that no command waits for."""
        self._answered_at: Micros = 0

    @property
    def under_way(self) -> int:
        """How many reads for commands have not been answered."""
        return len(self._asked) - len(self._aside)

    def is_asked(self, job_id: str) -> bool:
        return job_id in self._asked

    def ask(self, job_id: str, now: Micros, *, aside: bool = False) -> None:
        """The read of a row begins now; ``aside``: no command waits for it."""
        self._asked[job_id] = now
        if aside:
            self._aside.add(job_id)

    def answered(self, job_id: str, snapshot: bytes | None, now: Micros) -> bool:
        """Keep an answer; tell whether it was waited for."""
        if self._asked.pop(job_id, None) is None:
            return False
        aside = job_id in self._aside
        self._aside.discard(job_id)
        self._answered_at = max(self._answered_at, now)
        self.forget(job_id)
        row = self._read(snapshot, self._codec.decode_stored_job if aside else self._codec.decode_job)
        self._rows[job_id] = row
        self._bytes += row.size
        return True

    def get(self, job_id: str) -> KnownRow | None:
        return self._rows.get(job_id)

    def forget(self, job_id: str) -> None:
        """The job was filed anew, or its row is of no use."""
        row = self._rows.pop(job_id, None)
        if row is not None:
            self._bytes -= row.size

    def trim(self) -> None:
        """Forget the oldest answers beyond the bounds; between steps only, for a step may need what it was given."""
        while len(self._rows) > ROWS_KEPT_MAX or self._bytes > ROW_BYTES_KEPT_MAX:
            self.forget(next(iter(self._rows)))

    def is_slow(self, job_id: str, now: Micros) -> bool:
        """Tell whether a row is not to be waited for: its read takes long, or the store answers nobody."""
        asked_at = self._asked.get(job_id)
        if asked_at is not None and now - asked_at >= self._slow_after:
            return True
        if not self._asked:
            return False
        oldest = next(iter(self._asked.values()))
        return now - max(oldest, self._answered_at) >= self._slow_after

    def _read(self, snapshot: bytes | None, decode: Callable[[bytes], Job]) -> KnownRow:
        if snapshot is None:
            return KnownRow(None, None, 0)
        try:
            # What a row says is acknowledged, the deletes of the rows that it replaced included.
            return KnownRow(replace(decode(snapshot), replaced=()), None, len(snapshot))
        except Undecodable as error:
            return KnownRow(None, str(error)[:300], len(snapshot))
