"""How often a process looks for cyclic garbage."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 50_000
"""Objects made between two looks at the young ones; 700, the default, is two looks for every hundred fires."""


TRIGGER_YOUNG_MAX: Final = 200_000
"""The same of a trigger, which looks when it has nothing to do: a look takes 8 ms for each 50,000, and a burst waits
for it. What its store's client leaves in cycles while it never rests is 200 MiB in a million objects."""


WORKER_YOUNG_MAX: Final = 5_000
"""The same of a worker, in whose process a service's own functions may leave cycles with much in them."""


GATEWAY_YOUNG_MAX: Final = 5_000
"""The same of a gateway: what a failed request leaves in a cycle may hold its body."""


def collect_rarely(young_max: int = YOUNG_MAX) -> None:
    """Let the collector leave alone what was loaded until now, and look at the rest more rarely.

    For processes whose records and rows hold no cycles: reference counts free those, and what the collector finds is
    what a library leaves now and then.
    """
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:  # else a service has turned it off
        gc.set_threshold(max(young, young_max), *older)


def look_when_idle(young_max: int = YOUNG_MAX) -> None:
    """Look at the young objects, 7 ms for 50,000, where so many were made since: to be called while nothing is due."""
    if gc.isenabled() and gc.get_count()[0] >= young_max:
        gc.collect(1)
