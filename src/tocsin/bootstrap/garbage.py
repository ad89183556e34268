"""How often a process looks for cyclic garbage."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 50_000
"""Objects made between two looks at the young ones; 700, the default, is two looks for every hundred fires."""


def collect_rarely() -> None:
    """Let the collector leave alone what was loaded until now, and look at the rest more rarely.

    For processes whose records and rows hold no cycles: reference counts free those, and what the collector finds is
    what a library leaves now and then.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
