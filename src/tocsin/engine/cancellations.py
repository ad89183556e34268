"""Cancels an execution that has not ended, by a command that names it.

Its owner knows of an execution by what is active, so neither its job nor the store is asked: what runs on of a deleted
job can be cancelled, and while the store is away.
"""

from __future__ import annotations

from tocsin.domain import ids
from tocsin.domain.commands import OutcomeDetail
from tocsin.domain.errors import Fault, InvalidInput, Undecodable
from tocsin.domain.fields import shown
from tocsin.engine.actives import Actives
from tocsin.engine.effects import Step
from tocsin.engine.job_commands import Answer, Order
from tocsin.engine.stops import CANCELLED, Stops
from tocsin.ports.codec import ExecutionCodec


class Cancellations:
    """The cancels of one shard."""

    def __init__(self, actives: Actives, stops: Stops, codec: ExecutionCodec) -> None:
        self._actives = actives
        self._stops = stops
        self._codec = codec

    def cancel(self, step: Step, order: Order) -> Answer:
        """Have an execution end: at once where it has not started. Said again, it changes nothing.

        Raises:
            InvalidInput: the command names no execution of its job.
        """
        execution_id = order.command.execution_id or ""
        try:
            name = ids.parse_execution_id(execution_id)
        except Undecodable as error:
            fault = Fault("execution_id", shown(execution_id), str(error), "name the execution that is to end")
            raise InvalidInput([fault]) from None
        if name.job_id != order.job_id:
            remedy = "send it to the job that the execution id begins with"
            raise InvalidInput(
                [Fault("execution_id", shown(execution_id), f"is no execution of {order.job_id}", remedy)]
            )
        active = self._actives.get(execution_id)
        if active is None or self._codec.split_head(active.execution)[0].tenant_id != order.tenant_id:
            problem, remedy = "is not active: it has ended, or has not come up yet", "look at the job's runs"
            fault = Fault("execution_id", shown(execution_id), problem, remedy)
            return Answer(False, OutcomeDetail.ENDED, faults=(fault,))
        at_once = self._stops.begin(step, execution_id, CANCELLED)
        return Answer(True, OutcomeDetail.CANCELLED if at_once else OutcomeDetail.CANCELLING, execution_id=execution_id)
