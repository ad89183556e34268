"""What the owner decides without a report: of leases whose deadline has passed, or whose holder is gone, and of
dispatches that no worker took up and whose record will soon be deleted.

A report may be in the log already, and not read yet. So a verdict is made in two steps: once it is due, the end of the
shard's reports is asked for, as an uncommitted reader sees it; when everything below that end has been applied, and
the lease still stands as it was, it is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.shard_records import Phase
from tocsin.engine.actives import Actives
from tocsin.engine.effects import Step
from tocsin.engine.engine_limits import EngineLimits
from tocsin.engine.losses import Losses
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.stops import Stops
from tocsin.engine.suspects import EXECUTION, Suspect

VERDICTS_MAX = 5_000
"""How many leases are judged at once."""


@dataclass(frozen=True, slots=True)
class Docket:
    """What is to be decided once the reports are read to ``end``; None: the end is asked for and not known yet."""

    expired: tuple[tuple[str, Micros], ...]
    lost: tuple[tuple[str, str], ...]
    outlived: tuple[tuple[str, Micros], ...] = ()
    overdue: tuple[tuple[str, Micros], ...] = ()
    end: int | None = None


class Verdicts:
    """The pending verdicts of one shard; one docket at a time."""

    def __init__(
        self, actives: Actives, reports: ReportDesk, losses: Losses, stops: Stops, limits: EngineLimits
    ) -> None:
        self._stops = stops
        self._outlived_after = round(limits.outlived_after_s * SECOND)
        self._look_every = round(limits.outlived_look_s * SECOND)
        self._aged_at: Micros = 0
        self._actives = actives
        self._reports = reports
        self._losses = losses
        self._docket: Docket | None = None

    def decide(
        self, step: Step, reports_end: int | None, reports_seen: int, silent: frozenset[str], bytes_max: int
    ) -> None:
        """Go on with the docket at hand, or open one where something is due.

        Args:
            step: the present one.
            reports_end, reports_seen, silent: see ``shard_engine.Arrivals``.
            bytes_max: of what verdicts lead to in one step, roughly; what is left over is judged in the next.
        """
        if self._docket is None:
            self._open(step, silent)
        elif self._docket.end is None:
            if reports_end is None:
                step.ask_reports_end = True
            else:
                self._docket = replace(self._docket, end=reports_end)
        docket = self._docket
        # Markers and aborted records leave no report to apply, so what was seen may be more than what was applied.
        if docket is not None and docket.end is not None and self._reports.read_upto(reports_seen) >= docket.end:
            self._docket = self._judge(step, docket, step.bytes + bytes_max)

    def _open(self, step: Step, silent: frozenset[str]) -> None:
        due = self._actives.due(step.now, Phase.LEASED, VERDICTS_MAX)
        expired = []
        for execution_id in due:
            one = self._actives.get(execution_id)
            assert one is not None, "timers of ended executions are dropped"
            expired.append((execution_id, one.wake_at))
            self._actives.wake_again(execution_id)
        lost = [(execution_id, holder) for holder in sorted(silent) for execution_id in self._actives.held_by(holder)]
        outlived: list[tuple[str, Micros]] = []
        if step.now >= self._aged_at + self._look_every:
            outlived = self._actives.queued_since(step.now - self._outlived_after, VERDICTS_MAX)
            # More than one docket holds: the rest is looked for as soon as this one is decided.
            self._aged_at = step.now if len(outlived) < VERDICTS_MAX else 0
        overdue = self._actives.overdue(step.now, VERDICTS_MAX)
        if expired or lost or outlived or overdue:
            self._docket = Docket(tuple(expired), tuple(lost[:VERDICTS_MAX]), tuple(outlived), tuple(overdue))
            step.ask_reports_end = True

    def _judge(self, step: Step, docket: Docket, upto: int) -> Docket | None:
        """Decide what stands as it did when the docket was opened; return what there was no room for."""
        for done, (execution_id, holder) in enumerate(docket.lost):
            if step.bytes >= upto:
                return replace(docket, lost=docket.lost[done:])
            one = self._actives.get(execution_id)
            if one is not None and one.phase == Phase.LEASED and one.holder == holder:
                step.at_hand = Suspect(EXECUTION, execution_id)
                self._losses.lose(step, execution_id)
        for done, (execution_id, wake_at) in enumerate(docket.expired):
            if step.bytes >= upto:
                return replace(docket, lost=(), expired=docket.expired[done:])
            one = self._actives.get(execution_id)
            if one is not None and one.phase == Phase.LEASED and one.wake_at == wake_at:
                step.at_hand = Suspect(EXECUTION, execution_id)
                self._reports.expire(step, execution_id)
        for done, (execution_id, published_at) in enumerate(docket.outlived):
            if step.bytes >= upto:
                return replace(docket, lost=(), expired=(), outlived=docket.outlived[done:])
            one = self._actives.get(execution_id)
            if one is not None and one.phase == Phase.QUEUED and one.published_at == published_at:
                step.at_hand = Suspect(EXECUTION, execution_id)
                self._losses.outlive(step, execution_id)
        for done, (execution_id, ends_by) in enumerate(docket.overdue):
            if step.bytes >= upto:
                return replace(docket, lost=(), expired=(), outlived=(), overdue=docket.overdue[done:])
            one = self._actives.get(execution_id)
            if one is not None and one.ends_by == ends_by:
                step.at_hand = Suspect(EXECUTION, execution_id)
                self._stops.overdue(step, execution_id)
        return None
