"""Dispatches that came to nothing: given back, lost with their workers, or about to outlive their lane's topic.

What may have run is made again, later with each loss, marked as a redelivery; under ``at_most_once`` it ends UNKNOWN
instead. A dispatch that was lost twice is run alone, and if processes die of it then, it ends as a dead letter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tocsin.domain.executions import REAPED, AttemptError, AttemptReport, ReportKind, Started
from tocsin.domain.retries import loss_delay
from tocsin.domain.shard_records import Active, Phase
from tocsin.domain.targets import MessageTarget, lane_of
from tocsin.engine.actives import Actives
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.endings import MAY_HAVE_RUN, Endings, LogPlace
from tocsin.engine.returns import Returns
from tocsin.engine.stops import Stops
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import executions

OUTLIVED: Final = "outlived_its_lane"
OUTLIVED_ERROR: Final = AttemptError(OUTLIVED, "no worker took it up before its lane's topic was to forget it")
SILENCE: Final = "silence"
"""Why a lease is lost: the process that held it is gone."""
POISON: Final = "poison"
"""Why an execution is given up that processes die of."""


class Losses:
    """The lost and returned dispatches of one shard.

    Args:
        returns: when what had not started goes out again.
        max_reaps: see ``EngineLimits``.
    """

    def __init__(
        self,
        actives: Actives,
        dispatches: DispatchDesk,
        endings: Endings,
        stops: Stops,
        codec: RecordCodec,
        returns: Returns,
        max_reaps: int,
    ) -> None:
        self._actives = actives
        self._dispatches = dispatches
        self._endings = endings
        self._stops = stops
        self._codec = codec
        self._returns = returns
        self._max_reaps = max_reaps

    def returned(self, step: Step, report: AttemptReport, active: Active, place: LogPlace) -> None:
        """A worker gives the current dispatch back."""
        if active.phase == Phase.LEASED and active.holder != report.worker_id:
            # A successor of the partition found it begun, but a living process holds it.
            step.tally.stale_reports += 1
        elif self._stops.take(step, report, ReportKind.RETURNED, active):
            return
        elif report.started != Started.NO:
            self._lost(step, report, active, place, report.reason or "")
        else:
            self._not_started(step, report, active)

    def _not_started(self, step: Step, report: AttemptReport, active: Active) -> None:
        """It waits and is dispatched again; that costs nothing, whatever its policies are."""
        head = report.head
        wake_at, returns = self._returns.again(report, active.returns, step.now)
        self._dispatches.change(step, head.execution_id, active.waiting(wake_at, head.attempt, head.losses, returns))

    def lose(self, step: Step, execution_id: str) -> None:
        """The process that holds an execution is gone: its attempt may have run."""
        active = self._actives.get(execution_id)
        if active is None or active.phase != Phase.LEASED:
            return
        report = self._endings.unheard(active)
        if self._stops.take(step, report, ReportKind.RETURNED, active):
            return
        self._lost(step, report, active, self._endings.reports_place(), SILENCE)

    def _lost(self, step: Step, report: AttemptReport, active: Active, place: LogPlace, reason: str) -> None:
        """The current dispatch may have run, and nobody will say more of it."""
        head = report.head
        execution = self._codec.decode_execution(active.execution)
        if not execution.is_repeatable:
            error = report.error or AttemptError(reason, MAY_HAVE_RUN)
            self._endings.unknown(step, replace(report, error=error), active, place, execution, reason)
            return
        reaped = report.reason == REAPED
        reaps = active.reaps + reaped
        if reaped and reaps >= self._max_reaps:
            died = report.error.message if report.error else REAPED
            error = AttemptError(POISON, f"poison: {reaps} processes that ran it alone died, the last so: {died}")
            report = replace(report, error=error)
            self._endings.dead(step, report, active, place, execution, ReportKind.FAILED, POISON)
            return
        losses = head.losses + 1
        wake_at = step.now + loss_delay(losses)
        waiting = active._replace(reaps=reaps).waiting(wake_at, head.attempt, losses)
        self._dispatches.change(step, head.execution_id, waiting)

    def outlive(self, step: Step, execution_id: str) -> None:
        """The record of a dispatch will soon be deleted, and no worker has taken it up: it is dispatched again.

        No worker may start the old one from now on, so that it cannot run beside the new one. But a worker may have
        begun it and not said so yet, so what must not run twice ends, as does a message, which could be written twice.
        """
        active = self._actives.get(execution_id)
        if active is None or active.phase != Phase.QUEUED or active.ending is not None:
            return
        execution = self._codec.decode_execution(active.execution)
        head = execution.head
        self._stops.tell_workers(step, execution_id, head.token)
        if execution.is_repeatable and execution.target.type != MessageTarget.type:
            self._dispatches.change(step, execution_id, active.waiting(step.now, head.attempt, head.losses + 1))
            return
        report = AttemptReport(head, execution.head_bytes, ReportKind.RETURNED, "", error=OUTLIVED_ERROR)
        place = (executions(lane_of(execution.target)), self._endings.reports_place()[1], 0)
        self._endings.unknown(step, report, active, place, execution, OUTLIVED)
