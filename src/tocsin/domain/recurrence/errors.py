"""The one error of this room: a recurrence that cannot be accepted, told so that its author can mend it."""

from __future__ import annotations

from tocsin.domain.errors import CallerError, Fault
from tocsin.domain.fields import shown


class CronError(CallerError):
    """A recurrence is refused.

    Attributes:
        problem: what is wrong, as a sentence without a full stop.
        remedy: what would be right.
        position: index of the first wrong character in ``value``, counted from 0; None where no place is to blame.
        field: which input is wrong: ``cron``, ``timezone``, ``dst``, ``every_s`` or ``job_id``.
        value: the input as it was given.
    """

    def __init__(
        self, problem: str, remedy: str, position: int | None = None, field: str = "cron", value: object = ""
    ) -> None:
        self.problem = problem
        self.remedy = remedy
        self.position = position
        self.field = field
        self.value = value
        super().__init__(str(self.fault()))

    def fault(self, prefix: str = "") -> Fault:
        """Return the error as a fault of a definition.

        Args:
            prefix: put before the field's name, such as ``schedule.``.
        """
        where = "" if self.position is None else f"at character {self.position + 1}: "
        return Fault(prefix + self.field, shown(self.value), where + self.problem, self.remedy)
