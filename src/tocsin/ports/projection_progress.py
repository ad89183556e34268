"""Port: how far the views are filled, for whoever waits until they have seen all that was decided by a moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Ends = Mapping[tuple[str, int], int]
"""Offsets by topic (without the cluster's prefix) and partition."""


class ProjectionProgress(Protocol):
    """Asks the log. Every call may block, and raises ``Unavailable`` where it is not answered."""

    def ends(self) -> Ends:
        """Return the true ends of what runs are filled from; what an open transaction hides is below them."""
        ...

    def behind(self, ends: Ends) -> Ends:
        """Return those of these ends below which the projectors have not filed everything."""
        ...
