"""The one tree of errors, split by whose fault it is.

::

    TocsinError
    ├── CallerError          the request is wrong; sending it again will not help
    │   ├── InvalidInput     one or more faults, each naming field, value and remedy
    │   └── NotFound         nothing is known under that id
    ├── Unavailable          a part we need does not answer; the same call may work later
    ├── TurnAborted          a turn was not committed, and may be sent again as it is
    ├── EngineFault          the step of one shard failed; its state in memory is worth nothing, the log's is
    ├── RecordRefused        the brokers will never take one record of a turn; nothing of the turn was committed
    ├── OwnershipLost        nobody knows what became of a turn, or a successor has fenced its owner
    │   └── TopicsMissing    a turn was not committed, for topics that it writes to are not there
    ├── Corrupt              bytes that we hold or were sent do not mean anything
    │   ├── Undecodable      one record; it is set aside and its neighbours go on
    │   └── StateGap         a shard's log of states has a hole; the shard must not start
    └── Refused              this process must not go on (wrong partition counts, lost ownership, …)

Adapters translate the errors of their drivers into this tree at their edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class TocsinError(Exception):
    """Base of everything that tocsin raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input.

    Attributes:
        field: path of the field in the input, dotted (``schedule.run_at``); empty for the input as a whole.
        value: what was found there, shortened to at most 120 characters.
        problem: what is wrong with it, as a sentence without a full stop.
        remedy: what would be right.
    """

    field: str
    value: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        return f"{where}{self.problem} (got {self.value}); {self.remedy}"


class CallerError(TocsinError):
    """The caller's request cannot be served as it stands."""


class InvalidInput(CallerError):
    """The input has faults; all that were found are listed, so that one round of mending is enough."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


class NotFound(CallerError):
    """Nothing is known under the id."""

    def __init__(self, kind: str, identity: str) -> None:
        super().__init__(f"no {kind} is known as {identity!r}")
        self.kind = kind
        self.identity = identity


class Unavailable(TocsinError):
    """A part that is needed did not answer. The same call may succeed later.

    Attributes:
        part: the operator's name of the part (``kafka``, ``cassandra``, ``trigger``).
    """

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"{part}: {problem}")
        self.part = part


class TurnAborted(TocsinError):
    """A turn was certainly not committed: the group has changed, or brokers were too slow to take its records.

    It may be sent again for what is still owned.
    """


class EngineFault(TocsinError):
    """The step of a shard raised what it never should. The same again will most likely fail again.

    Attributes:
        shard: whose.
        at_hand: what the step was busy with; None where it was nothing of the kind.
    """

    def __init__(self, shard: int, at_hand: object, problem: BaseException) -> None:
        super().__init__(f"shard {shard}: {type(problem).__name__}: {problem}"[:1000])
        self.shard = shard
        self.at_hand = at_hand


class RecordRefused(TocsinError):
    """The brokers refuse a record for what it is, and would each time; its transaction was aborted for certain.

    Attributes:
        shard: whose turn it was in.
        topic: where it was to go.
    """

    def __init__(self, shard: int, topic: str, key: str, problem: str) -> None:
        super().__init__(f"shard {shard}: {topic} does not take the record {key[:100]!r}: {problem}")
        self.shard = shard
        self.topic = topic


class OwnershipLost(TocsinError):
    """An owner must forget what it knows, and begin again from the log under another transactional id."""


class TopicsMissing(OwnershipLost):
    """A turn writes to topics that are not there. ``topics``: their names without the cluster's prefix."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(f"topics are missing: {', '.join(topics)}; restore them, or run `tocsin topics apply`")
        self.topics = tuple(topics)


class Corrupt(TocsinError):
    """Bytes do not mean what they must mean."""


class Undecodable(Corrupt):
    """One record's bytes cannot be read. The record is set aside; its neighbours are not concerned."""


class StateGap(Corrupt):
    """A shard's state cannot be restored without a hole, so the shard must not start."""

    def __init__(self, shard: int, problem: str) -> None:
        super().__init__(f"shard {shard}: {problem}")
        self.shard = shard


class Refused(TocsinError):
    """This process must not go on; the message says what an operator has to do."""
