"""What a handler raises to say what is to follow its failure. Any other exception is a failure by the job's policy."""

from __future__ import annotations

import math


class Retry(Exception):
    """Fail this attempt, and ask for another, as far as the job's retry policy has one left.

    Args:
        after_s: seconds until then, at the least; the policy's own delay may be longer, and its ``max_s`` caps this.
        reason: one line for a person.
    """

    after_s: float | None = None
    reason: str = "the handler asked for another attempt"
    """Of subclasses that do not call this class's ``__init__``."""

    def __init__(self, after_s: float | None = None, reason: str = reason) -> None:
        if after_s is not None and not (math.isfinite(after_s) and after_s >= 0):
            raise ValueError(f"after_s is {after_s!r}; give a number of seconds from 0 on, or None")
        super().__init__(reason)
        self.after_s = None if after_s is None else float(after_s)
        self.reason = reason


class Fail(Exception):
    """Fail for good: another attempt would only meet the same.

    Args:
        reason: one line for a person.
    """

    reason: str = "the handler gave up"

    def __init__(self, reason: str = reason) -> None:
        super().__init__(reason)
        self.reason = reason
