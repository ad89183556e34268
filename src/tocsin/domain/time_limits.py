"""How long one attempt may take, for every kind of target that has such a limit."""

from __future__ import annotations

from typing import Final

from tocsin.domain.fields import FieldReader

TIMEOUT_S_DEFAULT: Final = 30.0
TIMEOUT_S_MAX: Final = 86_400.0


def parse_timeout(target: FieldReader) -> float:
    """Read the limit of one attempt, seconds; the default where it is absent or a fault was recorded."""
    given = target.number("timeout_s", low=0, high=TIMEOUT_S_MAX, unit="seconds", above_low=True)
    return float(given or TIMEOUT_S_DEFAULT)
